// Atomic file replacement: the path always holds either the old or the new content.
#pragma once

#include <cstdio>
#include <filesystem>
#include <string_view>
#include <system_error>

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

}  // namespace checkpoint
RLCORE_END
