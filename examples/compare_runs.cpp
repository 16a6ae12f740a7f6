// Two runs beside each other: mean error of their curves, thresholds, speed.
//   build/bin/compare_runs A B --key critic/rewards/mean --key actor/pg_loss --out comparison.html
// Exit code: 0 within the thresholds, 2 above one of them, 1 if the runs cannot be compared.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "rlcore/telemetry/comparison/run_comparison_page.hpp"
#include "rlcore/telemetry/comparison/run_log.hpp"
#include "rlcore/telemetry/report/report.hpp"
#include "rlcore/trainer/program.hpp"

namespace {

using namespace rlcore;

constexpr const char* usage =
    "compare_runs: how far run A is from the reference run B\n"
    "\n"
    "Usage: compare_runs A B [options]; each a metrics.jsonl, the folder of a run, or a console log\n"
    "\n"
    "  --key NAME       metric to compare, several times if wanted; 'critic/*': all that begin so; '*': all but times\n"
    "                   (default: critic/rewards/mean or train/loss, whichever the runs have)\n"
    "  --steps N        only the first N steps that both runs have\n"
    "  --threshold X    largest mean error, as a number: 0.04 is 4 % (default: 0.04 rewards and scores, 0.02 others)\n"
    "  --relative       compare |A - B| / |B| with the threshold instead of |A - B|\n"
    "  --out FILE       also a page with both curves (HTML, nothing from outside)\n"
    "\n"
    "Exit code: 0 within the thresholds, 2 above one of them, 1 if the runs cannot be compared.\n";

struct request {
  std::vector<std::string> runs, keys;
  long long steps = 0;
  double threshold = -1;
  bool relative = false, help = false;
  std::filesystem::path out;
};

template <class T>
T number(const std::string& text, const std::string& flag, T least, const char* expected) {
  T x{};
  const auto end = std::from_chars(text.data(), text.data() + text.size(), x);
  if (end.ec != std::errc() || end.ptr != text.data() + text.size() || !(x >= least))
    throw config_error(flag + " " + text + ": expected " + expected);
  return x;
}

request read_request(int argc, char** argv) {
  const std::vector<std::string> flags{"--key", "--steps", "--threshold", "--relative", "--out", "--help"};
  request r;
  for (int i = 1; i < argc; ++i) {
    std::string word = argv[i];
    if (!word.starts_with('-')) {
      r.runs.push_back(word);
      continue;
    }
    const std::size_t equal = word.find('=');
    const std::string flag = word.substr(0, equal);
    const auto value = [&]() -> std::string {
      if (equal != std::string::npos) return word.substr(equal + 1);
      if (i + 1 >= argc) throw config_error(flag + " needs a value");
      return argv[++i];
    };
    if (flag == "--key") {
      r.keys.push_back(value());
    } else if (flag == "--steps") {
      r.steps = number<long long>(value(), flag, 1, "a number of steps");
    } else if (flag == "--threshold") {
      r.threshold = number<double>(value(), flag, 0, "a number >= 0, such as 0.04 for 4 %");
    } else if (flag == "--relative") {
      r.relative = true;
    } else if (flag == "--out") {
      r.out = value();
    } else if (flag == "--help" || flag == "-h") {
      r.help = true;
    } else {
      throw config_error("unknown option '" + flag + "'" + did_you_mean(flag, flags) + "; see --help");
    }
  }
  if (!r.help && r.runs.size() != 2)
    throw config_error("expected two runs, A and the reference B, got " + std::to_string(r.runs.size()) +
                       "; see --help");
  return r;
}

/// 0 within the thresholds, 2 above.
int compare(const request& r) {
  trainer::run_pair pair{r.runs[0], r.runs[1], {}, {}};
  const auto a = trainer::read_run(r.runs[0]), b = trainer::read_run(r.runs[1]);
  std::vector<std::string> keys = r.keys;
  if (keys.empty()) {
    const auto in_a = trainer::names_of(a), in_b = trainer::names_of(b);
    for (const char* name : {"critic/rewards/mean", "train/loss"})
      if (std::count(in_a.begin(), in_a.end(), name) + std::count(in_b.begin(), in_b.end(), name) > 0)
        keys.emplace_back(name);
    if (keys.empty())
      throw config_error("say what to compare with --key NAME; A has " + (in_a.empty() ? "nothing" : in_a.front()) +
                         (in_a.size() > 1 ? " and " + std::to_string(in_a.size() - 1) + " more" : ""));
  }
  for (const std::string& asked : keys)
    for (const std::string& key : trainer::expand_key(asked, a, b))
      pair.curves.push_back(trainer::compare_curve(a, b, key, r.steps, r.threshold, r.relative));
  pair.speed = trainer::compare_speed(a, b);
  if (!r.out.empty()) trainer::write_page(r.out, trainer::run_comparison_html(pair));
  std::fputs(trainer::run_comparison_table(pair).c_str(), stdout);
  if (!r.out.empty()) std::printf("page  %s\n", r.out.c_str());
  return pair.within() ? 0 : 2;
}

}  // namespace

int main(int argc, char** argv) {
  int code = 0;
  const int failed = trainer::run_program("compare_runs", [&] {
    const request r = read_request(argc, argv);
    if (r.help) {
      std::fputs(usage, stdout);
    } else {
      code = compare(r);
    }
  });
  return failed != 0 ? failed : code;
}
