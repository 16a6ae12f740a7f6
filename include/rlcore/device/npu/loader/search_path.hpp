// Search path for CANN's libraries.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace ascend {

/// Search order for libraries: already loaded ones, the dynamic linker's path (LD_LIBRARY_PATH), and folders.
struct search_path {
  bool process = false;              ///< use loaded libraries and the dynamic linker's path
  std::vector<std::string> folders;  ///< searched next
};

/// The value of an environment variable; empty if it is not set.
inline std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

/// The folders of a colon-separated list.
std::vector<std::string> split_folders(std::string_view list);

/// Library folders of the toolkit, from its environment variables or its default location.
std::vector<std::string> toolkit_folders();

/// RLCORE_CANN_LIB_DIR alone if it is set (two versions of CANN in one process do not work), else loaded libraries,
/// LD_LIBRARY_PATH and the toolkit's folders.
inline search_path default_search_path() {
  if (const std::string chosen = environment("RLCORE_CANN_LIB_DIR"); !chosen.empty())
    return {false, split_folders(chosen)};
  return {true, toolkit_folders()};
}

/// Whether the folder has stub libraries, which serve only for linking: their functions do nothing, or return 100039.
bool is_stub_folder(std::string_view folder);

}  // namespace ascend
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_DEVICE)
RLCORE_BEGIN
namespace ascend {

RLCORE_INLINE std::vector<std::string> split_folders(std::string_view list) {
  std::vector<std::string> folders;
  for (std::size_t begin = 0; begin < list.size();) {
    const std::size_t end = std::min(list.find(':', begin), list.size());
    if (end > begin) folders.emplace_back(list.substr(begin, end - begin));
    begin = end + 1;
  }
  return folders;
}

RLCORE_INLINE std::vector<std::string> toolkit_folders() {
  std::vector<std::string> folders;
  for (const char* variable : {"ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME"})
    if (const std::string home = environment(variable); !home.empty()) folders.push_back(home + "/lib64");
  folders.push_back("/usr/local/Ascend/cann/lib64");
  folders.push_back("/usr/local/Ascend/ascend-toolkit/latest/lib64");
  return folders;
}

RLCORE_INLINE bool is_stub_folder(std::string_view folder) {
  for (const std::string_view part : {"/devlib", "/stub"})
    for (std::size_t at = folder.find(part); at != std::string_view::npos; at = folder.find(part, at + 1)) {
      const std::size_t end = at + part.size();
      if (end == folder.size() || folder[end] == '/') return true;
    }
  return false;
}

}  // namespace ascend
RLCORE_END
#endif
