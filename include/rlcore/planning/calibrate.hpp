// plan calibrate: measures this machine, writes cluster.json and checks its predictions.
#pragma once

#include <charconv>
#include <cstdint>
#include <string>
#include <vector>

#include "rlcore/config/options.hpp"
#include "rlcore/config/programs/plan.hpp"
#include "rlcore/core/abi.hpp"
#include "rlcore/parallel/launch.hpp"
#include "rlcore/planning/check_host.hpp"
#include "rlcore/planning/cluster_file.hpp"
#include "rlcore/training/ranks/available_memory.hpp"

RLCORE_BEGIN
namespace trainer::planning {

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

}  // namespace trainer::planning
RLCORE_END
