// CANN installation on this machine: libraries, function table, and problems.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "rlcore/device/npu/loader/library.hpp"
#include "rlcore/device/npu/npu_settings.hpp"
#include "rlcore/device/npu/session.hpp"

RLCORE_BEGIN
namespace ascend {

/// The libraries of CANN 8.1 to 9.1 that were found, and the table of their functions.
class installation {
 public:
  /// Loads the libraries that `where` leads to, and asks CANN for its versions and chip; see problem() for errors.
  explicit installation(const search_path& where)
      : where_(where),
        // Operators look up functions of the runtime, so these are loaded globally; the order matters for the same
        // reason.
        runtime_(open("runtime", {"libacl_rt.so", "libascendcl.so"}, where, RTLD_NOW | RTLD_GLOBAL)),
        meta_(open("operators' arguments", {"libnnopbase.so"}, where, RTLD_LAZY | RTLD_LOCAL)),
        operators_(open(
            "operators",
            {"libopapi.so", "libopapi_nn.so", "libopapi_math.so", "libopapi_transformer.so", "libaclnn_ops_infer.so",
             "libaclnn_ops_train.so", "libaclnn_math.so", "libaclnn_rand.so", "libcust_opapi.so"},
            where, RTLD_LAZY | RTLD_LOCAL)),
        collectives_(open("collectives", {"libhccl.so", "libhcomm.so"}, where, RTLD_LAZY | RTLD_LOCAL)),
        symbols_(runtime_, meta_, operators_, collectives_),
        problem_(find_problem()) {
    if (!problem_.empty()) return;
    known_ = ask_capabilities(table());
    problem_ = soc_problem(known_.soc);
  }

  const calls& table() const noexcept { return symbols_.table(); }
  const symbol_table& symbols() const noexcept { return symbols_; }
  const search_path& searched() const noexcept { return where_; }
  const capabilities& known() const noexcept { return known_; }
  std::vector<const library_group*> groups() const { return {&runtime_, &meta_, &operators_, &collectives_}; }
  /// Why it cannot be used, and the remedy, in one line; empty if it can be used.
  const std::string& problem() const noexcept { return problem_; }
  /// "CANN 8.3.RC1, Ascend910B3", as far as known.
  std::string name() const;

 private:
  static library_group open(std::string_view purpose, std::initializer_list<const char*> names,
                            const search_path& where, int flags) {
    library_group group{purpose, {}};
    for (const char* name : names) group.libraries.push_back(open_library(name, where, flags));
    return group;
  }

  std::string find_problem() const;
  std::string nowhere() const;
  /// The remedy for a dynamic linker error.
  static std::string explain(const std::string& reason, const std::string& folder);
  static std::string script_near(const std::string& folder);
  static std::string found(const library_group& group) {
    for (const library& l : group.libraries)
      if (l.handle != nullptr) return l.path();
    return "";
  }
  std::string lacking() const;

  search_path where_;
  library_group runtime_, meta_, operators_, collectives_;
  symbol_table symbols_;
  std::string problem_;
  capabilities known_;
};

}  // namespace ascend
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_DEVICE)
RLCORE_BEGIN
namespace ascend {

RLCORE_INLINE std::string installation::name() const {
  std::string line = "CANN";
  if (!known_.cann_version_text.empty()) line += " " + known_.cann_version_text;
  if (!known_.soc.empty()) line += ", " + known_.soc;
  return line;
}

RLCORE_INLINE std::string installation::find_problem() const {
  for (const library_group* group : {&runtime_, &meta_, &operators_}) {
    if (group->loaded()) continue;
    for (const library& l : group->libraries)
      if (!l.problem.empty()) return "npu: " + l.path() + " " + explain(l.problem, l.folder);
    if (group == &runtime_) return nowhere();
    return "npu: " + group->libraries.front().name + " is missing beside " + found(runtime_) +
           ": install the whole toolkit, or point RLCORE_CANN_LIB_DIR at its lib64";
  }
  return lacking();
}

RLCORE_INLINE std::string installation::nowhere() const {
  std::string line = "npu: no CANN: neither libacl_rt.so nor libascendcl.so is ";
  if (where_.process) line += "in LD_LIBRARY_PATH or ";
  line += "in ";
  for (std::size_t i = 0; i < where_.folders.size(); ++i) line += (i == 0 ? "" : ", ") + where_.folders[i];
  if (!where_.process) return line + ", where RLCORE_CANN_LIB_DIR points";
  return line +
         "; install CANN 8.1 or later with the kernels package of the SoC and source its set_env.sh, or set "
         "RLCORE_CANN_LIB_DIR";
}

RLCORE_INLINE std::string installation::explain(const std::string& reason, const std::string& folder) {
  if (reason.find("is a stub") != std::string::npos) return reason;
  std::string advice = "source " + script_near(folder) + " before the program starts";
  for (const char* driver : {"libascend_hal", "libdrvdsmi", "libdcmi", "libc_sec", "libmmpa"})
    if (reason.find(driver) != std::string::npos)
      advice =
          "install Ascend's driver, and have /usr/local/Ascend/driver/lib64, its driver and its common in "
          "LD_LIBRARY_PATH";
  if (reason.find("undefined symbol") != std::string::npos)
    advice = "libraries of two versions of CANN are mixed: check LD_LIBRARY_PATH";
  return "cannot be loaded (" + one_line(reason) + "): " + advice;
}

RLCORE_INLINE std::string installation::script_near(const std::string& folder) {
  for (const char* up : {"/..", "/../.."})
    if (const std::string script = folder + up + "/set_env.sh"; !folder.empty() && access(script.c_str(), R_OK) == 0)
      return script;
  return "CANN's set_env.sh";
}

RLCORE_INLINE std::string installation::lacking() const {
  std::string names;
  std::size_t count = 0;
  for (const missing_symbol& m : symbols_.missing())
    if (m.need == feature::every_run && count++ < 12) names += (names.empty() ? "" : ", ") + m.name;
  if (count == 0) return {};
  if (count > 12) names += ", and " + std::to_string(count - 12) + " more";
  return lack_text("the CANN of " + found(runtime_), names, feature::every_run) + "; CANN 8.1 to 9.1 have them";
}

}  // namespace ascend
RLCORE_END
#endif
