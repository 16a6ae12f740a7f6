// One shared library of CANN.
#pragma once

#include <dlfcn.h>
#include <unistd.h>

#include <climits>
#include <string>
#include <string_view>
#include <vector>

#include "rlcore/device/npu/loader/search_path.hpp"

RLCORE_BEGIN
namespace ascend {

/// What came of looking for a library. A handle is never closed: CANN has threads and handlers at exit.
struct library {
  std::string name;    ///< "libascendcl.so"
  std::string folder;  ///< where it lies, or would have been loaded from
  void* handle = nullptr;
  std::string problem;  ///< why it is there and cannot be used; empty if it is loaded or is nowhere

  std::string path() const { return folder.empty() ? name : folder + "/" + name; }
};

/// The folder of a loaded library.
inline std::string folder_of(void* handle) {
  char path[PATH_MAX] = "";
  return dlinfo(handle, RTLD_DI_ORIGIN, path) == 0 ? path : "";
}

/// Loads a library from the first place that has it, but never a stub.
library open_library(const std::string& name, const search_path& where, int flags);

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
      // A stub that LD_LIBRARY_PATH finds is what CANN's own libraries would get as well: there is no way around it.
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
    // "libascendcl.so: cannot open ..." says that it is nowhere; another name is one that it depends on.
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

}  // namespace ascend
RLCORE_END
#endif
