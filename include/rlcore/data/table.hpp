// Reading JSON, JSONL and Parquet datasets, by file extension. With RLCORE_HAS_PARQUET and without RLCORE_COMPILED this
// header includes Arrow, which is slow to compile: include it only where files are opened.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "rlcore/data/file.hpp"
#include "rlcore/data/jsonl.hpp"
#ifdef RLCORE_HAS_PARQUET
#include "rlcore/data/parquet.hpp"
#endif

RLCORE_BEGIN
namespace data {

#ifdef RLCORE_HAS_PARQUET
inline constexpr bool has_parquet = true;
#else
inline constexpr bool has_parquet = false;
#endif

/// The error message for a .parquet path in a program built without Arrow.
inline std::string no_parquet_message(const std::filesystem::path& path) {
  return path.string() +
         ": this build has no Parquet; install Arrow C++ or `pip install pyarrow` and build again, or convert the file "
         "to .jsonl";
}

/// Throws what read_table() would throw before it reads: data_error for an unknown file type, file_error for a file
/// that does not exist or that this process may not read.
inline void check_table(const std::filesystem::path& path) {
  const std::string extension = path.extension().string();
  if (extension != ".jsonl" && extension != ".json" && extension != ".parquet")
    throw data_error(path.string() + ": unknown kind of file '" + extension + "'; expected .jsonl, .json or .parquet");
  if (extension == ".parquet" && !has_parquet) throw data_error(no_parquet_message(path));
  check_readable(path);
}

/// Reads .jsonl, .json or .parquet. Throws file_error or data_error; another extension is a data_error.
inline table read_table(const std::filesystem::path& path) {
  check_table(path);
  const std::string extension = path.extension().string();
  if (extension == ".jsonl") return {path.string(), read_jsonl(path)};
  if (extension == ".json") return {path.string(), read_json(path)};
#ifdef RLCORE_HAS_PARQUET
  return {path.string(), read_parquet(path)};
#else
  throw data_error(no_parquet_message(path));
#endif
}

}  // namespace data
RLCORE_END
