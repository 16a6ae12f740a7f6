// Arguments of flash attention over packed sequences, forward and backward, and their checks.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rlcore/emulator/execution.hpp"
#include "rlcore/emulator/numerics/flash_attention.hpp"
#include "rlcore/emulator/plan.hpp"
#include "rlcore/exec/threads.hpp"

RLCORE_BEGIN
namespace ascend::emulated {

/// Attributes of aclnnFlashAttentionVarLenScore and aclnnFlashAttentionUnpaddingScoreGrad, as they are passed.
struct attention_attributes {
  const aclTensor *shift, *drop_mask, *padding_mask, *mask;
  const aclIntArray *prefix, *query_ends, *key_ends;
  double scale, keep_probability;
  std::int64_t before, after, heads;
  const char* layout;
  std::int64_t inner_precise, sparse_mode;
};

/// The side of the compressed masks of sparse modes 2 and 3.
inline constexpr std::int64_t compressed_mask_side = 2048;

/// Packed attention, checked: q [T, N, D], k [S, M, D], v [S, M, E], N a multiple of M, E <= D; sequence b has the rows
/// up to query_ends[b] and key_ends[b].
struct packed_attention {
  tensor q, k, v;
  std::optional<tensor> mask;
  std::vector<std::int64_t> query_ends, key_ends;
  double scale = 1;
  std::int64_t before = 0, after = 0, sparse_mode = 0;
  bool drop_empty_rows = false;

  std::int64_t rows() const { return q.shape[0]; }
  std::int64_t heads() const { return q.shape[1]; }
  std::int64_t key_heads() const { return k.shape[1]; }
  std::int64_t width() const { return q.shape[2]; }
  std::int64_t value_width() const { return v.shape[2]; }
  /// The rows of the longest sequence, given the ends of all sequences.
  std::int64_t longest(const std::vector<std::int64_t>& ends) const {
    std::int64_t most = 0, begin = 0;
    for (const auto end : ends) most = std::max(most, end - begin), begin = end;
    return most;
  }

  /// Fetches q, k, v. Refuses (161002) cases that the documentation excludes and cases that are not modelled: dropout,
  /// position shifts, layouts other than TND, sparse modes 4 and higher.
  static packed_attention plan(planner& p, const aclTensor* query, const aclTensor* key, const aclTensor* value,
                               const attention_attributes& with);

  /// The checked mask on the host, for one run.
  struct mask_values {
    std::vector<std::uint8_t> copy;
    const std::uint8_t* data = nullptr;
    std::int64_t columns = 0, of_sequence = 0, of_head = 0;
  };
  /// The mask for a run; a compressed one is checked and then not needed. Throws outcome_error if it is not causal.
  mask_values load_mask(execution& e) const;
  /// The first row of sequence b.
  std::int64_t first_row(std::size_t b) const { return b == 0 ? 0 : query_ends[b - 1]; }
  /// The first key of sequence b.
  std::int64_t first_key(std::size_t b) const { return b == 0 ? 0 : key_ends[b - 1]; }
  /// The keys of sequence b that the queries of a head see.
  visible_keys visible(const mask_values& m, std::size_t b, std::int64_t head) const;
  /// In strict mode: a full mask has to agree with preTokens and nextTokens, and may not hide all keys of a query
  /// unless innerPrecise is 2. In both cases the results of hardware depend on its blocks.
  void check_mask(const visible_keys& see, std::size_t b, bool strict) const;

  /// task(sequence, head) for every sequence and each of `heads` heads, on several host threads if that is faster.
  template <class Task>
  void for_each_head(int threads, std::int64_t heads, const Task& task) const {
    double flops = 0;
    for (std::size_t b = 0; b < query_ends.size(); ++b)
      flops += static_cast<double>(query_ends[b] - first_row(b)) * static_cast<double>(key_ends[b] - first_key(b));
    flops *= 4.0 * static_cast<double>(width() * this->heads());
    const auto count = query_ends.size() * static_cast<std::size_t>(heads);
    const auto each = [&](std::size_t i) {
      task(i / static_cast<std::size_t>(heads), static_cast<std::int64_t>(i % static_cast<std::size_t>(heads)));
    };
    const rlcore::threads pool(flops > 1e8 ? threads : 1);
    pool.for_each(count, each);
  }

 private:
  [[noreturn]] static void fail_run(const std::string& why) {
    throw outcome_error{errors::core_exception, "flash attention: " + why};
  }
  static void check_ends(planner& p, const std::vector<std::int64_t>& ends, std::int64_t total, const char* name);
  void check_mask_shape(planner& p) const;
  /// 1 above the diagonal, 0 on and below it: checks the rows of the longest sequence, and every 16th row after them.
  void check_compressed(const std::uint8_t* m) const;
};

}  // namespace ascend::emulated
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_EMULATOR)
RLCORE_BEGIN
namespace ascend::emulated {

RLCORE_INLINE packed_attention packed_attention::plan(planner& p, const aclTensor* query, const aclTensor* key,
                                                      const aclTensor* value, const attention_attributes& with) {
  packed_attention a;
  a.q = p.in(query, float_types);
  a.k = p.in(key, float_types);
  a.v = p.in(value, float_types);
  p.require(a.q.type == a.k.type && a.q.type == a.v.type, std::string("query, key, value of types ") +
                                                              name_of(a.q.type) + ", " + name_of(a.k.type) + ", " +
                                                              name_of(a.v.type));
  if (with.layout == nullptr) p.refuse(null_pointer, "inputLayout is null");
  p.require(std::string_view(with.layout) == "TND",
            "layout '" + std::string(with.layout) + "', 'TND' expected for packed sequences");
  p.require(with.shift == nullptr, "a position shift (pse) is not modelled");
  p.require(with.padding_mask == nullptr, "paddingMask has to be null");
  p.require(with.drop_mask == nullptr && with.keep_probability == 1, "dropout is not modelled: keepProb 1 expected");
  p.require(with.prefix == nullptr, "a prefix needs sparseMode 6, which is not modelled");
  p.require(with.inner_precise >= 0 && with.inner_precise <= 2,
            "innerPrecise " + std::to_string(with.inner_precise) + ", 0, 1 or 2 expected");
  p.require(with.sparse_mode >= 0 && with.sparse_mode <= 8,
            "sparseMode " + std::to_string(with.sparse_mode) + ", 0 to 8 expected");
  p.require(with.sparse_mode <= 3, "sparseMode " + std::to_string(with.sparse_mode) + " is not modelled");

  const extents &q = a.q.shape, &k = a.k.shape, &v = a.v.shape;
  const std::string shapes = "query, key, value of shapes " + printed(q) + ", " + printed(k) + ", " + printed(v);
  p.require(q.size() == 3 && k.size() == 3 && v.size() == 3, shapes + ": [T, N, D] expected");
  p.require(k[0] == v[0] && k[1] == v[1] && q[2] == k[2] && v[2] <= k[2] && v[2] >= 1, shapes + " do not fit");
  p.require(q[2] <= 768, shapes + ": D is at most 768");
  p.require(q[1] >= 1 && q[1] <= 256 && k[1] >= 1 && q[1] % k[1] == 0,
            shapes + ": N is 1 to 256 and a multiple of the key heads");
  p.require(with.heads == q[1], "headNum " + std::to_string(with.heads) + " of " + shapes);
  p.require(q[0] <= 1'048'576 && k[0] <= 1'048'576, shapes + ": T is at most 1048576");

  a.query_ends = p.values(with.query_ends);
  a.key_ends = p.values(with.key_ends);
  check_ends(p, a.query_ends, q[0], "actualSeqQLen");
  check_ends(p, a.key_ends, k[0], "actualSeqKvLen");
  p.require(a.query_ends.size() == a.key_ends.size(), "actualSeqQLen and actualSeqKvLen name " +
                                                          std::to_string(a.query_ends.size()) + " and " +
                                                          std::to_string(a.key_ends.size()) + " sequences");
  a.scale = with.scale;
  a.before = with.before;
  a.after = with.after;
  a.sparse_mode = with.sparse_mode;
  a.drop_empty_rows = with.inner_precise == 2;
  if (with.mask != nullptr) {
    a.mask = p.in(with.mask, {data_type::boolean, data_type::uint8});
    a.check_mask_shape(p);
  }
  return a;
}

RLCORE_INLINE auto packed_attention::load_mask(execution& e) const -> mask_values {
  mask_values m;
  if (!mask) return m;
  const auto side = mask->shape.size();
  m.columns = mask->shape[side - 1];
  if (mask->contiguous()) {
    m.data = reinterpret_cast<const std::uint8_t*>(e.storage(*mask, access::read)) + mask->offset;
  } else {
    const auto values = e.read<std::int64_t>(*mask);
    m.copy.resize(values.size());
    std::transform(values.begin(), values.end(), m.copy.begin(), [](auto x) { return std::uint8_t{x != 0}; });
    m.data = m.copy.data();
  }
  if (side == 4) {
    const std::int64_t one = mask->shape[2] * m.columns;
    if (mask->shape[1] > 1) m.of_head = one;
    if (mask->shape[0] > 1) m.of_sequence = one * mask->shape[1];
  }
  if (sparse_mode >= 2) {
    check_compressed(m.data);
    m.data = nullptr;
  }
  return m;
}

RLCORE_INLINE visible_keys packed_attention::visible(const mask_values& m, std::size_t b, std::int64_t head) const {
  visible_keys see;
  see.keys = key_ends[b] - first_key(b);
  if (!mask) return see;
  if (sparse_mode == 2) see.ahead = 0;
  if (sparse_mode == 3) see.ahead = see.keys - (query_ends[b] - first_row(b));
  if (m.data != nullptr) {
    see.mask = m.data + static_cast<std::int64_t>(b) * m.of_sequence + head * m.of_head;
    see.mask_row = m.columns;
  }
  return see;
}

RLCORE_INLINE void packed_attention::check_mask(const visible_keys& see, std::size_t b, bool strict) const {
  if (!strict || see.mask == nullptr || see.keys == 0) return;
  const std::int64_t queries = query_ends[b] - first_row(b);
  for (std::int64_t i = 0; i < queries; ++i) {
    bool any = false;
    for (std::int64_t j = 0; j < see.keys; ++j) {
      if (see.mask[i * see.mask_row + j] != 0) continue;
      any = true;
      if (sparse_mode == 0 && (j - i > after || i - j > before))
        fail_run("the mask shows query " + std::to_string(i) + " of sequence " + std::to_string(b) + " key " +
                 std::to_string(j) + ", outside of preTokens " + std::to_string(before) + " and nextTokens " +
                 std::to_string(after));
    }
    if (!any && !drop_empty_rows)
      fail_run("the mask hides all keys from query " + std::to_string(i) + " of sequence " + std::to_string(b) +
               "; innerPrecise 2 is for that");
  }
}

RLCORE_INLINE void packed_attention::check_ends(planner& p, const std::vector<std::int64_t>& ends, std::int64_t total,
                                                const char* name) {
  p.require(!ends.empty() && ends.size() <= 2048,
            std::string(name) + " names " + std::to_string(ends.size()) + " sequences, 1 to 2048 expected");
  std::int64_t last = 0;
  for (const auto end : ends) {
    p.require(end >= last, std::string(name) + " falls from " + std::to_string(last) + " to " + std::to_string(end) +
                               ": cumulative lengths expected");
    last = end;
  }
  p.require(last == total,
            std::string(name) + " ends at " + std::to_string(last) + " of " + std::to_string(total) + " rows");
}

RLCORE_INLINE void packed_attention::check_mask_shape(planner& p) const {
  const auto& s = mask->shape;
  const std::string found = "attenMask of shape " + printed(s) + " with sparseMode " + std::to_string(sparse_mode);
  p.require(s.size() == 2 || s.size() == 4, found + ": 2 or 4 dimensions expected");
  if (sparse_mode >= 2) {
    p.require(s[s.size() - 2] == compressed_mask_side && s.back() == compressed_mask_side &&
                  mask->size() == compressed_mask_side * compressed_mask_side,
              found + ": the compressed mask is [2048, 2048]");
    return;
  }
  const std::int64_t queries = longest(query_ends), keys = longest(key_ends);
  p.require(
      s[s.size() - 2] == queries && s.back() == keys,
      found + ": longest sequences of " + std::to_string(queries) + " queries and " + std::to_string(keys) + " keys");
  if (s.size() == 4)
    p.require((s[0] == 1 || s[0] == static_cast<std::int64_t>(query_ends.size())) && (s[1] == 1 || s[1] == heads()),
              found + ": [1 or B, 1 or N, Sq, Skv] expected");
}

RLCORE_INLINE void packed_attention::check_compressed(const std::uint8_t* m) const {
  constexpr auto n = static_cast<std::size_t>(compressed_mask_side);
  std::vector<std::uint8_t> step(2 * n, 0);
  std::fill(step.begin() + static_cast<std::ptrdiff_t>(n), step.end(), std::uint8_t{1});
  const auto read = static_cast<std::size_t>(std::max(longest(query_ends), longest(key_ends)));
  for (std::size_t i = 0; i < n; i += i < read ? 1 : 16)
    if (std::memcmp(m + i * n, step.data() + (n - 1 - i), n) != 0)
      fail_run("row " + std::to_string(i) +
               " of the compressed mask is not 0 up to the diagonal and 1 (masked) behind it");
}

}  // namespace ascend::emulated
RLCORE_END
#endif
