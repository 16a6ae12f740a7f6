// Precompiled parts of nlohmann's parser and writer.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/compiler.hpp"
#include "rlcore/text/cbor_depth.hpp"
#include "rlcore/text/parse_json.hpp"

RLCORE_BEGIN
namespace text {

namespace detail {

RLCORE_INLINE void read_json(std::string_view json, nlohmann::json& value, bool strict) {
  value = nlohmann::json::parse(json, nullptr, strict);
}
RLCORE_INLINE void read_json(std::string_view json, nlohmann::ordered_json& value, bool strict) {
  value = nlohmann::ordered_json::parse(json, nullptr, strict);
}
RLCORE_INLINE std::string write_json(const nlohmann::json& value, int indent) {
  return value.dump(indent, ' ', false, nlohmann::json::error_handler_t::replace);
}
RLCORE_INLINE std::string write_json(const nlohmann::ordered_json& value, int indent) {
  return value.dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}
RLCORE_INLINE bool read_cbor(std::string_view bytes, nlohmann::json& value) {
  if (cbor_nests_deeper(bytes, json_depth_limit)) return false;
  value = nlohmann::json::from_cbor(bytes);
  return true;
}

}  // namespace detail
}  // namespace text
RLCORE_END
