// The `post_processor` of a tokenizer.json: the tokens that a published tokenizer puts around a whole text.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/text/json_field.hpp"
#include "rlcore/text/parse_json.hpp"

RLCORE_BEGIN
namespace text {

/// ByteLevel (which only moves offsets), TemplateProcessing of one text, and sequences of these. Llama 3 puts
/// <|begin_of_text|> in front; Qwen's tokenizers add nothing.
class post_processor {
 public:
  post_processor() = default;

  /// Reads the `post_processor` object of a tokenizer.json (null: nothing is added). Throws format_error for other
  /// kinds, and for a template that names a token without ids or has not the text once.
  explicit post_processor(const nlohmann::json& json) { add(json); }

  /// Ids before and behind the text.
  const std::vector<std::int32_t>& prefix() const noexcept { return prefix_; }
  const std::vector<std::int32_t>& suffix() const noexcept { return suffix_; }

 private:
  void add(const nlohmann::json& json);

  static std::vector<std::int32_t> ids_of(const nlohmann::json& tokens, const std::string& name);

  std::vector<std::int32_t> prefix_, suffix_;
};

}  // namespace text
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TEXT)
RLCORE_BEGIN
namespace text {

RLCORE_INLINE void post_processor::add(const nlohmann::json& json) {
  if (json.is_null()) return;
  const std::string type = string_field(json, "type", "post_processor");
  if (type == "ByteLevel") return;
  if (type == "Sequence") {
    for (const auto& part : field(json, "processors", "post_processor")) add(part);
    return;
  }
  if (type != "TemplateProcessing")
    throw format_error("post_processor.type '" + type +
                       "' is not supported; expected ByteLevel, TemplateProcessing or Sequence");
  const nlohmann::json tokens = field(json, "special_tokens", "post_processor");
  std::vector<std::int32_t> before, behind;
  int texts = 0;
  for (const auto& piece : field(json, "single", "post_processor")) {
    if (piece.contains("Sequence")) {
      ++texts;
      continue;
    }
    const std::string id =
        string_field(field(piece, "SpecialToken", "post_processor.single"), "id", "post_processor.single.SpecialToken");
    for (const std::int32_t token : ids_of(tokens, id)) (texts == 0 ? before : behind).push_back(token);
  }
  if (texts != 1)
    throw format_error("post_processor.single: expected the text once, found it " + std::to_string(texts) + " times");
  prefix_.insert(prefix_.begin(), before.begin(), before.end());
  suffix_.insert(suffix_.end(), behind.begin(), behind.end());
}

RLCORE_INLINE std::vector<std::int32_t> post_processor::ids_of(const nlohmann::json& tokens, const std::string& name) {
  const std::string where = "post_processor.special_tokens['" + name + "']";
  if (!tokens.is_object() || !tokens.contains(name)) throw format_error(where + ": expected its ids, found none");
  std::vector<std::int32_t> ids;
  for (const auto& id : field(tokens[name], "ids", where)) {
    if (!id.is_number_integer() || id.get<std::int64_t>() < 0 || id.get<std::int64_t>() > INT32_MAX / 2)
      throw format_error(where + ".ids: expected ids from 0 on, found " + json_text(id));
    ids.push_back(id.get<std::int32_t>());
  }
  return ids;
}

}  // namespace text
RLCORE_END
#endif
