// Files and folders that appear whole or not at all.
#pragma once

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "rlcore/data/file.hpp"

RLCORE_BEGIN
namespace checkpoint {

/// `<path>.tmp-<pid>`: the temporary path of a file or folder.
inline std::filesystem::path temporary_sibling(const std::filesystem::path& path) {
  std::filesystem::path sibling = path;
  if (!sibling.has_filename()) sibling = sibling.parent_path();  // "folder/"
  sibling += ".tmp-" + std::to_string(::getpid());
  return sibling;
}

/// Makes a rename inside `folder` (or the files in it) survive a power failure.
inline void sync_folder(const std::filesystem::path& folder) {
  const data::descriptor directory(folder.empty() ? std::filesystem::path(".") : folder, O_RDONLY | O_DIRECTORY,
                                   "open");
  // Some network file systems cannot synchronise a folder; they say EINVAL and need no such call.
  if (::fsync(directory.number()) != 0 && errno != EINVAL) data::throw_file_error(folder, "synchronise");
}

/// Calls write(temporary path), synchronises what it wrote and renames it to `path`. Creates a new temporary file and
/// follows no existing link. On any exception removes it and leaves `path` unchanged. Throws file_error.
template <class Write>
void replace_file(const std::filesystem::path& path, Write&& write) {
  const std::filesystem::path temporary = temporary_sibling(path);
  ::unlink(temporary.c_str());
  const int fresh = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (fresh < 0) data::throw_file_error(path, "create");
  ::close(fresh);
  try {
    write(temporary);
    {
      const data::descriptor file(temporary, O_RDONLY, "open");
      if (::fsync(file.number()) != 0) data::throw_file_error(temporary, "write");
    }
    if (::rename(temporary.c_str(), path.c_str()) != 0) data::throw_file_error(path, "replace");
  } catch (...) {
    std::error_code ignored;  // the exception under way is the one to report
    std::filesystem::remove(temporary, ignored);
    throw;
  }
  sync_folder(path.parent_path());
}

/// The whole of a small file, such as a tracker.
inline void write_file_atomically(const std::filesystem::path& path, std::string_view bytes) {
  replace_file(path, [&](const std::filesystem::path& temporary) {
    data::output_file file(temporary);
    file.write(bytes);
    file.close();
  });
}

/// True for `<anything>.tmp-<pid>` whose process no longer exists: the remains of a killed writer.
bool is_abandoned_temporary(const std::filesystem::path& path);

/// Forces every file and folder below `folder` to the disk.
void sync_tree(const std::filesystem::path& folder);

/// Collects files in a temporary sibling of `target`; commit() gives it its name. Without commit() (an exception, a
/// full disk) the temporary folder is removed and an older `target` stays as it was.
class atomic_folder {
 public:
  /// Creates `<target>.tmp-<pid>` and missing parents; removes the remains of killed writers of the same target. Throws
  /// file_error.
  explicit atomic_folder(const std::filesystem::path& target);
  atomic_folder(const atomic_folder&) = delete;
  atomic_folder& operator=(const atomic_folder&) = delete;
  ~atomic_folder() {
    std::error_code ignored;
    if (!temporary_.empty()) std::filesystem::remove_all(temporary_, ignored);
  }

  /// Where to write until commit().
  const std::filesystem::path& path() const noexcept { return temporary_; }
  const std::filesystem::path& target() const noexcept { return target_; }

  /// Synchronises everything and renames; an existing target is exchanged for the new one in one step where the file
  /// system can. Throws file_error.
  void commit();

 private:
  /// For file systems that cannot exchange: between the two renames only `<target>.tmp-<pid>.old` is the old folder.
  void step_aside();

  std::filesystem::path target_, temporary_;  // after an exchange `temporary_` holds the old folder, to be removed
};

}  // namespace checkpoint
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_CHECKPOINT)
RLCORE_BEGIN
namespace checkpoint {

RLCORE_INLINE bool is_abandoned_temporary(const std::filesystem::path& path) {
  const std::string name = path.filename().string();
  const std::size_t at = name.rfind(".tmp-");
  if (at == std::string::npos || at + 5 == name.size()) return false;
  if (name.find_first_not_of("0123456789", at + 5) != std::string::npos || name.size() - at > 14) return false;
  const auto process = static_cast<pid_t>(std::stol(name.substr(at + 5)));
  return process != ::getpid() && ::kill(process, 0) != 0 && errno == ESRCH;
}

RLCORE_INLINE void sync_tree(const std::filesystem::path& folder) {
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.is_directory()) {
      sync_folder(entry.path());
    } else if (entry.is_regular_file()) {
      const data::descriptor file(entry.path(), O_RDONLY, "open");
      if (::fsync(file.number()) != 0) data::throw_file_error(entry.path(), "write");
    }
  }
  sync_folder(folder);
}

RLCORE_INLINE atomic_folder::atomic_folder(const std::filesystem::path& target)
    : target_(target.has_filename() ? target : target.parent_path()), temporary_(temporary_sibling(target)) {
  try {
    std::filesystem::path parent = target_.parent_path();
    if (parent.empty()) parent = ".";
    std::filesystem::create_directories(parent);
    for (const auto& entry : std::filesystem::directory_iterator(parent)) {
      if (entry.path().filename().string().starts_with(target_.filename().string() + ".tmp-") &&
          is_abandoned_temporary(entry.path()))
        std::filesystem::remove_all(entry.path());
    }
    std::filesystem::remove_all(temporary_);
    std::filesystem::create_directory(temporary_);
  } catch (const std::filesystem::filesystem_error& e) {
    data::throw_file_error(e.path1().empty() ? target_ : e.path1(), "create", e.code().value());
  }
}

RLCORE_INLINE void atomic_folder::commit() {
  try {
    sync_tree(temporary_);
    if (!std::filesystem::exists(std::filesystem::symlink_status(target_))) {
      std::filesystem::rename(temporary_, target_);
      temporary_.clear();
    } else if (::renameat2(AT_FDCWD, temporary_.c_str(), AT_FDCWD, target_.c_str(), RENAME_EXCHANGE) != 0) {
      step_aside();
    }
    sync_folder(target_.parent_path());
  } catch (const std::filesystem::filesystem_error& e) {
    data::throw_file_error(target_, "rename the finished folder", e.code().value());
  }
}

RLCORE_INLINE void atomic_folder::step_aside() {
  const std::filesystem::path old = temporary_.string() + ".old";
  std::filesystem::rename(target_, old);
  std::error_code code;
  std::filesystem::rename(temporary_, target_, code);
  if (code) {
    std::filesystem::rename(old, target_);
    throw std::filesystem::filesystem_error("rename", target_, code);
  }
  temporary_ = old;
}

}  // namespace checkpoint
RLCORE_END
#endif
