// Parquet schema inference from JSON rows.
#pragma once

#include <arrow/api.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "rlcore/data/row.hpp"
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

}  // namespace data
RLCORE_END
