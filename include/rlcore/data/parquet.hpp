// Reading and writing Parquet files. The definitions include Arrow C++, which is slow to compile: with RLCORE_COMPILED
// they are in src/parquet.cpp.
#pragma once

#include <filesystem>
#include <span>
#include <vector>

#include "rlcore/data/jsonl.hpp"

RLCORE_BEGIN
namespace data {

/// Reads all rows of a file: nested lists, structs and maps with texts as keys become arrays and objects, binary
/// columns become JSON binary values, an extension type what it is stored as (the JSON type of `datasets`: its text).
/// Dates, times and decimals become text, other maps lists of pairs. Throws file_error when it cannot be opened,
/// data_error when it is damaged.
std::vector<row> read_parquet(const std::filesystem::path& path);

/// Writes rows as one Parquet file (Snappy, dictionary pages); the schema is the common type of the rows, see
/// value_type. Throws data_error naming the column if they have no common type, file_error if writing fails. The write
/// is not atomic: write under a temporary name and rename.
void write_parquet(const std::filesystem::path& path, std::span<const row> rows);

}  // namespace data
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_PARQUET)
#include <arrow/api.h>
#include <arrow/io/file.h>
#include <parquet/arrow/reader.h>
#include <parquet/arrow/writer.h>
#include <parquet/exception.h>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "rlcore/text/big_integer.hpp"

RLCORE_BEGIN
namespace data {

/// The kinds of JSON values that columns have.
enum class value_kind { null, boolean, integer, real, string, bytes, list, structure };

/// The common type of all values so far: null promotes to any type, integer to real; lists and objects are merged
/// recursively, missing keys of objects are null.
struct value_type {
  value_kind kind = value_kind::null;
  std::vector<std::pair<std::string, value_type>> fields{};  ///< of a structure, in order of appearance
  std::vector<value_type> element{};                         ///< of a list: one, once an element was seen

  /// Throws data_error "<where>: column <name>: ..." when the value does not fit.
  void merge(const row& value, const std::string& where, const std::string& name) {
    if (value.is_null()) return;
    if (text::is_big_integer(value) || (value.is_number_unsigned() && value.get<std::uint64_t>() > INT64_MAX))
      throw data_error(where + ": column '" + printable(name) + "': " + printable(text::integer_digits(value)) +
                       " does not fit 64 bits");
    const value_kind found = value.is_boolean()          ? value_kind::boolean
                             : value.is_number_integer() ? value_kind::integer
                             : value.is_number()         ? value_kind::real
                             : value.is_string()         ? value_kind::string
                             : value.is_binary()         ? value_kind::bytes
                             : value.is_array()          ? value_kind::list
                                                         : value_kind::structure;
    if (kind == value_kind::null || (kind == value_kind::integer && found == value_kind::real)) {
      kind = found;
    } else if (kind != found && !(kind == value_kind::real && found == value_kind::integer)) {
      throw data_error(where + ": column '" + printable(name) + "': " + printable(text::exact_dump(value), 60) +
                       " is of another type than in the rows before");
    }
    if (found == value_kind::list) {
      if (!value.empty() && element.empty()) element.emplace_back();
      for (const row& item : value) element[0].merge(item, where, name + "[]");
    } else if (found == value_kind::structure) {
      for (const auto& [key, item] : value.items())
        field(key).merge(item, where, name.empty() ? key : name + "." + key);
    }
  }

 private:
  value_type& field(const std::string& key) {
    for (auto& [name, type] : fields)
      if (name == key) return type;
    return fields.emplace_back(key, value_type{}).second;
  }
};

/// The type of a column: int64, float64, utf8, binary and bool, lists and structures of them; null if no value was
/// seen.
inline std::shared_ptr<arrow::DataType> arrow_type(const value_type& type) {
  switch (type.kind) {
    case value_kind::null:
      return arrow::null();
    case value_kind::boolean:
      return arrow::boolean();
    case value_kind::integer:
      return arrow::int64();
    case value_kind::real:
      return arrow::float64();
    case value_kind::string:
      return arrow::utf8();
    case value_kind::bytes:
      return arrow::binary();
    case value_kind::list:
      return arrow::list(type.element.empty() ? arrow::null() : arrow_type(type.element[0]));
    case value_kind::structure:
      break;
  }
  std::vector<std::shared_ptr<arrow::Field>> fields;
  for (const auto& [name, field] : type.fields) fields.push_back(arrow::field(name, arrow_type(field)));
  return arrow::struct_(fields);
}

/// Appends one value that fits the builder's type.
inline arrow::Status append_json(arrow::ArrayBuilder& builder, const row& value) {
  if (value.is_null()) return builder.AppendNull();
  switch (builder.type()->id()) {
    case arrow::Type::BOOL:
      return static_cast<arrow::BooleanBuilder&>(builder).Append(value.get<bool>());
    case arrow::Type::INT64:
      return static_cast<arrow::Int64Builder&>(builder).Append(value.get<std::int64_t>());
    case arrow::Type::DOUBLE:
      return static_cast<arrow::DoubleBuilder&>(builder).Append(value.get<double>());
    case arrow::Type::STRING:
      return static_cast<arrow::StringBuilder&>(builder).Append(value.get_ref<const std::string&>());
    case arrow::Type::BINARY: {
      const auto& bytes = value.get_binary();
      return static_cast<arrow::BinaryBuilder&>(builder).Append(bytes.data(), static_cast<std::int32_t>(bytes.size()));
    }
    case arrow::Type::LIST: {
      auto& list = static_cast<arrow::ListBuilder&>(builder);
      ARROW_RETURN_NOT_OK(list.Append());
      for (const row& item : value) ARROW_RETURN_NOT_OK(append_json(*list.value_builder(), item));
      return arrow::Status::OK();
    }
    case arrow::Type::STRUCT: {
      auto& structure = static_cast<arrow::StructBuilder&>(builder);
      ARROW_RETURN_NOT_OK(structure.Append());
      for (int k = 0; k < structure.num_fields(); ++k) {
        const auto found = value.find(structure.type()->field(k)->name());
        ARROW_RETURN_NOT_OK(found == value.end() ? structure.field_builder(k)->AppendNull()
                                                 : append_json(*structure.field_builder(k), *found));
      }
      return arrow::Status::OK();
    }
    default:
      return arrow::Status::TypeError("unexpected type ", builder.type()->ToString());
  }
}

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

row arrow_to_json(const arrow::Array& array, std::int64_t i, const std::string& where);

namespace detail {

/// Element i of an array of maps.
inline row arrow_map(const arrow::MapArray& maps, std::int64_t i, const std::string& where) {
  const bool texts =
      maps.keys()->type_id() == arrow::Type::STRING || maps.keys()->type_id() == arrow::Type::LARGE_STRING;
  row members = texts ? row::object() : row::array();
  for (std::int64_t k = maps.value_offset(i), end = k + maps.value_length(i); k < end; ++k) {
    row key = arrow_to_json(*maps.keys(), k, where), item = arrow_to_json(*maps.items(), k, where);
    if (texts)
      members[key.get_ref<const std::string&>()] = std::move(item);
    else
      members.push_back(row::array({std::move(key), std::move(item)}));
  }
  return members;
}

/// Arrow's memory for one file. A damaged page may announce any number of values, and Arrow takes memory for them
/// before it looks: no block may be larger than `largest` bytes.
class bounded_pool final : public arrow::MemoryPool {
 public:
  explicit bounded_pool(std::int64_t largest) : largest_(largest) {}
  arrow::Status Allocate(std::int64_t size, std::int64_t alignment, std::uint8_t** out) override {
    ARROW_RETURN_NOT_OK(check(size));
    return pool_.Allocate(size, alignment, out);
  }
  arrow::Status Reallocate(std::int64_t old_size, std::int64_t size, std::int64_t alignment,
                           std::uint8_t** block) override {
    ARROW_RETURN_NOT_OK(check(size));
    return pool_.Reallocate(old_size, size, alignment, block);
  }
  void Free(std::uint8_t* block, std::int64_t size, std::int64_t alignment) override {
    pool_.Free(block, size, alignment);
  }
  std::int64_t bytes_allocated() const override { return pool_.bytes_allocated(); }
  std::int64_t max_memory() const override { return pool_.max_memory(); }
  std::int64_t total_bytes_allocated() const override { return pool_.total_bytes_allocated(); }
  std::int64_t num_allocations() const override { return pool_.num_allocations(); }
  std::string backend_name() const override { return pool_.backend_name(); }

 private:
  arrow::Status check(std::int64_t size) const {
    if (size <= largest_) return arrow::Status::OK();
    return arrow::Status::OutOfMemory("a page announces values of ", size, " bytes; at most ", largest_,
                                      " are taken for a file of this size");
  }

  arrow::MemoryPool& pool_ = *arrow::default_memory_pool();
  std::int64_t largest_;
};

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
    case arrow::Type::MAP:
      return detail::arrow_map(static_cast<const arrow::MapArray&>(array), i, where);
    case arrow::Type::EXTENSION:
      return arrow_to_json(*static_cast<const arrow::ExtensionArray&>(array).storage(), i, where);
    case arrow::Type::HALF_FLOAT:
      return std::stod(check_arrow<data_error>(array.GetScalar(i), where)->ToString());
    default:
      return check_arrow<data_error>(array.GetScalar(i), where)->ToString();
  }
}

/// Appends the rows of a batch to `rows`; `where` names the file.
inline void append_rows(const arrow::RecordBatch& columns, const std::string& where, std::vector<row>& rows) {
  const std::size_t first = rows.size();
  rows.resize(first + static_cast<std::size_t>(columns.num_rows()), row::object());
  for (int c = 0; c < columns.num_columns(); ++c) {
    const std::string name = columns.schema()->field(c)->name(), place = where + ": column '" + printable(name) + "'";
    for (std::int64_t i = 0; i < columns.num_rows(); ++i)
      rows[first + static_cast<std::size_t>(i)][name] = arrow_to_json(*columns.column(c), i, place);
  }
}

RLCORE_INLINE std::vector<row> read_parquet(const std::filesystem::path& path) {
  const std::string where = path.string();
  static_cast<void>(input_file(path));  // our own error text for a missing file
  std::vector<row> rows;
  try {
    const auto file = check_arrow<file_error>(arrow::io::ReadableFile::Open(where), where);
    const std::int64_t size = check_arrow<file_error>(file->GetSize(), where);
    // The texts of a batch are at most 2 GiB in Arrow; an entry of a dictionary takes 16 bytes there.
    detail::bounded_pool memory((std::int64_t{1} << 31) + 100 * size);
    parquet::arrow::FileReaderBuilder builder;
    check_arrow<data_error>(builder.memory_pool(&memory)->Open(file, parquet::ReaderProperties(&memory)),
                            where + ": not a readable Parquet file");
    // Few rows at a time, of one row group: Arrow cannot assemble some nested columns across groups, nor a batch with
    // more than 2 GiB of nested texts or bytes, such as images.
    parquet::ArrowReaderProperties properties;
    properties.set_batch_size(512);
    std::unique_ptr<parquet::arrow::FileReader> reader;
    check_arrow<data_error>(builder.properties(properties)->Build(&reader), where + ": not a readable Parquet file");
    for (int group = 0; group < reader->num_row_groups(); ++group) {
      const auto batches = check_arrow<data_error>(reader->GetRecordBatchReader({group}), where + ": cannot decode");
      for (;;) {
        const auto columns = check_arrow<data_error>(batches->Next(), where + ": cannot decode");
        if (columns == nullptr) break;
        check_arrow<data_error>(columns->ValidateFull(), where + ": damaged content");
        append_rows(*columns, where, rows);
      }
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
#endif
