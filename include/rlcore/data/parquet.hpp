// Reading and writing Parquet files. The definitions include Arrow C++, which is slow to compile: with RLCORE_COMPILED
// they are in src/parquet.cpp.
#pragma once

#include <filesystem>
#include <span>
#include <vector>

#include "rlcore/data/row.hpp"

RLCORE_BEGIN
namespace data {

/// Reads all rows of a file: nested lists and structs become arrays and objects, binary columns become JSON binary
/// values. Throws file_error when it cannot be opened, data_error when it is damaged or has a column of another type
/// (dates, maps).
std::vector<row> read_parquet(const std::filesystem::path& path);

/// Writes rows as one Parquet file (Snappy, dictionary pages); the schema is the common type of the rows, see
/// value_type. Throws data_error naming the column if they have no common type, file_error if writing fails. The write
/// is not atomic: write under a temporary name and rename.
void write_parquet(const std::filesystem::path& path, std::span<const row> rows);

}  // namespace data
RLCORE_END

#if !defined(RLCORE_COMPILED)
#include "rlcore/data/parquet_arrow.hpp"
#endif
