// The BPE model of a tokenizer: merges, vocabulary, cache of words.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <queue>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/text/parse_json.hpp"
#include "rlcore/text/utf8.hpp"

RLCORE_BEGIN
namespace text {

/// Merge rules (left, right) -> merged, in order of rank: byte pair encoding (Gage 1994; Sennrich et al. 2016).
class bpe_merges {
 public:
  /// The result and rank of a merge.
  struct rule {
    std::int32_t rank = -1;  ///< -1: no rule
    std::int32_t merged = -1;
  };

  /// Room for `rules` rules.
  explicit bpe_merges(std::size_t rules = 0) {
    std::size_t capacity = 16;
    while (capacity < 2 * rules) capacity *= 2;
    slots_.resize(capacity);
  }

  /// Adds a rule; a later rule for the same pair replaces the earlier one. At most as many as announced.
  void add(std::int32_t left, std::int32_t right, rule r);

  /// The rule for a pair; rank -1 when there is none.
  rule find(std::int32_t left, std::int32_t right) const noexcept;

  /// Merges `symbols` until no rule applies: always the lowest rank, ties leftmost. O(n log n) for long words.
  void apply(std::vector<std::int32_t>& symbols) const;

 private:
  struct slot {
    std::uint64_t key = empty_key;
    rule value;
  };
  static constexpr std::uint64_t empty_key = ~std::uint64_t{0};

  static std::uint64_t pair_key(std::int32_t left, std::int32_t right) noexcept {
    return (std::uint64_t{static_cast<std::uint32_t>(left)} << 32) | static_cast<std::uint32_t>(right);
  }
  std::size_t slot_of(std::uint64_t key) const noexcept {
    key *= 0x9E3779B97F4A7C15ull;
    return static_cast<std::size_t>(key ^ (key >> 32)) & (slots_.size() - 1);
  }

  void apply_short(std::vector<std::int32_t>& symbols) const;

  void apply_long(std::vector<std::int32_t>& symbols) const;

  std::vector<slot> slots_;
};

/// The largest accepted id: tables have an entry per id, and no published vocabulary has a tenth of this.
inline constexpr std::int32_t largest_token_id = (1 << 22) - 1;

/// Byte pair encoding of one word, over bytes (byte-level) or over characters with fallback to bytes <0xNN>.
class bpe_model {
 public:
  bpe_model() = default;

  /// Reads the `model` object of a tokenizer.json. Throws format_error for other models, for unsupported BPE options
  /// (dropout, prefixes and suffixes of sub-words), and for merges that name unknown tokens.
  bpe_model(const nlohmann::json& json, bool byte_level);

  /// Id of a token as it is spelled in the vocabulary.
  std::optional<std::int32_t> id_of(std::string_view token) const {
    const auto found = ids_.find(std::string(token));
    if (found == ids_.end()) return std::nullopt;
    return found->second;
  }

  /// All tokens with their ids, as spelled in the vocabulary.
  const std::unordered_map<std::string, std::int32_t>& vocabulary() const noexcept { return ids_; }

  /// Appends the ids of `word` (valid UTF-8, not spelled in the byte alphabet). Throws data_error if a part of the word
  /// has no token and the vocabulary has no unknown token.
  void encode_word(std::string_view word, std::vector<std::int32_t>& out) const;

 private:
  void read_vocabulary(const nlohmann::json& json);

  void read_merges(const nlohmann::json& json);

  void add_byte(std::vector<std::int32_t>& symbols, std::uint8_t byte) const {
    const std::int32_t id = byte_ids_[byte];
    if (id < 0) return add_unknown(symbols, std::string(1, static_cast<char>(byte)));
    symbols.push_back(id);
  }

  void add_character(std::vector<std::int32_t>& symbols, std::string_view character) const;

  void add_unknown(std::vector<std::int32_t>& symbols, std::string_view part) const;

  bool byte_level_ = false, ignore_merges_ = false, byte_fallback_ = false, fuse_unknown_ = false;
  std::int32_t unknown_ = -1;
  std::int32_t byte_ids_[256] = {};
  std::unordered_map<std::string, std::int32_t> ids_;
  bpe_merges merges_;
};

/// A bounded map word -> ids that many threads may use. It only saves time and never changes results.
class word_cache {
 public:
  /// Appends the ids of `word` to `out`, from the cache or else from compute(word, ids).
  template <class Compute>
  void append(std::string_view word, std::vector<std::int32_t>& out, Compute&& compute) {
    if (word.size() > longest_word) return compute(word, out);
    const std::size_t hash = std::hash<std::string_view>{}(word);
    shard& s = shards_[hash % shards_.size()];
    {
      const std::lock_guard lock(s.mutex);
      const auto found = s.ids.find(key{word, hash});
      if (found != s.ids.end()) {
        out.insert(out.end(), found->second.ids.begin(), found->second.ids.end());
        return;
      }
    }
    const std::size_t before = out.size();
    compute(word, out);
    const std::lock_guard lock(s.mutex);
    if (s.ids.size() >= words_per_shard) return;
    // The entry owns the word; the key looks into it, which a node-based map keeps in place.
    auto owned = std::make_unique<char[]>(word.size());
    word.copy(owned.get(), word.size());
    const key k{std::string_view(owned.get(), word.size()), hash};
    s.ids.emplace(k, entry{std::move(owned), {out.begin() + static_cast<std::ptrdiff_t>(before), out.end()}});
  }

 private:
  static constexpr std::size_t longest_word = 64, words_per_shard = 8192;

  struct key {
    std::string_view word;
    std::size_t hash;
    bool operator==(const key& other) const noexcept { return word == other.word; }
  };
  struct key_hash {
    std::size_t operator()(const key& k) const noexcept { return k.hash; }
  };
  struct entry {
    std::unique_ptr<char[]> word;
    std::vector<std::int32_t> ids;
  };
  struct shard {
    std::mutex mutex;
    std::unordered_map<key, entry, key_hash> ids;
  };
  std::array<shard, 16> shards_;
};

}  // namespace text
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TEXT)
RLCORE_BEGIN
namespace text {

RLCORE_INLINE void bpe_merges::add(std::int32_t left, std::int32_t right, rule r) {
  const std::uint64_t key = pair_key(left, right);
  std::size_t at = slot_of(key);
  while (slots_[at].key != empty_key && slots_[at].key != key) at = (at + 1) & (slots_.size() - 1);
  slots_[at] = {key, r};
}

RLCORE_INLINE auto bpe_merges::find(std::int32_t left, std::int32_t right) const noexcept -> rule {
  const std::uint64_t key = pair_key(left, right);
  std::size_t at = slot_of(key);
  while (slots_[at].key != empty_key) {
    if (slots_[at].key == key) return slots_[at].value;
    at = (at + 1) & (slots_.size() - 1);
  }
  return {};
}

RLCORE_INLINE void bpe_merges::apply(std::vector<std::int32_t>& symbols) const {
  if (symbols.size() < 48) {
    apply_short(symbols);
  } else {
    apply_long(symbols);
  }
}

RLCORE_INLINE void bpe_merges::apply_short(std::vector<std::int32_t>& symbols) const {
  rule rules[48];
  std::size_t n = symbols.size();
  for (std::size_t i = 0; i + 1 < n; ++i) rules[i] = find(symbols[i], symbols[i + 1]);
  while (n > 1) {
    std::size_t best = n;
    for (std::size_t i = 0; i + 1 < n; ++i)
      if (rules[i].rank >= 0 && (best == n || rules[i].rank < rules[best].rank)) best = i;
    if (best == n) break;
    symbols[best] = rules[best].merged;
    --n;
    for (std::size_t i = best + 1; i < n; ++i) symbols[i] = symbols[i + 1], rules[i] = rules[i + 1];
    if (best > 0) rules[best - 1] = find(symbols[best - 1], symbols[best]);
    rules[best] = best + 1 < n ? find(symbols[best], symbols[best + 1]) : rule{};
  }
  symbols.resize(n);
}

RLCORE_INLINE void bpe_merges::apply_long(std::vector<std::int32_t>& symbols) const {
  struct candidate {
    std::int32_t rank, merged;
    std::size_t at;
    bool operator<(const candidate& other) const noexcept {  // std::priority_queue pops the greatest
      return rank != other.rank ? rank > other.rank : at > other.at;
    }
  };
  const std::size_t n = symbols.size();
  std::vector<std::size_t> previous(n), next(n);
  std::priority_queue<candidate> queue;
  const auto consider = [&](std::size_t at) {
    if (next[at] >= n) return;
    const rule r = find(symbols[at], symbols[next[at]]);
    if (r.rank >= 0) queue.push({r.rank, r.merged, at});
  };
  for (std::size_t i = 0; i < n; ++i) previous[i] = i - 1, next[i] = i + 1;  // previous of 0 is never followed
  for (std::size_t i = 0; i + 1 < n; ++i) consider(i);
  while (!queue.empty()) {
    const candidate best = queue.top();
    queue.pop();
    const std::size_t at = best.at;
    // An entry is stale when either of its symbols was merged since: then the pair there makes another token.
    if (symbols[at] < 0 || next[at] >= n) continue;
    const std::size_t right = next[at];
    const rule now = find(symbols[at], symbols[right]);
    if (now.rank != best.rank || now.merged != best.merged) continue;
    symbols[at] = best.merged;
    symbols[right] = -1;
    next[at] = next[right];
    if (next[at] < n) previous[next[at]] = at;
    if (at > 0) consider(previous[at]);
    consider(at);
  }
  std::size_t kept = 0;
  for (std::size_t i = 0; i < n; i = next[i]) symbols[kept++] = symbols[i];
  symbols.resize(kept);
}

RLCORE_INLINE bpe_model::bpe_model(const nlohmann::json& json, bool byte_level) : byte_level_(byte_level) {
  const nlohmann::json& type = field(json, "type", "model");
  // Files older than the type field hold BPE exactly when they have merges.
  if (!(type.is_null() && json.contains("merges")) && type != "BPE")
    throw format_error("model.type " + (type.is_null() ? std::string("(none)") : json_text(type)) +
                       " is not supported; expected 'BPE'");
  for (const char* key : {"dropout", "continuing_subword_prefix", "end_of_word_suffix"}) {
    const nlohmann::json& value = field(json, key, "model");
    if (!value.is_null() && value != "" && value != 0.0)
      throw format_error(std::string("model.") + key + " " + json_text(value) + " is not supported; expected null");
  }
  ignore_merges_ = bool_field(json, "ignore_merges", false, "model");
  byte_fallback_ = bool_field(json, "byte_fallback", false, "model");
  fuse_unknown_ = bool_field(json, "fuse_unk", false, "model");
  read_vocabulary(json);
  read_merges(json);
  const nlohmann::json& unknown = field(json, "unk_token", "model");
  if (unknown.is_string()) unknown_ = id_of(unknown.get<std::string>()).value_or(-1);
  const byte_alphabet alphabet;
  for (std::size_t byte = 0; byte < 256; ++byte) {
    std::string name;
    if (byte_level_) {
      append_utf8(name, alphabet.character(static_cast<std::uint8_t>(byte)));
    } else {
      constexpr char digits[] = "0123456789ABCDEF";
      name = std::string("<0x") + digits[byte / 16] + digits[byte % 16] + '>';
    }
    byte_ids_[byte] = id_of(name).value_or(-1);
  }
}

RLCORE_INLINE void bpe_model::encode_word(std::string_view word, std::vector<std::int32_t>& out) const {
  if (ignore_merges_) {
    const auto id = id_of(byte_level_ ? byte_alphabet().spell(word) : std::string(word));
    if (id) {
      out.push_back(*id);
      return;
    }
  }
  std::vector<std::int32_t> symbols;
  symbols.reserve(word.size());
  if (byte_level_) {
    for (const char c : word) add_byte(symbols, static_cast<std::uint8_t>(c));
  } else {
    for (std::size_t at = 0; at < word.size();) {
      const std::size_t length = read_utf8(word, at).length;
      add_character(symbols, word.substr(at, length));
      at += length;
    }
  }
  merges_.apply(symbols);
  out.insert(out.end(), symbols.begin(), symbols.end());
}

RLCORE_INLINE void bpe_model::read_vocabulary(const nlohmann::json& json) {
  const auto vocab = json.find("vocab");
  if (vocab == json.end() || !vocab->is_object())
    throw format_error("model.vocab: expected an object of token: id" +
                       std::string(vocab == json.end() ? ", found none" : ""));
  ids_.reserve(vocab->size());
  for (const auto& [token, id] : vocab->items()) {
    if (!id.is_number_integer() || id.get<std::int64_t>() < 0 || id.get<std::int64_t>() > largest_token_id)
      throw format_error("model.vocab['" + token + "']: expected an id from 0 to " + std::to_string(largest_token_id) +
                         ", found " + json_text(id));
    ids_.emplace(token, id.get<std::int32_t>());
  }
}

RLCORE_INLINE void bpe_model::read_merges(const nlohmann::json& json) {
  const auto merges = json.find("merges");
  if (merges == json.end() || !merges->is_array()) throw format_error("model.merges: expected an array");
  merges_ = bpe_merges(merges->size());
  std::int32_t rank = 0;
  for (const auto& merge : *merges) {
    std::string left, right;
    if (merge.is_string()) {  // "left right"
      const auto& text = merge.get_ref<const std::string&>();
      const std::size_t space = text.find(' ');
      if (space != std::string::npos && text.find(' ', space + 1) == std::string::npos)
        left = text.substr(0, space), right = text.substr(space + 1);
    } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
      left = merge[0].get<std::string>(), right = merge[1].get<std::string>();
    }
    const auto a = id_of(left), b = id_of(right), merged = id_of(left + right);
    if (!a || !b || !merged)
      throw format_error("model.merges[" + std::to_string(rank) + "] " + json_text(merge) +
                         ": expected two tokens of the vocabulary whose union is one, too");
    merges_.add(*a, *b, {rank++, *merged});
  }
}

RLCORE_INLINE void bpe_model::add_character(std::vector<std::int32_t>& symbols, std::string_view character) const {
  if (const auto id = id_of(character)) return symbols.push_back(*id);
  bool has_bytes = byte_fallback_;
  for (const char c : character) has_bytes = has_bytes && byte_ids_[static_cast<std::uint8_t>(c)] >= 0;
  if (!has_bytes) return add_unknown(symbols, character);
  for (const char c : character) symbols.push_back(byte_ids_[static_cast<std::uint8_t>(c)]);
}

RLCORE_INLINE void bpe_model::add_unknown(std::vector<std::int32_t>& symbols, std::string_view part) const {
  if (unknown_ < 0)
    throw data_error("the vocabulary has no token for '" + utf8_lossy(part) + "' (first byte " +
                     std::to_string(static_cast<std::uint8_t>(part[0])) + ") and no unk_token");
  if (!(fuse_unknown_ && !symbols.empty() && symbols.back() == unknown_)) symbols.push_back(unknown_);
}

}  // namespace text
RLCORE_END
#endif
