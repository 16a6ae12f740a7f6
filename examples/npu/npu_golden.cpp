// Compares the operators of an Ascend NPU with the emulator's, through files:
//   build/bin/npu_golden record DIR                       runs every operator on the emulated machine and writes DIR
//   build/bin/npu_golden replay DIR                       runs the same on this machine's CANN and compares
//   build/bin/npu_golden record DIR --provider cann       the other way round: writes what this machine's NPU does
//   build/bin/npu_golden replay DIR --provider emulator   compares the emulator with what was recorded
// More: --device N; --report FILE (default DIR/report.json); record: --soc NAME, --cann 80300 (the machine to emulate).
// Exit code of replay: 0 if every case that could run is within its bound, 2 otherwise; 1 if it cannot be done.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "golden_case.hpp"
#include "golden_runner.hpp"
#include "golden_set.hpp"
#include "rlcore/config/options.hpp"
#include "rlcore/config/programs/tools.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/core/version.hpp"
#include "rlcore/device/npu/provider.hpp"
#include "rlcore/device/npu/trace.hpp"
#include "rlcore/emulator/emulated_npu.hpp"
#include "rlcore/text/parse_json.hpp"
#include "rlcore/text/text_file.hpp"

namespace {

namespace ascend = rlcore::ascend;
namespace fs = std::filesystem;
using golden::golden_case;
using nlohmann::json;

struct settings {
  std::string command, provider;  ///< cann or emulator
  fs::path folder, report;
  int device = 0;
  ascend::emulated::settings machine;
};

settings read_settings(const rlcore::train::options& o) {
  settings s;
  s.command = o.get<std::string>("operation");
  s.provider = o.find<std::string>("provider").value_or(s.command == "record" ? "emulator" : "cann");
  s.folder = o.get<std::string>("folder");
  s.report = o.find<std::string>("report").value_or((s.folder / "report.json").string());
  s.device = static_cast<int>(o.get<std::int64_t>("device"));
  s.machine.soc = o.get<std::string>("soc");
  s.machine.cann_version = static_cast<int>(o.get<std::int64_t>("cann"));
  return s;
}

/// Lines of text with columns of equal width; the first row is the heading.
void print_table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> width;
  for (const auto& row : rows)
    for (std::size_t c = 0; c < row.size(); ++c) {
      if (width.size() <= c) width.push_back(0);
      width[c] = std::max(width[c], row[c].size());
    }
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t c = 0; c < row.size(); ++c) {
      const bool number = c >= 4 && c <= 8;
      const std::string gap(width[c] - row[c].size(), ' ');
      line += (c == 0 ? "" : "  ") + (number ? gap + row[c] : row[c] + gap);
    }
    while (!line.empty() && line.back() == ' ') line.pop_back();
    std::printf("%s\n", line.c_str());
  }
}
std::string text(double x, const char* how = "%.3g") {
  char digits[32];
  std::snprintf(digits, sizeof digits, how, x);
  return digits;
}

/// A queue that is recreated after a device failure, since a failed device stays unusable.
class restarted_queue {
 public:
  restarted_queue(const ascend::calls& table, std::string name, int device)
      : table_(table), name_(std::move(name)), device_(device) {
    start();
  }
  ascend::queue& operator*() { return *queue_; }
  const ascend::capabilities& known() const { return known_; }
  void seen(const ascend::npu_error& e) {
    if (e.domain == ascend::domain::operators) return;  // refused on the host
    queue_.reset();
    session_.reset();
    start();
  }

 private:
  void start() {
    session_ = ascend::session::open(table_, name_);
    known_ = session_->known();
    queue_ = std::make_unique<ascend::queue>(session_, device_, ascend::queue_settings{true, true, false});
  }

  const ascend::calls& table_;
  std::string name_;
  int device_;
  std::shared_ptr<ascend::session> session_;
  std::unique_ptr<ascend::queue> queue_;
  ascend::capabilities known_;
};

/// The emulator's results, as inputs of later cases if the machine produced none.
golden::tensors emulated(const settings& s, const golden_case& c) try {
  const ascend::emulator machine(s.machine);
  ascend::queue q(ascend::session::open(machine.calls(), machine.name()), 0);
  return golden::runner(q).run(c);
} catch (const ascend::npu_error&) {
  return {};
}

/// An operator that is missing, or that this CANN is too old for, is absent; another one failed.
const char* verdict_on(const ascend::npu_error& e, const golden_case& c, int cann_version) {
  const bool missing = dynamic_cast<const ascend::capability_error*>(&e) != nullptr;
  return missing || cann_version < c.description.value("from_cann", 0) ? "absent" : "error";
}

template <class P>
int record(const settings& s, const P& provider) {
  const std::string name(provider.name());
  restarted_queue q(ascend::traced_if_asked(provider.calls()), name, s.device);
  fs::create_directories(s.folder);
  std::ofstream list(s.folder / "cases.jsonl");
  std::set<std::string> operators;
  int count = 0, failed = 0;
  golden::case_set set([&](golden_case& c) {
    try {
      c.results = golden::runner(*q).run(c);
      golden::write(s.folder, c);
    } catch (const ascend::npu_error& e) {
      c.description["failure"] = {{"verdict", verdict_on(e, c, q.known().cann_version)}, {"why", e.what()}};
      ++failed;
      q.seen(e);
      c.results = emulated(s, c);
    }
    list << c.description.dump() << '\n' << std::flush;  // keeps results from before a crash
    operators.insert(c.description["operator"]);
    ++count;
  });
  set.all();
  const bool modelled = s.provider == "emulator";
  json about{{"format", 1}, {"rlcore", RLCORE_VERSION_STRING}, {"cases", count}, {"failed", failed}};
  if (modelled)
    about["modelled"] = {{"soc", s.machine.soc}, {"cann", s.machine.cann_version}};
  else
    about["machine"] = {{"provider", name}, {"soc", q.known().soc}, {"cann", q.known().cann_version_text}};
  std::ofstream file(s.folder / "about.json");
  file << about.dump(2) << '\n';
  if (!list.flush() || !file.flush()) throw rlcore::file_error("cannot write " + s.folder.string());
  std::printf("%d cases of %zu operators by %s%s in %s\n", count, operators.size(),
              modelled ? ("the " + name).c_str() : name.c_str(), modelled ? " (modelled, no hardware)" : "",
              s.folder.string().c_str());
  if (failed > 0)
    std::printf("%d of them without a result: the operator is missing, this CANN is too old for it, or it failed\n",
                failed);
  return 0;
}

std::vector<json> read_lines(const fs::path& path) {
  rlcore::text::check_input_kind(path);
  std::ifstream file(path);
  if (!file) throw rlcore::file_error("cannot read " + path.string() + "; npu_golden record makes it");
  std::vector<json> lines;
  for (std::string line; std::getline(file, line);) {
    lines.push_back(rlcore::text::try_parse_json<json>(line));
    if (lines.back().is_discarded())
      throw rlcore::format_error(path.string() + ":" + std::to_string(lines.size()) + ": not JSON");
  }
  return lines;
}

/// The verdicts of all outputs of a case, as rows of the table and of the report.
struct verdicts {
  std::vector<std::vector<std::string>> rows{
      {"case", "operator", "output", "type", "elements", "equal %", "mean ulp", "max ulp", "bound", "verdict"}};
  json report = json::array();
  int passed = 0, failed = 0, absent = 0;

  void see(const golden_case& c, const golden::tensors& found) {
    const auto op = c.description.at("operator").get<std::string>();
    const json& ulps = c.description.at("ulps");
    for (const auto& [name, expected] : c.results) {
      if (expected.size() == 0) continue;
      const double bound = (ulps.is_object() ? ulps.at(name) : ulps).get<double>();
      const golden::tensor& got = found.at(name);
      const golden::difference d = golden::compare(expected, got, c.description.at("relative_to") == "rms");
      const bool good = d.largest <= bound;
      ++(good ? passed : failed);
      const std::string type(ascend::name_of(expected.type));
      rows.push_back({c.name(), op, name, type, std::to_string(expected.size()), text(100 * d.equal, "%.1f"),
                      text(d.mean), text(d.largest), text(bound), good ? "pass" : "FAIL"});
      json row{{"case", c.name()},
               {"operator", op},
               {"output", name},
               {"type", type},
               {"elements", expected.size()},
               {"equal", d.equal},
               {"mean_ulp", text(d.mean)},
               {"max_ulp", text(d.largest)},
               {"bound", bound},
               {"verdict", good ? "pass" : "fail"}};
      if (d.equal < 1)
        row["farthest"] = {{"element", d.where},
                           {"expected", text(expected.value(d.where), "%.9g")},
                           {"found", text(got.value(d.where), "%.9g")}};
      report.push_back(row);
    }
  }
  void refuse(const golden_case& c, const std::string& verdict, const std::string& why) {
    ++(verdict == "absent" ? absent : failed);
    const auto op = c.description.at("operator").get<std::string>();
    rows.push_back({c.name(), op, "", "", "", "", "", "", "", verdict == "absent" ? verdict : "FAIL: " + why});
    report.push_back({{"case", c.name()}, {"operator", op}, {"verdict", verdict}, {"why", why}});
  }
};

template <class P>
int replay(const settings& s, const P& provider) {
  const std::string name(provider.name());
  restarted_queue q(ascend::traced_if_asked(provider.calls()), name, s.device);
  verdicts all;
  const std::vector<json> lines = read_lines(s.folder / "cases.jsonl");
  for (const json& line : lines) {
    if (line.contains("failure")) {
      const json& f = line["failure"];
      all.refuse({line, {}, {}}, f.at("verdict"), "where it was recorded: " + f.at("why").get<std::string>());
      continue;
    }
    const golden_case c = golden::read(s.folder, line);
    try {
      all.see(c, golden::runner(*q).run(c));
    } catch (const ascend::npu_error& e) {
      all.refuse(c, verdict_on(e, c, q.known().cann_version), e.what());
      q.seen(e);
    }
  }
  print_table(all.rows);
  const json report{{"format", 1},
                    {"rlcore", RLCORE_VERSION_STRING},
                    {"provider", name},
                    {"soc", q.known().soc},
                    {"cann", q.known().cann_version_text},
                    {"passed", all.passed},
                    {"failed", all.failed},
                    {"absent", all.absent},
                    {"outputs", all.report}};
  std::ofstream file(s.report);
  file << report.dump(1) << '\n';
  if (!file.flush()) throw rlcore::file_error("cannot write " + s.report.string());
  std::printf("\n%s%s: %d outputs within their bounds, %d not, %d cases that this CANN lacks\nreport: %s\n",
              name.c_str(), s.provider == "emulator" ? " (modelled, no hardware)" : "", all.passed, all.failed,
              all.absent, s.report.string().c_str());
  return all.failed == 0 && all.passed > 0 ? 0 : 2;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const auto options = rlcore::train::options::parse(argc, argv, rlcore::train::npu_golden_registry());
    if (options.answer()) {
      std::fputs(options.answer()->c_str(), stdout);
      return 0;
    }
    const settings s = read_settings(options);
    const auto run = [&](const auto& provider) {
      return s.command == "record" ? record(s, provider) : replay(s, provider);
    };
    return s.provider == "emulator" ? run(ascend::emulator(s.machine)) : run(ascend::dynamic_provider());
  } catch (const std::exception& e) {
    const bool no_cann = std::string_view(e.what()).find("no CANN") != std::string_view::npos;
    std::fprintf(stderr, "npu_golden: %s%s\n", e.what(), no_cann ? "; --provider emulator needs none" : "");
    return 1;
  }
}
