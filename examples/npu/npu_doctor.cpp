// NPU diagnosis: which parts of CANN this machine has, whether rlcore can use them, and how to fix problems:
//   build/bin/npu_doctor               this machine; exit code 0 if a training can start
//   build/bin/npu_doctor --device 1    checks this device instead of 0
//   build/bin/npu_doctor --emulator    the same on the emulated machine
//   build/bin/npu_doctor --report FILE.tar.gz   all that is to be known of this machine, in one archive (docs/npu.md)
//   build/bin/npu_doctor --rules       what the emulator checks of a call, rules of docs/npu_operators.md
// More: --timings, --json FILE (what is printed, for programs).
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "first_checks.hpp"
#include "layers.hpp"
#include "report.hpp"
#include "rlcore/config/options.hpp"
#include "rlcore/config/programs/tools.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/core/version.hpp"
#include "rlcore/device/npu/loader/library.hpp"
#include "rlcore/device/npu/npu_settings.hpp"
#include "rlcore/device/npu/provider.hpp"
#include "rlcore/device/npu/queue.hpp"
#include "rlcore/emulator/emulated_npu.hpp"
#include "rlcore/emulator/rules/rules.hpp"
#include "rlcore/train/run/devices.hpp"
#include "timings.hpp"

namespace {

using namespace rlcore;

/// The printed output for --json: each section a list of its rows, plus numeric values.
nlohmann::json& document() {
  static nlohmann::json all{{"format", 1}, {"rlcore", RLCORE_VERSION_STRING}, {"has_device", false}};
  return all;
}

/// A heading and rows below it, their values in one column; printed when it ends.
class section {
 public:
  explicit section(const char* heading) : heading_(heading) {}
  section(const section&) = delete;
  section& operator=(const section&) = delete;
  ~section() {
    std::size_t width = 26;
    for (const auto& [label, value] : rows_) width = std::max(width, label.size());
    std::puts(heading_);
    document()["sections"][heading_] = rows_;
    for (const auto& [label, value] : rows_)
      std::printf("  %-*s  %s\n", static_cast<int>(width), label.c_str(), value.c_str());
    std::fflush(stdout);
  }
  void row(std::string label, std::string value) { rows_.emplace_back(std::move(label), std::move(value)); }

 private:
  const char* heading_;
  std::vector<std::pair<std::string, std::string>> rows_;
};

/// Problems found, printed at the end.
struct findings {
  std::vector<std::string> problems, notes;
  void problem(std::string_view text) {
    if (text.starts_with("npu: ")) text.remove_prefix(5);
    problems.emplace_back(text);
  }
  void note(std::string text) { notes.push_back(std::move(text)); }
};

struct request {
  bool emulator, timings, rules;
  int device;
  ascend::emulated::settings machine;  ///< that --emulator plays
  std::string json, report;
};

request read_request(const train::options& o) {
  ascend::emulated::settings machine;
  machine.cann_version = ascend::emulated::cann_version_of(o.get<std::string>("cann"));
  return {.emulator = o.get<bool>("emulator"),
          .timings = o.get<bool>("timings"),
          .rules = o.get<bool>("rules"),
          .device = static_cast<int>(o.get<std::int64_t>("device")),
          .machine = machine,
          .json = o.find<std::string>("json").value_or(""),
          .report = o.find<std::string>("report").value_or("")};
}

void show_environment() {
  section out("environment");
  for (const char* name : {"RLCORE_CANN_LIB_DIR", "ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME", "ASCEND_OPP_PATH",
                           "ASCEND_AICPU_PATH", "ASCEND_RT_VISIBLE_DEVICES", "HCCL_DETERMINISTIC"}) {
    const std::string value = ascend::environment(name);
    out.row(name, value.empty() ? "not set" : value);
  }
  bool first = true;
  for (const std::string& folder : ascend::split_folders(ascend::environment("LD_LIBRARY_PATH"))) {
    out.row(first ? "LD_LIBRARY_PATH" : "", folder);
    first = false;
  }
  if (first) out.row("LD_LIBRARY_PATH", "not set");
}

void show_driver(const ascend::driver_files& driver) {
  section out("driver");
  out.row("folder", driver.folder.empty() ? "not there" : driver.folder);
  if (!driver.folder.empty()) out.row("version", driver.version.empty() ? "unknown" : driver.version);
  if (driver.devices.empty()) out.row("/dev/davinci*", "not there");
  for (const auto* files : {&driver.devices, &driver.managers})
    for (const ascend::device_file& f : *files) out.row(f.path, f.openable ? "may be opened" : "may not be opened");
}

void show_libraries(const ascend::installation& cann, findings& found) {
  section out("libraries");
  for (const ascend::library_group* group : cann.groups()) {
    bool first = true;
    const auto line = [&](const std::string& text) {
      out.row(first ? std::string(group->purpose) : "", text);
      first = false;
    };
    for (const ascend::library& l : group->libraries)
      if (l.handle != nullptr)
        line(l.path());
      else if (!l.problem.empty())
        line(l.path() + ": " + ascend::one_line(l.problem));
    if (first) line("not found: " + group->libraries.front().name);
  }
  if (!cann.problem().empty()) found.problem(cann.problem());
}

/// The fallback of the npu device for a missing optional operator.
std::string_view composition(std::string_view name) {
  constexpr std::pair<std::string_view, std::string_view> known[] = {
      {"aclnnGroupedMatmulAdd", "Matmul and Add"},
      {"aclnnAddRmsNorm", "Add and RmsNorm"},
      {"aclnnSwiGlu", "Silu and Mul"},
      {"aclnnSwiGluGrad", "SiluBackward, Silu and Mul"},
      {"aclnnRotaryPositionEmbedding", "Mul, Neg and Add on halves"},
      {"aclnnFlashAttentionVarLenScore", "BatchMatMul and Softmax"},
      {"aclnnFlashAttentionUnpaddingScoreGrad", "BatchMatMul and SoftmaxBackward"},
      {"aclnnApplyAdamWV2", "elementwise operators"},
  };
  for (const auto& [op, how] : known)
    if (op == name) return how;
  return {};
}

/// Counts of required and feature-specific functions.
struct counts {
  int required = 0, required_total = 0, others = 0, others_total = 0;
  void see(ascend::feature need, bool found) {
    if (need == ascend::feature::later) return;
    const bool every_run = need == ascend::feature::every_run;
    (every_run ? required_total : others_total) += 1;
    if (found) (every_run ? required : others) += 1;
  }
};
struct function_counts {
  counts runtime, meta, operators, collectives;
};

function_counts count(const ascend::calls& t) {
  function_counts n;
#define RLCORE_NPU_CALL(name, need, result, parameters) n.runtime.see(ascend::feature::need, t.rt.name != nullptr);
#include "rlcore/device/npu/abi/runtime.inc"
#undef RLCORE_NPU_CALL
#define RLCORE_NPU_CALL(name, need, result, parameters) n.meta.see(ascend::feature::need, t.nn.name != nullptr);
#include "rlcore/device/npu/abi/meta.inc"
#undef RLCORE_NPU_CALL
#define RLCORE_NPU_OPERATOR(name, need, ...) n.operators.see(ascend::feature::need, static_cast<bool>(t.op.name));
#include "rlcore/device/npu/abi/operators.inc"
#undef RLCORE_NPU_OPERATOR
#define RLCORE_NPU_CALL(name, need, result, parameters) \
  n.collectives.see(ascend::feature::need, t.comm.name != nullptr);
#include "rlcore/device/npu/abi/collectives.inc"
#undef RLCORE_NPU_CALL
  return n;
}

void show_functions(const ascend::calls& table, const ascend::installation& cann, findings& found) {
  section out("functions");
  const function_counts n = count(table);
  const auto line = [&out](const char* label, const counts& c) {
    char text[96];
    std::snprintf(text, sizeof text, "%2d of %2d of every run, %2d of %2d others", c.required, c.required_total,
                  c.others, c.others_total);
    out.row(label, text);
  };
  line("runtime", n.runtime);
  line("operators' arguments", n.meta);
  line("operators", n.operators);
  line("collectives", n.collectives);
  for (const ascend::missing_symbol& m : cann.symbols().missing()) {
    if (!m.group_loaded || m.need == ascend::feature::later) continue;
    const std::string_view how = composition(m.name);
    out.row(m.name, how.empty() ? "missing, needed by " + std::string(name_of(m.need))
                                : "missing, composed of " + std::string(how));
  }
  if (!cann.problem().empty()) return;
  for (const ascend::feature f : {ascend::feature::generation, ascend::feature::training})
    if (const std::string names = missing_functions(table, f); !names.empty())
      found.note(lack_text("this CANN", names, f).substr(5));
  if (n.collectives.others < n.collectives.others_total)
    found.note(std::to_string(n.collectives.others_total - n.collectives.others) +
               " functions of HCCL are missing: one device works, several exchange data through the host");
}

/// The machine as its runtime describes it; null if it does not start or has no device.
std::shared_ptr<ascend::session> show_machine(const ascend::calls& table, const std::string& name, int device,
                                              findings& found) {
  section out("machine");
  const auto session = ascend::session::open(table, name);
  const auto known = [](const std::string& text) { return text.empty() ? "unknown" : text; };
  out.row("CANN", known(session->known().cann_version_text));
  out.row("SoC", known(session->known().soc));
  if (const std::string& soc = session->known().soc; ascend::family_of(soc) == ascend::soc_family::unknown)
    found.note("whether the SoC " + known(soc) +
               " is an Atlas A2 or A3 is not known: no other runs rlcore's operators");
  out.row("devices", std::to_string(session->device_count()));
  if (session->known().cann_version != 0 && session->known().cann_version < 80100)
    found.problem("this CANN is older than 8.1: install a newer one");
  if (!session->initialised()) found.note("another part of the process had initialised the runtime");
  if (session->device_count() == 0) {
    found.problem(
        "the runtime sees no device: npu-smi info tells whether the driver does; ASCEND_RT_VISIBLE_DEVICES "
        "hides devices");
    return nullptr;
  }
  if (device >= session->device_count()) {
    found.problem("there is no device " + std::to_string(device) + ", the last is " +
                  std::to_string(session->device_count() - 1));
    return nullptr;
  }
  const ascend::device_handle handle(session, device);
  const auto guard = handle.enter();
  std::size_t available = 0, total = 0;
  ascend::check(table, table.rt.aclrtGetMemInfo(ascend::memory_kind::hbm, &available, &total), "aclrtGetMemInfo");
  out.row("device " + std::to_string(device), memory_text(available) + " of " + memory_text(total) + " free");
  return session;
}

/// A row of the checks.
struct verdict {
  std::string label, value;
};

/// Basic checks: copies, events and one operator.
std::vector<verdict> check_basics(const std::shared_ptr<ascend::session>& session, int device, findings& found) {
  std::vector<verdict> rows;
  ascend::queue_settings settings;
  settings.sync_each_operation = true;  // an error names its operator
  ascend::queue q(session, device, settings);
  const auto run = [&](const char* label, std::string (*f)(ascend::queue&)) {
    try {
      rows.push_back({label, f(q)});
    } catch (const std::exception& e) {
      rows.push_back({label, "FAIL"});
      found.problem(e.what());
    }
  };
  run("event round trip", npu_first_checks::event_round_trip);
  run("matrix product", npu_first_checks::matrix_product);
  return rows;
}

/// The kernels as training and generation call them, against the processor's.
std::vector<verdict> check_layers(any_device& npu, findings& found) {
  device_settings processor;
  processor.type = compute::bfloat16;
  processor.threads = 1;
  const auto reference = open_device(processor);
  const comparison::layer_results all = comparison::compare_layers(npu, *reference);
  std::vector<verdict> rows;
  auto& list = document()["layers"] = nlohmann::json::array();
  for (const comparison::outcome& o : all.kernels) {
    const bool good = o.difference <= o.bound && o.problem.empty();
    char text[128];
    if (good && !o.compared)
      std::snprintf(text, sizeof text, "pass, compared where it is read");
    else
      std::snprintf(text, sizeof text, "%s, largest difference %.2g, bound %.2g", good ? "pass" : "FAIL", o.difference,
                    o.bound);
    rows.push_back({o.kernel, text});
    if (!good) found.problem(o.problem);
    nlohmann::json row{{"kernel", o.kernel}, {"calls", o.calls}, {"verdict", good ? "pass" : "fail"}};
    if (o.compared && good) row["difference"] = o.difference, row["bound"] = o.bound;
    if (!good) row["difference"] = std::to_string(o.difference), row["bound"] = o.bound, row["problem"] = o.problem;
    list.push_back(row);
  }
  if (!all.ended_early.empty()) {
    rows.push_back({"other layers", "FAIL, not reached"});
    if (std::none_of(all.kernels.begin(), all.kernels.end(), [](const auto& o) { return !o.problem.empty(); }))
      found.problem(all.ended_early);
  }
  return rows;
}

void show_timings(any_device& npu, bool emulated) {
  section out(emulated ? "timings of the emulation, which say nothing of an NPU" : "timings");
  const auto sizes = timings::shapes_for(npu);
  auto& list = document()["timings"] = nlohmann::json::array();
  for (const timings::timing& t : timings::stopwatch(npu, sizes).all()) {
    char text[128];
    std::snprintf(text, sizeof text, "%9.3f ms  %s", t.milliseconds, t.shape.c_str());
    std::string line = text;
    nlohmann::json row{{"kernel", t.kernel}, {"shape", t.shape}, {"milliseconds", t.milliseconds}};
    if (t.work > 0) {
      const double rate = t.work / t.milliseconds * 1e-9;
      std::snprintf(text, sizeof text, ", %.3g TFLOP/s", rate);
      line += text, row["tflops"] = rate;
    }
    out.row(t.kernel, line);
    list.push_back(row);
  }
}

void check(std::shared_ptr<ascend::session> session, const request& f, findings& found) {
  std::vector<verdict> rows = check_basics(session, f.device, found);
  session.reset();  // the emulated machine is set up again
  device_settings settings;
  settings.kind = f.emulator ? device_kind::npu_emulator : device_kind::npu;
  settings.number = f.device;
  settings.emulator = f.machine;
  std::unique_ptr<any_device> npu;
  try {
    settings.sync_each_operation = true;
    npu = open_device(settings);
    for (verdict& v : check_layers(*npu, found)) rows.push_back(std::move(v));
  } catch (const std::exception& e) {
    rows.push_back({"layers", "FAIL"});
    found.problem(e.what());
  }
  {
    section out("checks");
    for (verdict& v : rows) out.row(std::move(v.label), std::move(v.value));
  }
  if (!f.timings) return;
  try {
    npu.reset();
    settings.sync_each_operation = false;
    npu = open_device(settings);
    show_timings(*npu, f.emulator);
  } catch (const std::exception& e) {
    found.problem(std::string("timings: ") + e.what());
  }
}

int diagnose(const request& f) {
  findings found;
  if (f.emulator) ascend::emulated::configure(f.machine);
  std::puts("npu_doctor of rlcore " RLCORE_VERSION_STRING);
  const ascend::installation* cann = nullptr;
  ascend::driver_files driver;
  std::string name = "emulator of " + ascend::emulated::machine_settings().soc;
  if (!f.emulator) {
    show_environment();
    driver = ascend::find_driver();
    show_driver(driver);
    cann = &ascend::dynamic_provider::installed();
    show_libraries(*cann, found);
    name = cann->name();
    if (cann->problem().empty() && ascend::environment("ASCEND_OPP_PATH").empty())
      found.note("ASCEND_OPP_PATH is not set: if operators are not found (561107), source CANN's set_env.sh");
  }
  const ascend::calls& table = cann != nullptr ? cann->table() : ascend::emulated::every_call();
  if (cann != nullptr) show_functions(table, *cann, found);
  if (cann == nullptr || cann->problem().empty()) {
    try {
      if (auto session = show_machine(table, name, f.device, found)) {
        document()["has_device"] = true;
        check(std::move(session), f, found);
      }
    } catch (const std::exception& e) {
      found.problem(e.what());
    }
  }
  // The driver is detected only by its files: their absence is no problem if everything works.
  if (const std::string problem = f.emulator ? "" : ascend::driver_problem(driver); !problem.empty()) {
    if (found.problems.empty())
      found.note("the device works, though " + problem.substr(0, problem.find(';')));
    else
      found.problem(problem);
  }
  document()["problems"] = found.problems;
  document()["emulated"] = f.emulator;
  section out("result");
  for (const std::string& text : found.notes) out.row("note", text);
  for (const std::string& text : found.problems) out.row("problem", text);
  out.row(found.problems.empty() ? "pass" : "fail",
          f.emulator               ? "emulated machine: modelled, no hardware"
          : found.problems.empty() ? "trainer.device=npu is ready"
                                   : "until this works, trainer.device=npu_emulator models the device on the CPU");
  return found.problems.empty() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const auto options = train::options::parse(argc, argv, train::npu_doctor_registry());
    if (options.answer()) {
      std::fputs(options.answer()->c_str(), stdout);
      return 0;
    }
    const request f = read_request(options);
    if (f.rules) {
      std::fputs(ascend::rules::page().c_str(), stdout);
      return 0;
    }
    if (!f.report.empty()) return npu_report::archive({f.report, f.emulator, f.device}).write();
    const int code = diagnose(f);
    if (!f.json.empty()) {
      std::ofstream file(f.json);
      file << document().dump(1) << '\n';
      if (!file.flush()) throw file_error("cannot write " + f.json);
    }
    return code;
  } catch (const std::exception& e) {
    std::fflush(stdout);
    std::fprintf(stderr, "npu_doctor: %s\n", e.what());
    return 1;
  }
}
