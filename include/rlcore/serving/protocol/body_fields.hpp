// The fields of a request's body: read by type, with an error that names the field.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/serving/protocol/api_error.hpp"

RLCORE_BEGIN
namespace serving {

/// Limits on the nesting depth of a body and on the members of an object: member lookup is linear in their number.
inline constexpr std::size_t body_depth_limit = 64, body_member_limit = 1024;

namespace detail {

/// Reads a body without keeping it, in linear time, and ends beyond the limits.
class body_limits final : public nlohmann::json_sax<json> {
 public:
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool key(string_t&) override {
    if (++members_.back() > body_member_limit)
      problem_ = "an object of the body has more than " + std::to_string(body_member_limit) + " members";
    return problem_.empty();
  }
  bool start_object(std::size_t) override { return enter(); }
  bool start_array(std::size_t) override { return enter(); }
  bool end_object() override { return members_.pop_back(), true; }
  bool end_array() override { return members_.pop_back(), true; }
  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception&) override { return false; }
  /// Which limit ended the reading; empty: none.
  const std::string& problem() const noexcept { return problem_; }

 private:
  bool enter();

  std::vector<std::size_t> members_;  // so far, of the values that are open
  std::string problem_;
};

}  // namespace detail

/// The JSON of a body. Throws api_error 400 if it is not JSON, not UTF-8 or not an object, for a number beyond a
/// double, and beyond the limits. Of equal keys the last one counts.
json parse_body(std::string_view text);

/// Reads fields by name and remembers which were asked for. A null counts as an absent field everywhere.
class body_fields {
 public:
  /// `body` must outlive the reader.
  explicit body_fields(const json& body) : body_(body) {}

  /// The value of a field; nullptr if it is absent or null.
  const json* find(std::string_view name) {
    known_.emplace(name);
    const auto found = body_.find(name);
    return found == body_.end() || found->is_null() ? nullptr : &*found;
  }
  /// Whether the body has the field, be it null.
  bool has(std::string_view name) const { return body_.contains(name); }
  /// Fields that cannot change the answer.
  void ignore(std::initializer_list<std::string_view> names) { known_.insert(names.begin(), names.end()); }

  /// A field of type true or false.
  bool boolean(std::string_view name, bool otherwise);
  /// A finite number.
  std::optional<double> number(std::string_view name);
  /// A whole number of 64 bits; 16.0 is one.
  std::optional<std::int64_t> integer(std::string_view name) {
    const json* v = find(name);
    if (v == nullptr) return std::nullopt;
    return integer_of(name, *v);
  }
  /// A text.
  std::optional<std::string> string(std::string_view name);
  /// A list of texts; `or_one` allows a single text in its place.
  std::vector<std::string> strings(std::string_view name, bool or_one = false);
  /// A list of token ids; each is at least 0.
  std::vector<std::int32_t> token_ids(std::string_view name) {
    const json* v = find(name);
    if (v == nullptr) return {};
    return token_ids_of(name, *v);
  }
  /// The same of a value inside the field `name`.
  std::vector<std::int32_t> token_ids_of(std::string_view name, const json& list) const;

  /// Rejects a field with an unsupported effect on the response. `neutral` is the JSON value without effect.
  void refuse_unless(std::string_view name, std::string_view neutral, std::string_view why) {
    const json* v = find(name);
    if (v == nullptr || *v == json::parse(neutral)) return;
    throw bad_request(std::string(name) + " is not supported: " + std::string(why));
  }

  /// The keys of the body that were never read.
  std::vector<std::string> unknown() const;
  /// All names that were read.
  const std::set<std::string, std::less<>>& known() const noexcept { return known_; }

  /// Throws "<name>: expected <what>, found <type of v>".
  [[noreturn]] static void wrong(std::string_view name, std::string_view what, const json& v) {
    throw invalid_body(std::string(name) + ": expected " + std::string(what) + ", found " + v.type_name());
  }

 private:
  static std::int64_t integer_of(std::string_view name, const json& v);

  const json& body_;
  std::set<std::string, std::less<>> known_;
};

}  // namespace serving
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_SERVING)
#include "rlcore/text/json_builder.hpp"

RLCORE_BEGIN
namespace serving::detail {

RLCORE_INLINE bool body_limits::enter() {
  members_.push_back(0);
  if (members_.size() > body_depth_limit)
    problem_ = "the body is nested deeper than " + std::to_string(body_depth_limit);
  return problem_.empty();
}

}  // namespace serving::detail

namespace serving {

RLCORE_INLINE json parse_body(std::string_view text) {
  if (text.find_first_not_of(" \t\r\n") == text.npos) throw invalid_body("the body is empty; expected a JSON object");
  detail::body_limits limits;
  json::sax_parse(text, &limits);
  if (!limits.problem().empty()) throw invalid_body(limits.problem());
  json body;
  try {
    text::json_builder<json> builder(true);
    json::sax_parse(text, &builder);
    body = builder.take();
  } catch (const json::parse_error& e) {
    throw invalid_body("the body is not valid JSON in UTF-8 (at byte " + std::to_string(e.byte) + " of " +
                       std::to_string(text.size()) + ")");
  } catch (const json::exception&) {
    throw invalid_body("the body is not valid JSON (a number is out of range)");
  }
  if (!body.is_object())
    throw invalid_body(std::string("the body is a JSON ") + body.type_name() + "; expected an object");
  return body;
}

RLCORE_INLINE bool body_fields::boolean(std::string_view name, bool otherwise) {
  const json* v = find(name);
  if (v == nullptr) return otherwise;
  if (!v->is_boolean()) wrong(name, "true or false", *v);
  return v->get<bool>();
}

RLCORE_INLINE std::optional<double> body_fields::number(std::string_view name) {
  const json* v = find(name);
  if (v == nullptr) return std::nullopt;
  if (!v->is_number()) wrong(name, "a number", *v);
  return v->get<double>();
}

RLCORE_INLINE std::optional<std::string> body_fields::string(std::string_view name) {
  const json* v = find(name);
  if (v == nullptr) return std::nullopt;
  if (!v->is_string()) wrong(name, "a string", *v);
  return v->get<std::string>();
}

RLCORE_INLINE std::vector<std::string> body_fields::strings(std::string_view name, bool or_one) {
  const json* v = find(name);
  std::vector<std::string> all;
  if (v == nullptr) return all;
  if (or_one && v->is_string()) return {v->get<std::string>()};
  if (!v->is_array()) wrong(name, or_one ? "a string or a list of strings" : "a list of strings", *v);
  for (const json& item : *v) {
    if (!item.is_string()) wrong(name, "a list of strings", item);
    all.push_back(item.get<std::string>());
  }
  return all;
}

RLCORE_INLINE std::vector<std::int32_t> body_fields::token_ids_of(std::string_view name, const json& list) const {
  if (!list.is_array()) wrong(name, "a list of token ids", list);
  std::vector<std::int32_t> ids;
  ids.reserve(list.size());
  for (const json& item : list) {
    const std::int64_t id = integer_of(name, item);
    if (id < 0 || id > std::numeric_limits<std::int32_t>::max())
      throw invalid_body(std::string(name) + ": " + std::to_string(id) + " is no token id");
    ids.push_back(static_cast<std::int32_t>(id));
  }
  return ids;
}

RLCORE_INLINE std::vector<std::string> body_fields::unknown() const {
  std::vector<std::string> names;
  for (const auto& [name, value] : body_.items())
    if (!known_.contains(name)) names.push_back(name);
  return names;
}

RLCORE_INLINE std::int64_t body_fields::integer_of(std::string_view name, const json& v) {
  if (v.is_number_unsigned() && v.get<std::uint64_t>() > std::uint64_t{std::numeric_limits<std::int64_t>::max()})
    throw invalid_body(std::string(name) + ": the number is larger than 2^63 - 1");
  if (v.is_number_integer()) return v.get<std::int64_t>();
  const double x = v.is_number_float() ? v.get<double>() : 0.5;
  if (x != std::floor(x) || std::fabs(x) > 0x1p53) wrong(name, "a whole number", v);
  return static_cast<std::int64_t>(x);
}

}  // namespace serving
RLCORE_END
#endif
