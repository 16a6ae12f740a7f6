// Parquet files. The definitions bring in Arrow C++, which is slow to compile: with RLCORE_COMPILED they are those of
// src/parquet.cpp.
#pragma once

#include <filesystem>
#include <span>
#include <vector>

#include "rlcore/data/row.hpp"

RLCORE_BEGIN
namespace data {

/// All rows of a file: nested lists and structs become arrays and objects, binary columns JSON's binary values. Throws
/// file_error when it cannot be opened, data_error when it is damaged or has a column of another type (dates, maps).
std::vector<row> read_parquet(const std::filesystem::path& path);

/// Writes rows as one Parquet file (Snappy, dictionary pages); the schema is what the rows have in common: see
/// value_type. Throws data_error naming the column when they have nothing in common, file_error when the
/// disk refuses. The file is not atomic: write under a temporary name and rename.
void write_parquet(const std::filesystem::path& path, std::span<const row> rows);

}  // namespace data
RLCORE_END

#if !defined(RLCORE_COMPILED)
#include "rlcore/data/parquet_arrow.hpp"
#endif
