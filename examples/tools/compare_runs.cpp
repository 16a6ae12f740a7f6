// Compares two runs: mean error of their curves, thresholds, speed.
//   build/bin/compare_runs A B --key critic/rewards/mean --key actor/pg_loss --out comparison.html
// Exit code: 0 within the thresholds, 2 above one of them or without a signal, 1 if the runs cannot be compared.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "rlcore/checkpoint/atomic_file.hpp"
#include "rlcore/config/options.hpp"
#include "rlcore/config/programs/tools.hpp"
#include "rlcore/telemetry/comparison/run_comparison.hpp"
#include "rlcore/telemetry/comparison/run_log.hpp"
#include "rlcore/train/run/program.hpp"

namespace {

using namespace rlcore;

struct request {
  std::string a, b;
  std::vector<std::string> keys;
  std::int64_t steps;
  double threshold;
  bool relative;
  std::filesystem::path out;
};

request read_request(const train::options& o) {
  return {.a = o.get<std::string>("run_a"),
          .b = o.get<std::string>("run_b"),
          .keys = o.list("key"),
          .steps = o.find<std::int64_t>("steps").value_or(0),
          .threshold = o.find<double>("threshold").value_or(-1),
          .relative = o.get<bool>("relative"),
          .out = o.find<std::string>("out").value_or("")};
}

/// 0 within the thresholds, 2 above or where a curve that was named is 0 throughout.
int compare(const request& r) {
  train::run_pair pair{r.a, r.b, {}, {}};
  const auto a = train::read_run(r.a), b = train::read_run(r.b);
  std::vector<std::string> keys = r.keys;
  if (keys.empty()) {
    const auto in_a = train::names_of(a), in_b = train::names_of(b);
    for (const char* name : {"critic/rewards/mean", "train/loss"})
      if (std::count(in_a.begin(), in_a.end(), name) + std::count(in_b.begin(), in_b.end(), name) > 0)
        keys.emplace_back(name);
    if (keys.empty())
      throw config_error("say what to compare with --key NAME; A has " + (in_a.empty() ? "nothing" : in_a.front()) +
                         (in_a.size() > 1 ? " and " + std::to_string(in_a.size() - 1) + " more" : ""));
  }
  for (const std::string& asked : keys)
    for (const std::string& key : train::expand_key(asked, a, b)) {
      pair.curves.push_back(train::compare_curve(a, b, key, r.steps, r.threshold, r.relative));
      pair.curves.back().needs_signal = key == asked;
    }
  pair.speed = train::compare_speed(a, b);
  if (!r.out.empty()) rlcore::checkpoint::write_file_atomically(r.out, train::run_comparison_html(pair));
  std::fputs(train::run_comparison_table(pair).c_str(), stdout);
  if (!r.out.empty()) std::printf("page  %s\n", r.out.c_str());
  return pair.within() ? 0 : 2;
}

}  // namespace

int main(int argc, char** argv) {
  int code = 0;
  const int failed = train::run_program("compare_runs", [&] {
    const auto options = train::options::parse(argc, argv, train::compare_runs_registry());
    if (options.answer()) return void(std::fputs(options.answer()->c_str(), stdout));
    code = compare(read_request(options));
  });
  return failed != 0 ? failed : code;
}
