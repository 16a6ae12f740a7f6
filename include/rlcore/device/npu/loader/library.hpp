// Loading of CANN's shared libraries and symbols; detection of Ascend's driver.
#pragma once

#include <dlfcn.h>
#include <unistd.h>
#include <climits>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/device/npu/abi/calls.hpp"
#include "rlcore/device/npu/loader/search_path.hpp"

RLCORE_BEGIN
namespace ascend {

/// Result of a library search. A handle is never closed: CANN has threads and handlers at exit.
struct library {
  std::string name;    ///< "libascendcl.so"
  std::string folder;  ///< its folder, or the folder searched
  void* handle = nullptr;
  std::string problem;  ///< why it exists but cannot be used; empty if it is loaded or not found

  std::string path() const { return folder.empty() ? name : folder + "/" + name; }
};

/// The folder of a loaded library.
inline std::string folder_of(void* handle) {
  char path[PATH_MAX] = "";
  return dlinfo(handle, RTLD_DI_ORIGIN, path) == 0 ? path : "";
}

/// Loads a library from the first place that has it, but never a stub.
library open_library(const std::string& name, const search_path& where, int flags);

/// Libraries to search for a function: the one that has it depends on the version of CANN.
struct library_group {
  std::string_view purpose;
  std::vector<library> libraries;

  bool loaded() const {
    for (const library& l : libraries)
      if (l.handle != nullptr) return true;
    return false;
  }
  /// The address of a function, from the first library that has it; null if none has.
  void* find(const char* symbol) const {
    for (const library& l : libraries)
      if (l.handle != nullptr)
        if (void* address = dlsym(l.handle, symbol)) return address;
    return nullptr;
  }
};

/// A function that no library of its group has.
struct missing_symbol {
  std::string name;
  feature need = feature::later;
  bool group_loaded = false;  ///< false: the whole group is missing
};

/// Fills a table from the four lists of functions; missing functions stay null and are recorded.
class symbol_table {
 public:
  /// Looks up every function of the four lists in its group.
  symbol_table(const library_group& runtime, const library_group& meta, const library_group& operators,
               const library_group& collectives) {
#define RLCORE_NPU_CALL(name, need, result, parameters) fill(table_.rt.name, runtime, #name, feature::need);
#include "rlcore/device/npu/abi/runtime.inc"
#undef RLCORE_NPU_CALL
#define RLCORE_NPU_CALL(name, need, result, parameters) fill(table_.nn.name, meta, #name, feature::need);
#include "rlcore/device/npu/abi/meta.inc"
#undef RLCORE_NPU_CALL
#define RLCORE_NPU_OPERATOR(name, need, ...) fill(table_.op.name, operators, feature::need);
#include "rlcore/device/npu/abi/operators.inc"
#undef RLCORE_NPU_OPERATOR
    here_ = &missing_collectives_;
#define RLCORE_NPU_CALL(name, need, result, parameters) fill(table_.comm.name, collectives, #name, feature::need);
#include "rlcore/device/npu/abi/collectives.inc"
#undef RLCORE_NPU_CALL
  }

  const calls& table() const noexcept { return table_; }
  /// Without the collectives, which a single device does not need.
  const std::vector<missing_symbol>& missing() const noexcept { return missing_; }
  const std::vector<missing_symbol>& missing_collectives() const noexcept { return missing_collectives_; }

 private:
  template <class Result, class... A>
  void fill(Result (*&entry)(A...), const library_group& from, const char* name, feature need) {
    entry = reinterpret_cast<Result (*)(A...)>(from.find(name));
    if (entry == nullptr) here_->push_back({name, need, from.loaded()});
  }
  /// An operator with only one of its two functions counts as missing.
  template <class... A>
  void fill(operator_call<A...>& entry, const library_group& from, feature need) {
    void* plan = from.find((std::string(entry.name) + "GetWorkspaceSize").c_str());
    void* run = from.find(entry.name);
    if (plan == nullptr || run == nullptr) {
      here_->push_back({entry.name, need, from.loaded()});
      return;
    }
    entry.plan = reinterpret_cast<decltype(entry.plan)>(plan);
    entry.run = reinterpret_cast<decltype(entry.run)>(run);
  }

  calls table_;
  std::vector<missing_symbol> missing_, missing_collectives_;
  std::vector<missing_symbol>* here_ = &missing_;
};

/// A file under /dev.
struct device_file {
  std::string path;       ///< "/dev/davinci0"
  bool openable = false;  ///< this user may read and write it
};

/// The driver is not part of the toolkit: it has its own installer, and containers need it and the devices mounted.
struct driver_files {
  std::string folder;   ///< "/usr/local/Ascend/driver"; empty if missing
  std::string version;  ///< "24.1.rc2"; empty if unknown
  std::vector<device_file> devices;
  std::vector<device_file> managers;  ///< /dev/davinci_manager, /dev/devmm_svm, /dev/hisi_hdc, those that exist
};

/// Looks below `root`, which is only for tests.
driver_files find_driver(const std::string& root = "");

/// The problem of a driver and its remedy, in one line; empty if no problem is known.
std::string driver_problem(const driver_files& d);

}  // namespace ascend
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_DEVICE)
RLCORE_BEGIN
namespace ascend {

RLCORE_INLINE library open_library(const std::string& name, const search_path& where, int flags) {
  library found;
  found.name = name;
  if (where.process) {
    found.handle = dlopen(name.c_str(), flags | RTLD_NOLOAD);
    if (found.handle == nullptr) {
      // CANN's own libraries would also load a stub found by LD_LIBRARY_PATH, so it is an error.
      for (const std::string& folder : split_folders(environment("LD_LIBRARY_PATH"))) {
        if (access((folder + "/" + name).c_str(), R_OK) != 0) continue;
        if (!is_stub_folder(folder)) break;
        found.folder = folder;
        found.problem = "is a stub that only serves linking: take " + folder + " out of LD_LIBRARY_PATH";
        return found;
      }
      found.handle = dlopen(name.c_str(), flags);
    }
    if (found.handle != nullptr) {
      found.folder = folder_of(found.handle);
      return found;
    }
    // "libascendcl.so: cannot open ..." means not found; another name is a missing dependency.
    if (const char* reason = dlerror(); reason != nullptr && !std::string_view(reason).starts_with(name + ":"))
      found.problem = reason;
  }
  for (const std::string& folder : where.folders) {
    if (access((folder + "/" + name).c_str(), R_OK) != 0) continue;
    found.folder = folder;
    if (is_stub_folder(folder)) {
      found.problem = "is a stub that only serves linking";
      continue;
    }
    found.handle = dlopen(found.path().c_str(), flags);
    if (found.handle != nullptr) {
      found.problem.clear();
      return found;
    }
    const char* reason = dlerror();
    found.problem = reason != nullptr ? reason : "cannot be loaded";
  }
  return found;
}

RLCORE_INLINE driver_files find_driver(const std::string& root) {
  driver_files found;
  const auto file = [&](const std::string& path, std::vector<device_file>& to) {
    if (access((root + path).c_str(), F_OK) == 0)
      to.push_back({root + path, access((root + path).c_str(), R_OK | W_OK) == 0});
  };
  for (int i = 0; i < 64; ++i) file("/dev/davinci" + std::to_string(i), found.devices);
  for (const char* name : {"/dev/davinci_manager", "/dev/devmm_svm", "/dev/hisi_hdc"}) file(name, found.managers);
  const std::string folder = root + "/usr/local/Ascend/driver";
  if (access(folder.c_str(), F_OK) != 0) return found;
  found.folder = folder;
  if (std::FILE* f = std::fopen((folder + "/version.info").c_str(), "r"); f != nullptr) {
    char line[256];
    constexpr std::string_view key = "Version=";
    while (found.version.empty() && std::fgets(line, sizeof line, f) != nullptr)
      if (std::string_view(line).substr(0, key.size()) == key) found.version = line + key.size();
    std::fclose(f);
    while (!found.version.empty() && static_cast<unsigned char>(found.version.back()) <= ' ') found.version.pop_back();
  }
  return found;
}

RLCORE_INLINE std::string driver_problem(const driver_files& d) {
  if (d.folder.empty() && d.devices.empty())
    return "no Ascend driver: neither /usr/local/Ascend/driver nor /dev/davinci* is there; install the driver, or in a "
           "container pass --device /dev/davinci0 --device /dev/davinci_manager --device /dev/devmm_svm --device "
           "/dev/hisi_hdc -v /usr/local/Ascend/driver:/usr/local/Ascend/driver";
  if (d.folder.empty())
    return "the driver's folder /usr/local/Ascend/driver is missing though there are devices: mount it into the "
           "container (-v /usr/local/Ascend/driver:/usr/local/Ascend/driver)";
  if (d.devices.empty())
    return "the driver is installed, but there is no /dev/davinci*: pass --device to the container, "
           "or see npu-smi info and dmesg";
  for (const auto* files : {&d.devices, &d.managers})
    for (const device_file& f : *files)
      if (!f.openable)
        return "this user may not open " + f.path +
               ": add the user to the group HwHiAiUser (sudo usermod -aG HwHiAiUser "
               "$USER) and log in again";
  return {};
}

}  // namespace ascend
RLCORE_END
#endif
