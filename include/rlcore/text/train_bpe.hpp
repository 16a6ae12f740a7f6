// Trains a byte-level BPE tokenizer, and writes its folder.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <queue>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <unordered_map>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/text/chat_variables.hpp"
#include "rlcore/text/normalizer.hpp"
#include "rlcore/text/parse_json.hpp"
#include "rlcore/text/pre_tokenizer.hpp"
#include "rlcore/text/text_file.hpp"
#include "rlcore/text/tokenizer.hpp"
#include "rlcore/text/utf8.hpp"

RLCORE_BEGIN
namespace text {

/// Fields of tokenizer_config.json.
struct tokenizer_settings {
  std::string eos_token = "<|im_end|>";
  std::string pad_token = "<|endoftext|>";
  std::string chat_template = std::string(chatml_jinja);  ///< Jinja text
  int model_max_length = 131072;
};

/// Text of a tokenizer_config.json with which transformers' AutoTokenizer takes tokenizer.json as it is.
std::string tokenizer_config_json(const tokenizer_settings& s);

/// Writes tokenizer.json and tokenizer_config.json into `folder`, which is created when missing. Throws
/// std::invalid_argument when the eos or pad token is none of the tokenizer's, file_error when the system refuses.
void save(const tokenizer& t, const std::filesystem::path& folder, const tokenizer_settings& settings = {});

/// Which words a trained tokenizer cuts text into. In a model folder whose config.json says qwen2 only the qwen2 style
/// is safe: transformers 5 cuts there as Qwen2 does, whatever tokenizer.json says.
enum class split_style : std::uint8_t {
  gpt2,   ///< GPT-2's: numbers are words
  qwen2,  ///< Qwen2's, after NFC: every digit is a word
};

/// Learns merge rules: the most frequent adjacent pair first, ties by lowest ids (Sennrich et al. 2016; ties as in the
/// `tokenizers` library). Symbols 0..255 are the bytes in alphabet order.
class bpe_trainer {
 public:
  /// Counts `times` occurrences of a word given as symbols.
  void add_word(std::vector<std::int32_t> symbols, std::int64_t times) {
    words_.push_back({std::move(symbols), times});
  }

  /// The vocabulary and its merges, in the order in which they were learned.
  struct learnt {
    std::vector<std::string> tokens;  ///< spelled in the byte alphabet, by id
    std::vector<std::pair<std::int32_t, std::int32_t>> merges;
  };

  /// Merges until there are `size` tokens or no pair is left. `tokens`: the symbols to start from.
  learnt train(std::vector<std::string> tokens, std::size_t size);

 private:
  using symbol_pair = std::pair<std::int32_t, std::int32_t>;
  struct word {
    std::vector<std::int32_t> symbols;
    std::int64_t times;
  };
  struct candidate {
    std::int64_t count;
    symbol_pair pair;
    bool operator<(const candidate& other) const noexcept {
      return count != other.count ? count < other.count : pair > other.pair;
    }
  };

  void count(std::size_t w, std::int64_t sign);

  void publish();

  void merge_everywhere(symbol_pair pair, std::int32_t merged);

  std::vector<word> words_;
  std::map<symbol_pair, std::int64_t> counts_;
  std::map<symbol_pair, std::vector<std::size_t>> words_with_;
  std::vector<symbol_pair> changed_;
  std::priority_queue<candidate> queue_;
};

namespace detail {

/// The parts of tokenizer.json that say how text is cut into words.
struct split_json {
  nlohmann::ordered_json normalizer, pre_tokenizer, decoder;

  explicit split_json(split_style style);
};

/// The words of a corpus and how often each occurs. Throws data_error for text that is not UTF-8.
std::map<std::string, std::int64_t, std::less<>> count_words(std::span<const std::string> corpus,
                                                             const split_json& split);

/// The tokens of the 256 bytes, in the order of their characters, and the bytes' places in it.
struct byte_tokens {
  std::vector<std::string> symbols = std::vector<std::string>(256);
  std::vector<std::int32_t> id_of_byte = std::vector<std::int32_t>(256);

  byte_tokens();
};

/// The text of tokenizer.json: the learnt tokens, then the special ones.
std::string tokenizer_json(const bpe_trainer::learnt& learnt, std::span<const std::string> special_tokens,
                           const split_json& split);

}  // namespace detail

/// A tokenizer of exactly `vocab_size` tokens: the 256 bytes, merges learnt from `corpus`, `special_tokens` at the end.
/// The same corpus gives the same tokenizer. eos_id and pad_id are <|im_end|> and <|endoftext|> when these are among
/// the special tokens. Throws std::invalid_argument when `vocab_size` leaves no room, data_error when the corpus has
/// too few pairs for it or is not UTF-8.
tokenizer train_bpe(std::span<const std::string> corpus, std::size_t vocab_size,
                    std::span<const std::string> special_tokens, split_style style = split_style::qwen2);

}  // namespace text
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TEXT)
RLCORE_BEGIN
namespace text {

RLCORE_INLINE std::string tokenizer_config_json(const tokenizer_settings& s) {
  nlohmann::ordered_json j;
  j["add_bos_token"] = false;
  j["add_prefix_space"] = false;
  j["bos_token"] = nullptr;
  j["chat_template"] = s.chat_template;
  j["clean_up_tokenization_spaces"] = false;
  j["eos_token"] = s.eos_token;
  j["model_max_length"] = s.model_max_length;
  j["pad_token"] = s.pad_token;
  j["tokenizer_class"] = "PreTrainedTokenizerFast";
  j["unk_token"] = nullptr;
  return json_text(j, 2) + "\n";
}

RLCORE_INLINE void save(const tokenizer& t, const std::filesystem::path& folder, const tokenizer_settings& settings) {
  require(t.id_of(settings.eos_token).has_value(), "save: settings.eos_token is no token of this tokenizer");
  require(t.id_of(settings.pad_token).has_value(), "save: settings.pad_token is no token of this tokenizer");
  std::error_code code;
  std::filesystem::create_directories(folder, code);
  if (code) throw file_error(folder.string() + ": cannot create: " + code.message());
  write_text_file(folder / "tokenizer.json", t.json());
  write_text_file(folder / "tokenizer_config.json", tokenizer_config_json(settings));
}

RLCORE_INLINE auto bpe_trainer::train(std::vector<std::string> tokens, std::size_t size) -> learnt {
  learnt result{std::move(tokens), {}};
  std::unordered_map<std::string, std::int32_t> ids;
  for (std::size_t i = 0; i < result.tokens.size(); ++i) ids[result.tokens[i]] = static_cast<std::int32_t>(i);
  for (std::size_t w = 0; w < words_.size(); ++w) count(w, +1);
  publish();
  while (result.tokens.size() < size && !queue_.empty()) {
    const candidate best = queue_.top();
    queue_.pop();
    if (counts_[best.pair] != best.count) continue;  // stale: the current count has its own entry
    const auto [left, right] = best.pair;
    const std::string token =
        result.tokens[static_cast<std::size_t>(left)] + result.tokens[static_cast<std::size_t>(right)];
    const auto [known, fresh] = ids.emplace(token, static_cast<std::int32_t>(result.tokens.size()));
    if (fresh) result.tokens.push_back(token);
    result.merges.push_back(best.pair);
    merge_everywhere(best.pair, known->second);
  }
  return result;
}

RLCORE_INLINE void bpe_trainer::count(std::size_t w, std::int64_t sign) {
  const auto& s = words_[w].symbols;
  for (std::size_t i = 0; i + 1 < s.size(); ++i) {
    const symbol_pair p{s[i], s[i + 1]};
    counts_[p] += sign * words_[w].times;
    changed_.push_back(p);
    if (sign > 0) {
      auto& where = words_with_[p];
      if (where.empty() || where.back() != w) where.push_back(w);
    }
  }
}

RLCORE_INLINE void bpe_trainer::publish() {
  std::sort(changed_.begin(), changed_.end());
  changed_.erase(std::unique(changed_.begin(), changed_.end()), changed_.end());
  for (const symbol_pair& p : changed_)
    if (counts_[p] > 0) queue_.push({counts_[p], p});
  changed_.clear();
}

RLCORE_INLINE void bpe_trainer::merge_everywhere(symbol_pair pair, std::int32_t merged) {
  std::vector<std::size_t> where = std::move(words_with_[pair]);
  words_with_.erase(pair);
  std::sort(where.begin(), where.end());
  where.erase(std::unique(where.begin(), where.end()), where.end());
  for (const std::size_t w : where) {
    count(w, -1);
    auto& s = words_[w].symbols;
    std::size_t kept = 0;
    for (std::size_t i = 0; i < s.size(); ++i) {
      const bool here = i + 1 < s.size() && s[i] == pair.first && s[i + 1] == pair.second;
      s[kept++] = here ? merged : s[i];
      i += here ? 1 : 0;
    }
    s.resize(kept);
    count(w, +1);
  }
  publish();
}

}  // namespace text

namespace text::detail {

RLCORE_INLINE split_json::split_json(split_style style) {
  const bool qwen2 = style == split_style::qwen2;
  decoder = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", !qwen2}, {"use_regex", !qwen2}};
  pre_tokenizer = decoder;
  if (!qwen2) return;
  normalizer = {{"type", "NFC"}};
  const nlohmann::ordered_json split = {{"type", "Split"},
                                        {"pattern", {{"Regex", std::string(qwen2_split)}}},
                                        {"behavior", "Isolated"},
                                        {"invert", false}};
  pre_tokenizer = {{"type", "Sequence"}, {"pretokenizers", nlohmann::ordered_json::array({split, decoder})}};
}

RLCORE_INLINE std::map<std::string, std::int64_t, std::less<>> count_words(std::span<const std::string> corpus,
                                                                           const split_json& split) {
  const normalizer normalize{nlohmann::json(split.normalizer)};
  const pre_tokenizer cut{nlohmann::json(split.pre_tokenizer)};
  std::map<std::string, std::int64_t, std::less<>> words;
  for (const std::string& text : corpus) {
    require_utf8(text);
    cut(normalize(text), [&](std::string_view word) {
      const auto found = words.find(word);
      found == words.end() ? static_cast<void>(words.emplace(word, 1)) : static_cast<void>(++found->second);
    });
  }
  return words;
}

RLCORE_INLINE byte_tokens::byte_tokens() {
  const byte_alphabet alphabet;
  std::vector<char32_t> characters;
  for (int byte = 0; byte < 256; ++byte) characters.push_back(alphabet.character(static_cast<std::uint8_t>(byte)));
  std::sort(characters.begin(), characters.end());
  for (std::size_t i = 0; i < 256; ++i) {
    append_utf8(symbols[i], characters[i]);
    id_of_byte[static_cast<std::size_t>(alphabet.byte(characters[i]))] = static_cast<std::int32_t>(i);
  }
}

RLCORE_INLINE std::string tokenizer_json(const bpe_trainer::learnt& learnt, std::span<const std::string> special_tokens,
                                         const split_json& split) {
  using json = nlohmann::ordered_json;
  json added = json::array(), vocab = json::object(), merges = json::array();
  for (std::size_t i = 0; i < special_tokens.size(); ++i)
    added.push_back({{"id", learnt.tokens.size() + i},
                     {"content", special_tokens[i]},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
  // A plain loop over an ordered object would look every key up again: quadratic.
  auto& entries = vocab.get_ref<json::object_t&>();
  for (std::size_t i = 0; i < learnt.tokens.size(); ++i) entries.push_back({learnt.tokens[i], i});
  for (const auto& [left, right] : learnt.merges)
    merges.push_back({learnt.tokens[static_cast<std::size_t>(left)], learnt.tokens[static_cast<std::size_t>(right)]});
  json file;
  file["version"] = "1.0";
  file["truncation"] = nullptr;
  file["padding"] = nullptr;
  file["added_tokens"] = added;
  file["normalizer"] = split.normalizer;
  file["pre_tokenizer"] = split.pre_tokenizer;
  file["post_processor"] = nullptr;
  file["decoder"] = split.decoder;
  file["model"] = {{"type", "BPE"},
                   {"dropout", nullptr},
                   {"unk_token", nullptr},
                   {"continuing_subword_prefix", nullptr},
                   {"end_of_word_suffix", nullptr},
                   {"fuse_unk", false},
                   {"byte_fallback", false},
                   {"ignore_merges", false},
                   {"vocab", std::move(vocab)},
                   {"merges", std::move(merges)}};
  return json_text(file, 1) + "\n";
}

}  // namespace text::detail

namespace text {

RLCORE_INLINE tokenizer train_bpe(std::span<const std::string> corpus, std::size_t vocab_size,
                                  std::span<const std::string> special_tokens, split_style style) {
  require(vocab_size >= 256 + special_tokens.size(), "train_bpe: vocab_size is below 256 + number of special tokens");
  const std::size_t size = vocab_size - special_tokens.size();
  const detail::split_json split(style);
  detail::byte_tokens bytes;
  bpe_trainer trainer;
  for (const auto& [word, times] : detail::count_words(corpus, split)) {
    std::vector<std::int32_t> ids;
    for (const char c : word) ids.push_back(bytes.id_of_byte[static_cast<std::uint8_t>(c)]);
    trainer.add_word(std::move(ids), times);
  }
  const bpe_trainer::learnt learnt = trainer.train(std::move(bytes.symbols), size);
  if (learnt.tokens.size() < size)
    throw data_error("train_bpe: the corpus has pairs for " +
                     std::to_string(learnt.tokens.size() + special_tokens.size()) + " tokens, expected " +
                     std::to_string(vocab_size));
  tokenizer_settings settings;
  const auto special = [&](const std::string& token) {
    return std::find(special_tokens.begin(), special_tokens.end(), token) != special_tokens.end();
  };
  const bool named = special(settings.eos_token) && special(settings.pad_token);
  return tokenizer::parse(detail::tokenizer_json(learnt, special_tokens, split),
                          named ? tokenizer_config_json(settings) : std::string(), "train_bpe");
}

}  // namespace text
RLCORE_END
#endif
