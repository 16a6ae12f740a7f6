// Runs an evaluation from a command line: problems or stored responses, sampling, judging, the table. trainers.hpp
// declares it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "rlcore/config/options.hpp"
#include "rlcore/data/table.hpp"
#include "rlcore/rollout/engine.hpp"
#include "rlcore/telemetry/console.hpp"
#include "rlcore/train/evaluation/sampled_problems.hpp"
#include "rlcore/train/evaluation/stored_responses.hpp"
#include "rlcore/train/files/model_files.hpp"
#include "rlcore/train/model/answer_requests.hpp"
#include "rlcore/train/model/scored_groups.hpp"
#include "rlcore/train/policy/check_memory.hpp"
#include "rlcore/train/ranks/byte_stream.hpp"
#include "rlcore/train/ranks/resources.hpp"
#include "rlcore/train/run/trainers.hpp"

RLCORE_BEGIN
namespace train {

namespace detail {

/// Gives every rank the responses of all `ranks`, in rank order.
inline std::vector<rollout::response> gather_responses(parallel::any_communicator* ranks,
                                                       std::vector<rollout::response> mine) {
  if (ranks == nullptr || ranks->size() == 1) return mine;
  byte_writer to;
  for (const rollout::response& r : mine) to(r.tokens), to(r.reason);
  const std::vector<std::byte> bytes = gather_parts(*ranks, std::span<const std::byte>(to.bytes));
  std::vector<rollout::response> responses;
  byte_reader from(bytes);
  while (!from.done()) {
    rollout::response& r = responses.emplace_back();
    from(r.tokens), from(r.reason);
  }
  return responses;
}

/// Warns if the responses to `problems` of a round may not fit into one rank's share of memory, of `sharing` ranks.
inline void warn_about_memory(std::size_t problems, std::int64_t n, std::int64_t response, int sharing) {
  auto host = available_memory();
  if (host) *host /= static_cast<std::size_t>(sharing);
  const std::string warning = check_memory({"rollout.n", static_cast<std::int64_t>(problems), n, "it", "responses",
                                            sizeof(rollout::request) + sizeof(rollout::response)},
                                           0, response, host);
  if (!warning.empty()) say("warning: %s\n", warning.c_str());
}

/// Samples rollout.n responses per problem, in rounds of a few hundred, and writes each round to the disk. `ranks`
/// share the work; the first rank writes.
template <class Device>
void sample_and_judge(Device& device, const options& opt, const judge& judge, evaluation_summary& summary,
                      std::optional<generation_log>& log, const std::filesystem::path& output,
                      parallel::any_communicator* ranks) {
  evaluated_problems asked(opt, judge);
  const auto n = opt.get<std::int64_t>("rollout.n");
  rollout::generation& settings = asked.settings;
  const int sharing = ranks == nullptr ? 1 : find_local_place(*ranks).size;
  const std::size_t parts = ranks == nullptr ? 1 : static_cast<std::size_t>(ranks->size()),
                    part = ranks == nullptr ? 0 : static_cast<std::size_t>(ranks->rank());
  const auto per_round = static_cast<std::size_t>(std::max<std::int64_t>(1, 4 * settings.max_sequences / n)) * parts;
  warn_about_memory(std::min(asked.prompts.size(), per_round), n, settings.max_new_tokens, sharing);
  if (static_cast<std::int64_t>(asked.tokenizer.vocab_size()) > asked.config.vocab_size)
    throw format_error(asked.folder.string() + ": the tokenizer has " + std::to_string(asked.tokenizer.vocab_size()) +
                       " tokens, the model only " + std::to_string(asked.config.vocab_size));

  nn::causal_lm<Device> model(device, asked.config, {}, nn::weights_in::packed);
  load_packed(model, asked.folder, settings.weights, [](std::size_t, std::span<const float>) {});
  if (const auto memory = available_memory_of(device, sharing))
    settings.max_cache_bytes =
        static_cast<std::size_t>(opt.get<double>("rollout.gpu_memory_utilization") * static_cast<double>(*memory));
  if (part == 0) log.emplace(output);
  nn::workspace<Device> space(device, static_cast<std::size_t>(opt.get<std::int64_t>("rlcore.logits_memory_mb")) << 20);
  say("model    %s, %.3g M parameters, on %s\n", asked.folder.c_str(), static_cast<double>(model.size()) * 1e-6,
      describe(device).c_str());
  asked.introduce(n);
  std::fflush(stdout);

  rollout::engine<Device> engine;
  judge_rounds(opt, asked, judge, per_round, part == 0, summary, log,
               [&](const std::vector<rollout::request>& requests, auto&& progress) {
                 const row_range shard = even_share(requests.size(), parts, part);
                 const auto begin = requests.begin() + static_cast<std::ptrdiff_t>(shard.first);
                 return gather_responses(
                     ranks, answer_requests(engine, model, space,
                                            {begin, begin + static_cast<std::ptrdiff_t>(shard.size())}, asked.prompts,
                                            settings, {}, [&](std::size_t done) { progress(done, shard.size()); }));
               });
}

}  // namespace detail

/// Throws config_error for incompatible settings, std::invalid_argument without a device and stored responses.
template <class Device>
void evaluate(Device* device, const options& opt, parallel::any_communicator* ranks) {
  evaluate_with(opt, [&](const detail::judge& judge, evaluation_summary& summary,
                         std::optional<detail::generation_log>& log, const std::filesystem::path& folder) {
    const std::vector<std::string> stored = opt.list("responses");
    if (stored.empty()) {
      if (device == nullptr) throw std::invalid_argument("rlcore: evaluate: no device and no stored responses");
      detail::check_problem_files(opt);
      return detail::sample_and_judge(*device, opt, judge, summary, log, folder, ranks);
    }
    for (const char* key : {"server", "model.path", "data.files"})
      if (opt.is_set(key))
        throw config_error(std::string("responses= and ") + key + "= together; expected one of them");
    check_data_files(opt, "responses", data::check_readable);
    const std::vector<stored_response> responses = read_stored_responses(stored, judge.rule.has_value());
    for (const stored_response& s : responses) judge.check(s.source);
    log.emplace(folder);
    for (const stored_response& s : responses) {
      const judged_response r{s.source, s.problem, judge(s.source, s.text, s.truth)};
      summary.add(r);
      log->write(detail::judged_line(r, s.prompt, s.text, s.truth));
    }
  });
}

}  // namespace train
RLCORE_END
