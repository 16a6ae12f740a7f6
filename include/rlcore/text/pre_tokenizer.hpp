// The `pre_tokenizer` of a tokenizer.json cuts text into words, which BPE then encodes one by one; the regular
// expressions of published tokenizers.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/text/parse_json.hpp"
#include "rlcore/text/pattern.hpp"

RLCORE_BEGIN
namespace text {

/// The split expression of GPT-2 (Radford et al. 2019), used by ByteLevel with use_regex.
inline constexpr std::string_view gpt2_split =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

/// The split expression of Qwen2 (Yang et al. 2024): digits stand alone.
inline constexpr std::string_view qwen2_split =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

/// The split expression of Llama 3 (Grattafiori et al. 2024): at most three digits stand together.
inline constexpr std::string_view llama3_split =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

/// Cuts text into words: ByteLevel, Split (Isolated or Removed), Digits and Sequence.
class pre_tokenizer {
 public:
  pre_tokenizer() = default;

  /// Reads the `pre_tokenizer` object of a tokenizer.json (null: one word). Throws format_error for unsupported steps.
  explicit pre_tokenizer(const nlohmann::json& json) { add(json); }

  /// True if words are bytes spelled in the byte alphabet rather than characters.
  bool byte_level() const noexcept { return byte_level_; }

  /// Calls visit(word) for every word of `text` (valid UTF-8), in order.
  template <class Visit>
  void operator()(std::string_view text, Visit&& visit) const {
    if (text.empty()) return;
    if (steps_.size() == 1 && !steps_[0].prefix_space) {  // the common case needs no intermediate list
      steps_[0].cut(text, visit);
      return;
    }
    std::vector<std::string_view> words{text}, next;
    std::deque<std::string> changed;
    for (const step& s : steps_) {
      next.clear();
      for (std::string_view word : words) {
        if (s.prefix_space && word.front() != ' ') word = changed.emplace_back(' ' + std::string(word));
        s.cut(word, [&](std::string_view piece) { next.push_back(piece); });
      }
      words.swap(next);
    }
    for (const std::string_view word : words) visit(word);
  }

 private:
  struct step {
    std::shared_ptr<const pattern> split;  ///< null: one piece
    bool removed = false;                  ///< drop the separators
    bool invert = false;                   ///< the separators are what does not match
    bool prefix_space = false;

    template <class Visit>
    void cut(std::string_view text, Visit&& visit) const {
      if (!split) {
        visit(text);
        return;
      }
      std::size_t done = 0;
      const auto emit = [&](std::size_t begin, std::size_t end, bool separator) {
        if (begin < end && !(removed && separator != invert)) visit(text.substr(begin, end - begin));
      };
      split->for_each_match(text, [&](std::size_t begin, std::size_t end) {
        emit(done, begin, false);
        emit(begin, end, true);
        done = end;
      });
      emit(done, text.size(), false);
    }
  };

  void add(const nlohmann::json& json);

  std::vector<step> steps_;
  bool byte_level_ = false;
};

}  // namespace text
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TEXT)
RLCORE_BEGIN
namespace text {

RLCORE_INLINE void pre_tokenizer::add(const nlohmann::json& json) {
  if (json.is_null()) return;
  const std::string type = string_field(json, "type", "pre_tokenizer");
  if (byte_level_) throw format_error("pre_tokenizer.type '" + type + "' after ByteLevel is not supported");
  step s;
  if (type == "Sequence") {
    for (const auto& part : field(json, "pretokenizers", "pre_tokenizer")) add(part);
    return;
  }
  if (type == "ByteLevel") {
    byte_level_ = true;
    s.prefix_space = bool_field(json, "add_prefix_space", true, "pre_tokenizer");
    if (bool_field(json, "use_regex", true, "pre_tokenizer")) s.split = std::make_shared<pattern>(gpt2_split);
    if (!s.split && !s.prefix_space) return;
  } else if (type == "Split") {
    const std::string behavior = string_field(json, "behavior", "pre_tokenizer");
    if (behavior != "Isolated" && behavior != "Removed")
      throw format_error("pre_tokenizer.behavior '" + behavior + "' is not supported; expected Isolated or Removed");
    const nlohmann::json& source = field(json, "pattern", "pre_tokenizer");
    const bool literal = source.is_object() && source.contains("String");
    s.split =
        std::make_shared<pattern>(string_field(source, literal ? "String" : "Regex", "pre_tokenizer.pattern"), literal);
    s.removed = behavior == "Removed";
    s.invert = bool_field(json, "invert", false, "pre_tokenizer");
  } else if (type == "Digits") {
    s.split = std::make_shared<pattern>(bool_field(json, "individual_digits", false, "pre_tokenizer") ? R"(\p{N})"
                                                                                                      : R"(\p{N}+)");
  } else {
    throw format_error("pre_tokenizer.type '" + type +
                       "' is not supported; expected ByteLevel, Split, Digits or Sequence");
  }
  steps_.push_back(std::move(s));
}

}  // namespace text
RLCORE_END
#endif
