// Parquet files by Arrow C++: the definitions of parquet.hpp.
#pragma once

#include <arrow/api.h>
#include <arrow/io/file.h>
#include <parquet/arrow/reader.h>
#include <parquet/arrow/writer.h>
#include <parquet/exception.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rlcore/data/parquet_schema.hpp"
#include "rlcore/data/row.hpp"

RLCORE_BEGIN
namespace data {

/// Throws Error "<where>: <Arrow's message>" in one line unless the status is ok.
template <class Error>
void check_arrow(const arrow::Status& status, const std::string& where) {
  if (status.ok()) return;
  const std::string detail = status.detail() ? " (" + status.detail()->ToString() + ")" : "";  // e.g. the errno
  throw Error(where + ": " + printable(status.message(), 300) + printable(detail));
}
/// The value; throws the same error if the status is not ok.
template <class Error, class T>
T check_arrow(arrow::Result<T> result, const std::string& where) {
  check_arrow<Error>(result.status(), where);
  return std::move(result).ValueUnsafe();
}

namespace detail {

/// Bytes as a JSON binary value.
inline row binary_row(std::string_view bytes) { return row::binary({bytes.begin(), bytes.end()}); }

/// Element i of an array of booleans, numbers, texts or bytes; unset for an array of anything else.
inline std::optional<row> arrow_scalar(const arrow::Array& array, std::int64_t i) {
  switch (array.type_id()) {
    case arrow::Type::BOOL:
      return static_cast<const arrow::BooleanArray&>(array).Value(i);
    case arrow::Type::INT8:
      return static_cast<const arrow::Int8Array&>(array).Value(i);
    case arrow::Type::INT16:
      return static_cast<const arrow::Int16Array&>(array).Value(i);
    case arrow::Type::INT32:
      return static_cast<const arrow::Int32Array&>(array).Value(i);
    case arrow::Type::INT64:
      return static_cast<const arrow::Int64Array&>(array).Value(i);
    case arrow::Type::UINT8:
      return static_cast<const arrow::UInt8Array&>(array).Value(i);
    case arrow::Type::UINT16:
      return static_cast<const arrow::UInt16Array&>(array).Value(i);
    case arrow::Type::UINT32:
      return static_cast<const arrow::UInt32Array&>(array).Value(i);
    case arrow::Type::UINT64:
      return static_cast<const arrow::UInt64Array&>(array).Value(i);
    case arrow::Type::FLOAT:
      return static_cast<const arrow::FloatArray&>(array).Value(i);
    case arrow::Type::DOUBLE:
      return static_cast<const arrow::DoubleArray&>(array).Value(i);
    case arrow::Type::STRING:
      return static_cast<const arrow::StringArray&>(array).GetString(i);
    case arrow::Type::LARGE_STRING:
      return static_cast<const arrow::LargeStringArray&>(array).GetString(i);
    case arrow::Type::STRING_VIEW:
      return static_cast<const arrow::StringViewArray&>(array).GetString(i);
    case arrow::Type::BINARY:
      return binary_row(static_cast<const arrow::BinaryArray&>(array).GetView(i));
    case arrow::Type::LARGE_BINARY:
      return binary_row(static_cast<const arrow::LargeBinaryArray&>(array).GetView(i));
    case arrow::Type::BINARY_VIEW:
      return binary_row(static_cast<const arrow::BinaryViewArray&>(array).GetView(i));
    case arrow::Type::FIXED_SIZE_BINARY:
      return binary_row(static_cast<const arrow::FixedSizeBinaryArray&>(array).GetView(i));
    default:
      return std::nullopt;
  }
}

}  // namespace detail

/// Element i of an Arrow array as JSON; a null is a JSON null. `where` names the column.
inline row arrow_to_json(const arrow::Array& array, std::int64_t i, const std::string& where) {
  if (array.IsNull(i)) return nullptr;
  if (std::optional<row> scalar = detail::arrow_scalar(array, i)) return *std::move(scalar);
  const auto list = [&](const auto& lists) {
    row values = row::array();
    for (std::int64_t k = lists.value_offset(i), end = k + lists.value_length(i); k < end; ++k)
      values.push_back(arrow_to_json(*lists.values(), k, where));
    return values;
  };
  switch (array.type_id()) {
    case arrow::Type::LIST:
      return list(static_cast<const arrow::ListArray&>(array));
    case arrow::Type::LARGE_LIST:
      return list(static_cast<const arrow::LargeListArray&>(array));
    case arrow::Type::FIXED_SIZE_LIST:
      return list(static_cast<const arrow::FixedSizeListArray&>(array));
    case arrow::Type::DICTIONARY: {
      const auto& encoded = static_cast<const arrow::DictionaryArray&>(array);
      return arrow_to_json(*encoded.dictionary(), encoded.GetValueIndex(i), where);
    }
    case arrow::Type::STRUCT: {
      const auto& fields = static_cast<const arrow::StructArray&>(array);
      row object = row::object();
      for (int k = 0; k < fields.num_fields(); ++k) {
        const std::string& name = fields.struct_type()->field(k)->name();
        object[name] = arrow_to_json(*fields.field(k), i, where + "." + name);
      }
      return object;
    }
    default:
      throw data_error(where + ": type " + array.type()->ToString() +
                       " is not supported; expected booleans, numbers, strings, bytes, lists or structs");
  }
}

/// Appends the rows of a table to `rows`; `where` names the file.
inline void append_rows(const arrow::Table& columns, const std::string& where, std::vector<row>& rows) {
  const std::size_t first = rows.size();
  rows.resize(first + static_cast<std::size_t>(columns.num_rows()), row::object());
  for (int c = 0; c < columns.num_columns(); ++c) {
    const std::string& name = columns.field(c)->name();
    std::size_t at = first;
    for (const auto& chunk : columns.column(c)->chunks())
      for (std::int64_t i = 0; i < chunk->length(); ++i)
        rows[at++][name] = arrow_to_json(*chunk, i, where + ": column '" + printable(name) + "'");
  }
}

RLCORE_INLINE std::vector<row> read_parquet(const std::filesystem::path& path) {
  const std::string where = path.string();
  static_cast<void>(input_file(path));  // our own error text for a missing file
  std::vector<row> rows;
  try {
    const auto file = check_arrow<file_error>(arrow::io::ReadableFile::Open(where), where);
    parquet::arrow::FileReaderBuilder builder;
    check_arrow<data_error>(builder.Open(file), where + ": not a readable Parquet file");
    std::unique_ptr<parquet::arrow::FileReader> reader;
    check_arrow<data_error>(builder.Build(&reader), where + ": not a readable Parquet file");
    // One row group at a time: Arrow cannot assemble some nested columns across groups, and it needs less memory.
    for (int group = 0; group < reader->num_row_groups(); ++group) {
      const auto columns = check_arrow<data_error>(reader->ReadRowGroup(group), where + ": cannot decode");
      check_arrow<data_error>(columns->ValidateFull(), where + ": damaged content");
      append_rows(*columns, where, rows);
    }
  } catch (const parquet::ParquetException& e) {
    throw data_error(where + ": " + printable(e.what(), 300));
  }
  return rows;
}

RLCORE_INLINE void write_parquet(const std::filesystem::path& path, std::span<const row> rows) {
  const std::string where = path.string();
  if (rows.empty()) throw data_error(where + ": no rows to write");
  value_type root{value_kind::structure};
  for (std::size_t i = 0; i < rows.size(); ++i) root.merge(rows[i], row_text(where, i), "");
  const std::shared_ptr<arrow::DataType> type = arrow_type(root);
  std::unique_ptr<arrow::ArrayBuilder> builder;
  check_arrow<data_error>(arrow::MakeBuilder(arrow::default_memory_pool(), type, &builder), where);
  for (const row& r : rows) check_arrow<data_error>(append_json(*builder, r), where);
  const auto array = check_arrow<data_error>(builder->Finish(), where);
  const auto batch = check_arrow<data_error>(arrow::RecordBatch::FromStructArray(array), where);
  const auto columns = check_arrow<data_error>(arrow::Table::FromRecordBatches({batch}), where);
  const auto compressed = parquet::WriterProperties::Builder().compression(parquet::Compression::SNAPPY)->build();
  const auto stored = parquet::ArrowWriterProperties::Builder().store_schema()->build();
  try {
    const auto file = check_arrow<file_error>(arrow::io::FileOutputStream::Open(where), where);
    check_arrow<file_error>(
        parquet::arrow::WriteTable(*columns, arrow::default_memory_pool(), file, 1 << 20, compressed, stored), where);
    check_arrow<file_error>(file->Close(), where);
  } catch (const parquet::ParquetException& e) {
    throw file_error(where + ": " + printable(e.what(), 300));
  }
}

}  // namespace data
RLCORE_END
