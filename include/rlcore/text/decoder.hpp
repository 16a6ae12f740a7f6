// What follows the model of a tokenizer: post-processor and decoders.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/text/parse_json.hpp"
#include "rlcore/text/pattern.hpp"
#include "rlcore/text/utf8.hpp"

RLCORE_BEGIN
namespace text {

/// ByteLevel (which only moves offsets), TemplateProcessing of one text, and sequences of these. Llama 3 puts
/// <|begin_of_text|> in front; Qwen's tokenizers add nothing.
class post_processor {
 public:
  post_processor() = default;

  /// Reads the `post_processor` object of a tokenizer.json (null: nothing is added). Throws format_error for other
  /// kinds, for a template that names a token without ids or has not the text once, and for more ids than a text may
  /// have around it.
  explicit post_processor(const nlohmann::json& json) { add(json); }

  /// Ids before and behind the text.
  const std::vector<std::int32_t>& prefix() const noexcept { return prefix_; }
  const std::vector<std::int32_t>& suffix() const noexcept { return suffix_; }

 private:
  static constexpr std::size_t most_ids = 4096;

  void add(const nlohmann::json& json);
  /// Throws format_error for more than most_ids.
  static void check_count(std::size_t ids) {
    if (ids > most_ids)
      throw format_error("post_processor adds more than " + std::to_string(most_ids) + " ids to a text");
  }

  static std::vector<std::int32_t> ids_of(const nlohmann::json& tokens, const std::string& name);

  std::vector<std::int32_t> prefix_, suffix_;
};

/// A chain of decoding steps: ByteLevel, ByteFallback, Fuse, Replace, Strip and Sequence.
class decoder {
 public:
  decoder() = default;

  /// From the `decoder` object of a tokenizer.json (null: tokens joined by spaces). Throws format_error for other
  /// types.
  explicit decoder(const nlohmann::json& json) : none_(json.is_null()) { add(json); }

  /// True if the text is simply the bytes of all tokens, with broken UTF-8 replaced.
  bool byte_level() const noexcept { return steps_.size() == 1 && std::holds_alternative<byte_level_step>(steps_[0]); }

  /// True if the text of a token needs only the token before it and the end of a run of bytes <0xNN>: tokens joined by
  /// spaces, or the steps of Llama 2's files, in their order: Replace U+2581 by a space, ByteFallback, Fuse, Strip of
  /// at most one space at the start.
  bool in_order() const noexcept;

  /// The text of `tokens`, which are spelled as in the vocabulary.
  std::string operator()(std::vector<std::string> tokens) const;

  /// The bytes that one token of a byte-level vocabulary stands for (itself when it is not spelled in bytes).
  static std::string bytes_of(const std::string& token) { return byte_alphabet().unspell(token).value_or(token); }

  /// The byte that a token <0xNN> stands for; -1 for other tokens.
  static int fallback_byte(std::string_view token) noexcept;

 private:
  struct byte_level_step {};
  struct byte_fallback_step {};
  struct fuse_step {};
  struct replace_step {
    std::shared_ptr<const pattern> expression;
    std::string with;
    bool marks_by_spaces = false;  ///< U+2581 by a space
  };
  struct strip_step {
    std::string content;
    std::size_t start, stop;
  };

  static void apply(byte_level_step, std::vector<std::string>& tokens) {
    std::string bytes;
    for (const auto& token : tokens) bytes += bytes_of(token);
    tokens = {utf8_lossy(bytes)};
  }

  static void apply(byte_fallback_step, std::vector<std::string>& tokens);

  static void apply(fuse_step, std::vector<std::string>& tokens) {
    std::string text;
    for (const auto& token : tokens) text += token;
    tokens = {std::move(text)};
  }

  static void apply(const replace_step& s, std::vector<std::string>& tokens);

  static void apply(const strip_step& s, std::vector<std::string>& tokens);

  void add(const nlohmann::json& json);

  // In the order that in_order() asks for.
  std::vector<std::variant<byte_level_step, replace_step, byte_fallback_step, fuse_step, strip_step>> steps_;
  bool none_ = true;
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
    check_count(prefix_.size() + before.size() + suffix_.size() + behind.size());
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
  check_count(field(tokens[name], "ids", where).size());
  for (const auto& id : field(tokens[name], "ids", where)) {
    if (!id.is_number_integer() || id.get<std::int64_t>() < 0 || id.get<std::int64_t>() > INT32_MAX / 2)
      throw format_error(where + ".ids: expected ids from 0 on, found " + json_text(id));
    ids.push_back(id.get<std::int32_t>());
  }
  return ids;
}

RLCORE_INLINE bool decoder::in_order() const noexcept {
  std::size_t last = 0;
  for (const auto& step : steps_) {
    const auto* replace = std::get_if<replace_step>(&step);
    const auto* strip = std::get_if<strip_step>(&step);
    if (step.index() <= last || (replace != nullptr && !replace->marks_by_spaces)) return false;
    if (strip != nullptr && (strip->content != " " || strip->start > 1 || strip->stop > 0)) return false;
    last = step.index();
  }
  return true;
}

RLCORE_INLINE std::string decoder::operator()(std::vector<std::string> tokens) const {
  for (const auto& step : steps_) std::visit([&](const auto& s) { apply(s, tokens); }, step);
  std::string text;
  for (std::size_t i = 0; i < tokens.size(); ++i) (text += none_ && i > 0 ? " " : "") += tokens[i];
  return text;
}

RLCORE_INLINE int decoder::fallback_byte(std::string_view token) noexcept {
  if (token.size() != 6 || token.substr(0, 3) != "<0x" || token[5] != '>') return -1;
  const auto digit = [](char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                  : -1;
  };
  const int high = digit(token[3]), low = digit(token[4]);
  return high < 0 || low < 0 ? -1 : 16 * high + low;
}

RLCORE_INLINE void decoder::apply(byte_fallback_step, std::vector<std::string>& tokens) {
  std::vector<std::string> out;
  std::string bytes;
  const auto flush = [&] {
    if (bytes.empty()) return;
    if (first_broken_utf8(bytes) == bytes.size()) {
      out.push_back(bytes);
    } else {
      out.insert(out.end(), bytes.size(), "\xEF\xBF\xBD");
    }
    bytes.clear();
  };
  for (auto& token : tokens) {
    const int byte = fallback_byte(token);
    if (byte >= 0) {
      bytes += static_cast<char>(byte);
    } else {
      flush();
      out.push_back(std::move(token));
    }
  }
  flush();
  tokens = std::move(out);
}

RLCORE_INLINE void decoder::apply(const replace_step& s, std::vector<std::string>& tokens) {
  for (auto& token : tokens) {
    std::string out;
    std::size_t done = 0;
    s.expression->for_each_match(token, [&](std::size_t begin, std::size_t end) {
      out.append(token, done, begin - done).append(s.with);
      done = end;
    });
    token = out.append(token, done);
  }
}

RLCORE_INLINE void decoder::apply(const strip_step& s, std::vector<std::string>& tokens) {
  for (auto& token : tokens) {
    std::size_t begin = 0, end = token.size();
    for (std::size_t i = 0; i < s.start && token.compare(begin, s.content.size(), s.content) == 0; ++i)
      begin += s.content.size();
    for (std::size_t i = 0; i < s.stop && end >= begin + s.content.size() &&
                            token.compare(end - s.content.size(), s.content.size(), s.content) == 0;
         ++i)
      end -= s.content.size();
    token = token.substr(begin, end - begin);
  }
}

RLCORE_INLINE void decoder::add(const nlohmann::json& json) {
  if (json.is_null()) return;
  const std::string type = string_field(json, "type", "decoder");
  if (type == "Sequence") {
    for (const auto& step : field(json, "decoders", "decoder")) add(step);
  } else if (type == "ByteLevel") {
    steps_.emplace_back(byte_level_step{});
  } else if (type == "ByteFallback") {
    steps_.emplace_back(byte_fallback_step{});
  } else if (type == "Fuse") {
    steps_.emplace_back(fuse_step{});
  } else if (type == "Replace") {
    const nlohmann::json& source = field(json, "pattern", "decoder");
    const bool literal = source.is_object() && source.contains("String");
    const std::string text = string_field(source, literal ? "String" : "Regex", "decoder.pattern");
    const std::string with = string_field(json, "content", "decoder");
    steps_.emplace_back(
        replace_step{std::make_shared<pattern>(text, literal), with, literal && text == "\xE2\x96\x81" && with == " "});
  } else if (type == "Strip") {
    const auto count = [&](const char* key) {
      const long long n = integer_field(json, key, "decoder");
      if (n < 0) throw format_error(std::string("decoder.") + key + ": expected 0 or more");
      return static_cast<std::size_t>(n);
    };
    const std::string content = string_field(json, "content", "decoder");
    if (content.empty()) throw format_error("decoder.content: expected a character, found an empty text");
    steps_.emplace_back(strip_step{content, count("start"), count("stop")});
  } else {
    throw format_error("decoder.type '" + type +
                       "' is not supported; expected ByteLevel, ByteFallback, Fuse, Replace, Strip or Sequence");
  }
}

}  // namespace text
RLCORE_END
#endif
