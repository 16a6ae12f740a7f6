// Measures this host, and compares the plan with it.
#pragma once

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "rlcore/config/options.hpp"
#include "rlcore/config/programs/plan.hpp"
#include "rlcore/core/abi.hpp"
#include "rlcore/parallel/launch.hpp"
#include "rlcore/parallel/world.hpp"
#include "rlcore/planning/cluster.hpp"
#include "rlcore/planning/measure_rank.hpp"
#include "rlcore/planning/plan.hpp"
#include "rlcore/planning/read_plan.hpp"
#include "rlcore/planning/stage_times.hpp"
#include "rlcore/train/model/trainable_model.hpp"
#include "rlcore/train/ranks/resources.hpp"

RLCORE_BEGIN
namespace train::planning {

/// One quantity, measured and predicted.
struct check_line {
  std::string name;
  std::int64_t ranks = 1;
  double measured = 0, predicted = 0;  ///< seconds
};

/// The sizes of these models differ from the calibrated ones.
std::vector<nn::config> check_models();

/// Times one optimizer step over `rows` sequences of `length` tokens, all of them targets. All ranks call it.
check_line check_step(cpu& device, parallel::any_communicator& c, const cluster& host, const nn::config& config,
                      int zero, std::int64_t rows, std::int64_t length);

/// Times ZeRO-3 without its arithmetic: layers of `values` floats are gathered in the forward, and gathered again and
/// summed in the backward.
check_line check_sequence(cpu& device, parallel::any_communicator& c, const cluster& host, std::size_t values);

/// The table of all lines, in milliseconds, with the ratio of measured to predicted.
std::string check_text(const std::vector<check_line>& lines);

/// Settings of plan calibrate: the file to write, the numbers of ranks to measure, threads of a rank, seconds for each
/// measurement, and whether to check the predictions.
struct calibration {
  std::string out;
  std::vector<int> ranks;
  int threads = 1;
  double seconds = 0.02;
  bool check = true;
};

/// The settings of plan calibrate. Throws config_error unless each of `ranks` is a number from 1 to 1024.
inline calibration read_calibration(const options& o) {
  calibration s;
  s.out = o.get<std::string>("out");
  s.threads = static_cast<int>(o.get<std::int64_t>("threads"));
  s.seconds = o.get<double>("seconds");
  s.check = o.get<bool>("check");
  for (const std::string& text : o.list("ranks")) {
    int n = 0;
    const auto end = std::from_chars(text.data(), text.data() + text.size(), n);
    if (end.ec != std::errc() || end.ptr != text.data() + text.size() || n < 1 || n > 1024)
      throw config_error("ranks=" + text + ": expected a number from 1 to 1024, or a list of them");
    s.ranks.push_back(n);
  }
  return s;
}

/// Measures this machine with each number of ranks as threads, or with the ranks that mpirun started, and writes s.out.
/// Returns the text that rank 0 prints; it is empty on all other ranks.
inline std::string calibrate(const calibration& s) {
  cluster host;
  host.name = "this host";
  host.source = "measured by plan calibrate, " + std::to_string(s.threads) +
                (s.threads == 1 ? " thread a rank" : " threads a rank");
  host.overlap = 0, host.value_bytes = 4, host.layer_floor = 0;
  std::vector<check_line> lines;
  bool first = true;
  const int processes = parallel::ranks_of_environment();
  for (const int ranks : processes > 1 ? std::vector<int>{processes} : s.ranks) {
    parallel::launch_settings settings;
    settings.thread_ranks = processes > 1 ? 1 : ranks;
    parallel::launch(settings, [&](parallel::any_communicator& c) {
      cpu device(s.threads);
      measured_rank r = rank_meter(device, c, s.seconds).measure();
      if (c.rank() == 0) {
        host.measured.push_back(r);
        host.devices_per_node = std::max<std::int64_t>(host.devices_per_node, ranks);
        host.memory = static_cast<double>(available_memory().value_or(0)) / ranks;
        host.memory_bandwidth = 12 * r.add;
        host.peak = r.forward.rows.back().over_y.points.back().y;
        host.training_share = host.scoring_share = host.decode_share = 1;
        if (!r.all_gather.empty()) {
          const curve::point& last = r.all_gather.points.back();
          host.node_bandwidth = last.x * (ranks - 1) / ranks / last.y;
        }
      }
      first = c.rank() == 0 || processes == 1;
      if (!s.check) return;
      c.barrier();
      const cluster known = host;  // threads share the value; with processes only rank 0 prints
      std::vector<check_line> checks;
      for (const nn::config& config : check_models())
        for (const int zero : ranks == 1 ? std::vector<int>{0} : std::vector<int>{0, 2, 3})
          checks.push_back(check_step(device, c, known, config, zero, 16, 32));
      if (ranks > 1)
        for (const std::size_t values : {50'000u, 400'000u, 2'000'000u, 6'000'000u})
          checks.push_back(check_sequence(device, c, known, values));
      if (c.rank() == 0) lines.insert(lines.end(), checks.begin(), checks.end());
    });
  }
  if (!first) return {};
  if (host.node_bandwidth == 0) host.node_bandwidth = host.memory_bandwidth / 2;
  host.network_bandwidth = host.node_bandwidth;
  write_cluster(s.out, host);
  return "wrote " + s.out + "\n" + (lines.empty() ? "" : "\n" + check_text(lines));
}

}  // namespace train::planning
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_PLANNING)
RLCORE_BEGIN
namespace train::planning {

RLCORE_INLINE std::vector<nn::config> check_models() {
  const auto model = [](std::int64_t vocabulary, std::int64_t hidden, std::int64_t intermediate, std::int64_t layers,
                        std::int64_t heads, std::int64_t kv_heads) {
    nn::config c;
    c.vocab_size = vocabulary, c.hidden_size = hidden, c.intermediate_size = intermediate;
    c.num_hidden_layers = layers, c.num_attention_heads = heads, c.num_key_value_heads = kv_heads;
    c.head_dim = hidden / heads;
    return c;
  };
  return {model(1000, 96, 288, 3, 3, 1), model(2000, 192, 576, 4, 6, 2), model(3000, 384, 1024, 4, 6, 2)};
}

RLCORE_INLINE check_line check_step(cpu& device, parallel::any_communicator& c, const cluster& host,
                                    const nn::config& config, int zero, std::int64_t rows, std::int64_t length) {
  parallel::parallel_settings settings;
  settings.zero = zero;
  parallel::world world(c, settings);
  train::trainable_model<cpu> model(device, config, {}, &world);
  {
    const auto whole = model.gather_full_params();
    model.model.initialize(1);
  }
  const std::int64_t micro_rows = std::max<std::int64_t>(1, rows / 8);
  const auto step = [&] {
    model.begin_update();
    model.for_micro_batches(
        {.rows = static_cast<std::size_t>(rows), .max_rows = micro_rows}, [&](std::uint32_t) { return length; },
        [&](std::span<const std::uint32_t> mine) {
          ragged<std::int32_t> inputs;
          nn::targets targets;
          std::vector<std::int32_t> text(static_cast<std::size_t>(length));
          for (std::size_t k = 0; k < mine.size(); ++k) {
            for (std::int64_t t = 0; t < length; ++t) {
              const std::int64_t at = static_cast<std::int64_t>(mine[k]) * length + t;
              text[static_cast<std::size_t>(t)] = static_cast<std::int32_t>(at * 7919 % config.vocab_size);
              targets.row.push_back(static_cast<std::int32_t>(static_cast<std::int64_t>(k) * length + t));
              targets.token.push_back(static_cast<std::int32_t>((at + 1) * 7919 % config.vocab_size));
            }
            inputs.push_back(std::span<const std::int32_t>(text));
          }
          model.forward_backward(inputs, targets, 1.0f, [&](auto logp, auto, auto dlogp, auto) {
            for (std::size_t i = 0; i < logp.size(); ++i) dlogp[i] = -1.0f / static_cast<float>(rows * length);
          });
        });
    model.apply({.lr = 1e-6, .grad_clip = 1});
  };
  check_line line;
  line.ranks = c.size();
  line.measured = rank_meter(device, c, 0.1).time(step);

  model_shape shape = shape_of(config);
  workload w;
  w.prompts = rows, w.responses = 1, w.prompt_length = 1, w.response_length = length - 1;
  w.micro_tokens = micro_rows * length, w.recompute = false, w.old_log_probs = false;
  layout l;
  l.data = c.size(), l.zero = zero;
  line.predicted = times_of(shape, l, w, host, memory_of(shape, l, w, host)).update;
  line.name = "step, " + std::to_string(shape.parameters() / 1000) + "k parameters, " + std::to_string(rows * length) +
              " tokens, zero" + std::to_string(zero);
  return line;
}

RLCORE_INLINE check_line check_sequence(cpu& device, parallel::any_communicator& c, const cluster& host,
                                        std::size_t values) {
  const auto ranks = static_cast<std::size_t>(c.size()), self = static_cast<std::size_t>(c.rank());
  constexpr int layers = 8;
  std::vector<std::vector<float>> whole(layers, std::vector<float>(values, 1.0f)), gradient = whole;
  std::vector<std::size_t> counts(ranks, values / ranks);
  counts.back() += values % ranks;
  parallel::exchange_scratch scratch;
  parallel::piece_sum sum(parallel::reduction_kind::tree, ranks);
  std::vector<float> out(counts[self]);
  const auto gather = [&](std::size_t layer) {
    c.all_gather_v(std::span<const float>(whole[layer]).subspan(self * counts[0], counts[self]),
                   std::span<float>(whole[layer]), std::span<const std::size_t>(counts));
  };
  check_line line;
  line.ranks = c.size();
  line.measured = rank_meter(device, c, 0.1).time([&] {
    for (std::size_t k = 0; k < layers; ++k) gather(k);
    for (std::size_t k = layers; k-- > 0;) {
      gather(k);
      sum.begin(counts[self]);
      parallel::exchange(
          c, gradient[k].data(), counts, scratch, [](std::size_t) { return true; },
          [&](std::size_t from, const float* x) { sum.push({0, from}, x); });
      sum.end_round();
      sum.write(out);
    }
  });
  const double bytes = 4 * static_cast<double>(values);
  const rank_group group{c.size(), 1};
  line.predicted = layers * (2 * seconds(host, collective::all_gather, group, bytes) +
                             seconds(host, collective::ordered_sum, group, bytes));
  line.name = "8 layers of " + short_number(bytes / 1e6) + " MB: 16 gathers, 8 sums";
  return line;
}

RLCORE_INLINE std::string check_text(const std::vector<check_line>& lines) {
  aligned_table t;
  t.add({"measured and predicted", "ranks", "measured ms", "predicted ms", "measured / predicted"});
  for (const check_line& l : lines)
    t.add({l.name, std::to_string(l.ranks), short_number(1e3 * l.measured), short_number(1e3 * l.predicted),
           short_number(l.measured / l.predicted)});
  return t.text();
}

}  // namespace train::planning
RLCORE_END
#endif
