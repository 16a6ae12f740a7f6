// Ids of words already seen: natural text repeats its words, so most of them need no merge loop.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace text {

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
