// The include rules of the library, checked by walking the #include lines of a tree of headers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace layering {

namespace fs = std::filesystem;
using strings = std::vector<std::string>;

/// A folder may include itself and the folders before it.
inline const strings& layers() {
  static const strings order = {"core",      "tensor",   "simd",       "exec",    "objective", "device",
                                "emulator",  "parallel", "nn",         "optim",   "image",     "text",
                                "data",      "verify",   "checkpoint", "rollout", "agent",     "config",
                                "telemetry", "train",    "serving",    "planning"};
  return order;
}

/// Third-party headers, by the beginning of their path, and the files that may include them, by theirs.
inline const std::map<std::string, strings>& third_parties() {
  static const std::map<std::string, strings> allowed = {
      {"nlohmann/",
       {"text/", "data/", "verify/", "checkpoint/", "config/", "agent/", "telemetry/", "train/evaluation/",
        "train/files/", "train/policy/", "train/preference/", "train/run/", "train/supervised/", "serving/",
        "planning/"}},
      {"png.h", {"image/decode_png", "image/encode"}},
      {"jpeglib.h", {"image/decode_jpeg"}},
      {"webp/decode.h", {"image/decode_webp"}},
      {"libdeflate.h", {"image/decode_png"}},
      {"jerror.h", {"image/decode_jpeg"}},
      {"pcre2.h", {"text/"}},
      {"utf8proc.h", {"text/"}},
      {"arrow/", {"data/"}},
      {"parquet/", {"data/"}},
      {"fmt/", {"config/", "telemetry/", "train/", "planning/"}},
      {"Eigen/", {"tensor/eigen"}},
      {"xtensor/", {"tensor/xtensor"}},
      {"xtl/", {"tensor/xtensor"}},
      {"yaml-cpp/", {"agent/"}},
      {"httplib.h", {"serving/"}},
      {"mpi.h", {"parallel/communicator/mpi"}},
  };
  return allowed;
}

/// Headers of the operating system and of the instruction set. The mathematics (left of device) is free of the former.
inline bool is_system_header(std::string_view name) {
  static const std::set<std::string_view> known = {
      "arpa/inet.h",  "netdb.h",       "netinet/in.h",  "netinet/tcp.h",  "sys/eventfd.h",   "sys/socket.h",
      "sys/un.h",     "dirent.h",      "linux/audit.h", "linux/filter.h", "linux/seccomp.h", "stdlib.h",
      "sys/mount.h",  "sys/syscall.h", "sys/utsname.h", "dlfcn.h",        "glob.h",          "ucontext.h",
      "fcntl.h",      "poll.h",        "pthread.h",     "sched.h",        "signal.h",        "spawn.h",
      "sys/file.h",   "sys/ioctl.h",   "sys/mman.h",    "sys/prctl.h",    "sys/stat.h",      "sys/types.h",
      "sys/wait.h",   "termios.h",     "time.h",        "unistd.h",       "sys/random.h",    "sys/resource.h",
      "sys/statvfs.h"};
  return known.contains(name);
}
inline bool is_intrinsics_header(std::string_view name) {
  return name == "immintrin.h" || name == "arm_neon.h" || name == "cpuid.h";
}

/// The standard library's headers are the ones without a folder and without an extension.
inline bool is_standard_header(std::string_view name) { return name.find_first_of("/.") == std::string_view::npos; }

inline bool starts_with_any(std::string_view text, const strings& beginnings) {
  return std::ranges::any_of(beginnings, [&](const std::string& b) { return text.starts_with(b); });
}

struct include_line {
  std::string path;
  bool quoted = false;
  std::size_t line = 0;
  bool definitions = false;  ///< under #if !defined(RLCORE_COMPILED): of what the header declares
};

struct header {
  std::vector<include_line> includes;
  std::size_t lines = 0, data = 0;  ///< data: those of the rows of a table, "RLCORE_...(...)" in a .inc
};

inline header read_header(const fs::path& file) {
  header result;
  std::ifstream in(file);
  bool row = false;
  std::size_t conditions = 0;  // open ones, from that of RLCORE_COMPILED on
  for (std::string line; std::getline(in, line);) {
    ++result.lines;
    if (line.starts_with("#if !defined(RLCORE_COMPILED)") || (conditions > 0 && line.starts_with("#if")))
      ++conditions;
    else if (conditions > 0 && line.starts_with("#endif"))
      --conditions;
    row = row || (file.extension() == ".inc" && line.starts_with("RLCORE_"));
    result.data += row;
    row = row && !line.ends_with(")");
    std::size_t at = line.find_first_not_of(" \t");
    if (at == std::string::npos || line[at] != '#') continue;
    at = line.find_first_not_of(" \t", at + 1);
    if (at == std::string::npos || line.compare(at, 7, "include") != 0) continue;
    at = line.find_first_of("\"<", at);
    if (at == std::string::npos) continue;
    const std::size_t end = line.find_first_of("\">", at + 1);
    result.includes.push_back({line.substr(at + 1, end - at - 1), line[at] == '"', result.lines, conditions > 0});
  }
  return result;
}

inline std::string folder_of(const std::string& file) {
  const std::size_t slash = file.find('/');
  return slash == std::string::npos ? "" : file.substr(0, slash);
}

/// Place of a folder in the order; the umbrella rlcore.hpp stands right after the last folder of the standard library
/// alone.
inline std::size_t rank_of(const std::string& folder) {
  const auto at = [](std::string_view name) {
    return static_cast<std::size_t>(std::ranges::find(layers(), name) - layers().begin());
  };
  return folder.empty() ? at("optim") : at(folder);
}

inline bool is_adapter(std::string_view file) {
  return starts_with_any(file, {"tensor/eigen", "tensor/xtensor", "parallel/communicator/mpi"});
}

/// What is wrong with one #include of `file` (a path relative to the tree), or nothing.
inline std::string fault_of(const std::string& file, const include_line& include,
                            const std::map<std::string, header>& all) {
  if (include.quoted) {
    if (!include.path.starts_with("rlcore/")) return "is not written from rlcore/ on";
    const std::string target = include.path.substr(7), folder = folder_of(target);
    if (!all.contains(target)) return "does not exist";
    if (folder.empty()) return "is the umbrella header";
    if (rank_of(folder) == layers().size()) return "lies in a folder that is not a layer";
    if (rank_of(folder) > rank_of(folder_of(file))) return "lies in a later layer";
    if (is_adapter(target) && !is_adapter(file)) return "is an adapter: nothing in the library may need it";
    return "";
  }
  for (const auto& [beginning, files] : third_parties()) {
    if (include.path.starts_with(beginning))
      return starts_with_any(file, files) ? "" : "is third party, not allowed here";
  }
  if (is_standard_header(include.path)) return "";
  if (is_intrinsics_header(include.path))
    return starts_with_any(file, {"simd/", "device/"}) ? "" : "belongs into simd or device";
  if (!is_system_header(include.path)) return "is not on the list of known headers";
  if (file == "exec/threads.hpp") return "";  // the one place that starts threads without <thread>
  return rank_of(folder_of(file)) < rank_of("device") ? "is of the operating system, not allowed here" : "";
}

/// Follows the includes from `file` on; reports the first way back to a header that is still open. Definitions that a
/// header brings along at its end may include it: it is whole by then.
inline void find_cycles(const std::string& file, const std::map<std::string, header>& all, strings& open,
                        std::set<std::string>& done, strings& faults) {
  if (done.contains(file) || !all.contains(file)) return;
  if (const auto back = std::ranges::find(open, file); back != open.end()) {
    std::string chain = file;
    for (auto at = open.rbegin(); *at != file; ++at) chain = *at + " -> " + chain;
    faults.push_back(file + ": includes itself: " + file + " -> " + chain);
    return;
  }
  open.push_back(file);
  for (const include_line& include : all.at(file).includes) {
    if (include.quoted && !include.definitions && include.path.starts_with("rlcore/"))
      find_cycles(include.path.substr(7), all, open, done, faults);
  }
  open.pop_back();
  done.insert(file);
}

/// One line for every violation in the tree whose top folder stands for include/rlcore.
inline strings violations(const fs::path& top, std::size_t most_lines = 400, std::size_t most_files = 40) {
  std::map<std::string, header> all;
  std::map<std::string, std::size_t> files;  // directly in a folder
  for (const auto& entry : fs::recursive_directory_iterator(top)) {
    const fs::path extension = entry.path().extension();
    if (!entry.is_regular_file() || (extension != ".hpp" && extension != ".inc")) continue;
    const fs::path file = fs::relative(entry.path(), top);
    all[file.generic_string()] = read_header(entry.path());
    ++files[file.parent_path().generic_string()];
  }
  strings faults;
  for (const auto& [folder, count] : files) {
    if (count > most_files)
      faults.push_back(folder + ": has " + std::to_string(count) + " files; " + std::to_string(most_files) +
                       " is the limit");
  }
  for (const auto& [file, content] : all) {
    if (rank_of(folder_of(file)) == layers().size()) faults.push_back(file + ": lies in a folder that is not a layer");
    if (content.lines - content.data > most_lines) {
      faults.push_back(file + ": has " + std::to_string(content.lines - content.data) + " lines; " +
                       std::to_string(most_lines) + " is the limit");
    }
    for (const include_line& include : content.includes) {
      const std::string fault = fault_of(file, include, all);
      if (!fault.empty())
        faults.push_back(file + ":" + std::to_string(include.line) + ": " + include.path + " " + fault);
    }
  }
  strings open;
  std::set<std::string> done;
  for (const auto& [file, content] : all) find_cycles(file, all, open, done, faults);
  return faults;
}

}  // namespace layering
