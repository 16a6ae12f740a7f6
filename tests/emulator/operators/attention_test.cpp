// aclnnFlashAttentionVarLenScore and aclnnFlashAttentionUnpaddingScoreGrad of the emulator, called as on hardware.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "rlcore/core/dtype.hpp"
#include "rlcore/core/random.hpp"
#include "support/emulated_queue.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using namespace rlcore::ascend;
using ascend::emulated::settings;
using integers = std::vector<std::int64_t>;

template <class T>
std::vector<T> random_values(std::int64_t n, std::uint32_t purpose) {
  const random_key random = random_key{77}.child(purpose);
  std::vector<T> values(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = T(static_cast<float>(random.normal(static_cast<std::uint32_t>(i))));
  return values;
}
/// 1 above the diagonal.
const std::vector<std::uint8_t>& compressed_mask() {
  static const auto mask = [] {
    std::vector<std::uint8_t> m(2048 * 2048, 0);
    for (std::size_t i = 0; i < 2048; ++i)
      std::fill(m.begin() + static_cast<std::ptrdiff_t>(i * 2049 + 1),
                m.begin() + static_cast<std::ptrdiff_t>((i + 1) * 2048), std::uint8_t{1});
    return m;
  }();
  return mask;
}

/// Arguments of both operators with everything that a test may want to be different.
template <class T>
struct attention_case {
  std::int64_t heads = 4, key_heads = 2, width = 8;
  integers query_ends{5, 8}, key_ends{5, 12};
  std::vector<T> q, k, v, g;
  std::vector<std::uint8_t> mask = compressed_mask();
  dimensions mask_shape{2048, 2048};
  double scale = 0.3, keep = 1;
  std::int64_t before = 65536, after = 65536, inner_precise = 0, sparse_mode = 3;
  std::string layout = "TND";

  std::int64_t rows() const { return query_ends.back(); }
  std::int64_t keys() const { return key_ends.back(); }
  void fill() {
    if (q.empty()) q = random_values<T>(rows() * heads * width, 1);
    if (k.empty()) k = random_values<T>(keys() * key_heads * width, 2);
    if (v.empty()) v = random_values<T>(keys() * key_heads * width, 3);
    if (g.empty()) g = random_values<T>(rows() * heads * width, 4);
  }
};
template <class T>
struct attention_result {
  std::vector<T> out, dq, dk, dv;
  std::vector<float> top, total;
};

/// Forward, and backward if asked for.
template <class T>
attention_result<T> attend(emulated_queue& d, attention_case<T> a, bool backward = true) {
  a.fill();
  auto& queue = d.q;
  const auto q = d.put(a.q), k = d.put(a.k), v = d.put(a.v), g = d.put(a.g);
  const auto mask = d.put(a.mask.empty() ? std::vector<std::uint8_t>{0} : a.mask);
  const auto out = queue.template take<T>(a.rows() * a.heads * a.width), dq = queue.template take<T>(out.size());
  const auto dk = queue.template take<T>(a.keys() * a.key_heads * a.width), dv = queue.template take<T>(dk.size());
  const auto top = queue.template take<float>(a.rows() * a.heads * 8), total = queue.template take<float>(top.size());
  const dimensions of_q{a.rows(), a.heads, a.width}, of_k{a.keys(), a.key_heads, a.width},
      of_sums{a.rows(), a.heads, 8};
  const auto tq = queue.tensor(q.data(), of_q), tk = queue.tensor(k.data(), of_k), tv = queue.tensor(v.data(), of_k);
  const auto ttop = queue.tensor(top.data(), of_sums), ttotal = queue.tensor(total.data(), of_sums),
             tout = queue.tensor(out.data(), of_q);
  const auto tmask = queue.tensor(mask.data(), a.mask.empty() ? dimensions{1} : a.mask_shape);
  const aclTensor* masked = a.mask.empty() ? nullptr : static_cast<aclTensor*>(tmask);
  const auto ends_q = queue.ints(a.query_ends), ends_k = queue.ints(a.key_ends);
  queue.run(d.op().aclnnFlashAttentionVarLenScore, tq, tk, tv, nullptr, nullptr, nullptr, masked, nullptr, ends_q,
            ends_k, a.scale, a.keep, a.before, a.after, a.heads, a.layout.data(), a.inner_precise, a.sparse_mode, ttop,
            ttotal, nullptr, tout);
  if (backward)
    queue.run(d.op().aclnnFlashAttentionUnpaddingScoreGrad, tq, tk, tv, queue.tensor(g.data(), of_q), nullptr, nullptr,
              nullptr, masked, ttop, ttotal, nullptr, tout, nullptr, ends_q, ends_k, a.scale, a.keep, a.before, a.after,
              a.heads, a.layout.data(), a.inner_precise, a.sparse_mode, queue.tensor(dq.data(), of_q),
              queue.tensor(dk.data(), of_k), queue.tensor(dv.data(), of_k), nullptr);
  attention_result<T> r{d.get(out), {}, {}, {}, d.get(top), d.get(total)};
  if (backward) {
    r.dq = d.get(dq);
    r.dk = d.get(dk);
    r.dv = d.get(dv);
  }
  return r;
}
template <class T>
std::vector<float> floats(const std::vector<T>& x) {
  return {x.begin(), x.end()};
}

/// Root of the mean square of x - y over that of y.
template <class T>
double distance(const std::vector<T>& x, const std::vector<double>& y) {
  double error = 0, size = 0;
  for (std::size_t i = 0; i < y.size(); ++i) {
    error += std::pow(static_cast<double>(static_cast<float>(x[i])) - y[i], 2);
    size += y[i] * y[i];
  }
  return std::sqrt(error / size);
}

template <class T>
void expect_like_pytorch(double tolerance, bool reference = false) {
  const auto golden = nlohmann::json::parse(std::ifstream(RLCORE_REFERENCE_DIR "/npu_attention.json"));
  const auto input = [&](const char* name) {
    std::vector<T> values;
    for (const std::uint16_t bits : golden.at(name)) {
      bf16 x;
      x.bits = bits;
      values.push_back(T(static_cast<float>(x)));
    }
    return values;
  };
  const auto ends = [&](const char* name) {
    integers sums;
    for (const std::int64_t n : golden.at(name)) sums.push_back((sums.empty() ? 0 : sums.back()) + n);
    return sums;
  };
  attention_case<T> a;
  a.heads = golden.at("heads");
  a.key_heads = golden.at("key_heads");
  a.width = golden.at("width");
  a.query_ends = ends("query_lengths");
  a.key_ends = ends("key_lengths");
  a.q = input("q");
  a.k = input("k");
  a.v = input("v");
  a.g = input("gradient");
  a.scale = 1 / std::sqrt(static_cast<double>(a.width));
  settings s;
  s.reference = reference;
  emulated_queue d(s);
  const auto r = attend(d, a);
  const auto expected = [&](const char* name) { return golden.at(name).get<std::vector<double>>(); };
  EXPECT_LT(distance(r.out, expected("out")), tolerance);
  EXPECT_LT(distance(r.dq, expected("dq")), tolerance);
  EXPECT_LT(distance(r.dk, expected("dk")), tolerance);
  EXPECT_LT(distance(r.dv, expected("dv")), tolerance);
  const auto lse = expected("lse");  // [T, N]; the operator's statistics go by sequence, head, row
  std::size_t i = 0;
  std::int64_t first = 0;
  for (const std::int64_t end : a.query_ends) {
    for (std::int64_t h = 0; h < a.heads; ++h)
      for (std::int64_t row = first; row < end; ++row, ++i) {
        for (std::size_t j = 1; j < 8; ++j) {
          ASSERT_EQ(r.top[8 * i + j], r.top[8 * i]);
          ASSERT_EQ(r.total[8 * i + j], r.total[8 * i]);
        }
        ASSERT_NEAR(r.top[8 * i] + std::log(static_cast<double>(r.total[8 * i])),
                    lse[static_cast<std::size_t>(row * a.heads + h)], 2e-6);
      }
    first = end;
  }
  EXPECT_EQ(i, lse.size());
}

TEST(attention_operator, like_pytorch_in_bfloat16) { expect_like_pytorch<bf16>(0x1p-8); }
TEST(attention_operator, like_pytorch_in_float16) { expect_like_pytorch<f16>(0x1p-11); }
TEST(attention_operator, like_pytorch_in_float) { expect_like_pytorch<float>(5e-7); }
TEST(attention_operator, like_pytorch_in_reference_mode) { expect_like_pytorch<float>(0x1p-23, true); }

TEST(attention_operator, sequences_do_not_see_each_other) {
  emulated_queue d;
  attention_case<bf16> both, second;
  both.fill();
  second.query_ends = {3};
  second.key_ends = {7};
  const auto tail = [](const std::vector<bf16>& x, std::int64_t from) {
    return std::vector<bf16>(x.begin() + from, x.end());
  };
  second.q = tail(both.q, 5 * 4 * 8);
  second.g = tail(both.g, 5 * 4 * 8);
  second.k = tail(both.k, 5 * 2 * 8);
  second.v = tail(both.v, 5 * 2 * 8);
  const auto r = attend(d, both), s = attend(d, second);
  EXPECT_EQ(floats(tail(r.out, 5 * 4 * 8)), floats(s.out));
  EXPECT_EQ(floats(tail(r.dq, 5 * 4 * 8)), floats(s.dq));
  EXPECT_EQ(floats(tail(r.dk, 5 * 2 * 8)), floats(s.dk));
  EXPECT_EQ(floats(tail(r.dv, 5 * 2 * 8)), floats(s.dv));
}

TEST(attention_operator, sparse_modes_are_the_full_masks_they_stand_for) {
  emulated_queue d;
  for (const std::int64_t mode : {2, 3}) {
    attention_case<bf16> compressed, full;
    compressed.query_ends = full.query_ends = {6};
    compressed.key_ends = full.key_ends = {9};
    compressed.sparse_mode = mode;
    full.sparse_mode = 0;
    full.mask.assign(6 * 9, 0);
    full.mask_shape = {6, 9};
    for (std::size_t i = 0; i < 6; ++i)
      for (std::size_t j = 0; j < 9; ++j) full.mask[i * 9 + j] = j > i + (mode == 3 ? 3 : 0);
    const auto x = attend(d, compressed), y = attend(d, full);
    EXPECT_EQ(floats(x.out), floats(y.out)) << mode;
    EXPECT_EQ(floats(x.dq), floats(y.dq)) << mode;
    EXPECT_EQ(floats(x.dk), floats(y.dk)) << mode;
    full.mask_shape = {1, 1, 6, 9};
    full.sparse_mode = 1;
    EXPECT_EQ(floats(attend(d, full).out), floats(x.out));
  }
  attention_case<bf16> open, none;  // no mask: everything is seen, whatever the mode
  open.query_ends = none.query_ends = {6};
  open.key_ends = none.key_ends = {9};
  open.mask.assign(6 * 9, 0);
  open.mask_shape = {6, 9};
  open.sparse_mode = 0;
  none.mask.clear();
  EXPECT_EQ(floats(attend(d, open).out), floats(attend(d, none).out));
}

TEST(attention_operator, masks_may_differ_by_sequence_and_head) {
  emulated_queue d;
  attention_case<bf16> a;
  a.query_ends = {2, 4};
  a.key_ends = {3, 6};
  a.sparse_mode = 0;
  a.mask_shape = {2, 4, 2, 3};
  a.mask.assign(48, 0);
  const auto seen = attend(d, a);
  a.mask[(1 * 4 + 2) * 6 + 1] = 1;  // sequence 1, head 2, query 0, key 1
  const auto hidden = attend(d, a);
  for (std::size_t row = 0; row < 4; ++row)
    for (std::size_t h = 0; h < 4; ++h) {
      const std::size_t at = 8 * (row * 4 + h);
      const bool same = std::equal(
          seen.out.begin() + static_cast<std::ptrdiff_t>(at), seen.out.begin() + static_cast<std::ptrdiff_t>(at + 8),
          hidden.out.begin() + static_cast<std::ptrdiff_t>(at), [](bf16 x, bf16 y) { return x.bits == y.bits; });
      EXPECT_EQ(same, !(row == 2 && h == 2)) << row << ", " << h;
    }
}

TEST(attention_operator, empty_sequences_and_queries_without_keys) {
  emulated_queue d;
  attention_case<float> a;
  a.query_ends = {0, 4, 4, 6};  // none, four queries of two keys, none of one key, two of none
  a.key_ends = {0, 2, 3, 3};
  const auto r = attend(d, a);
  const auto all_zero = [](const std::vector<float>& x, std::size_t begin, std::size_t end) {
    return std::all_of(x.begin() + static_cast<std::ptrdiff_t>(begin), x.begin() + static_cast<std::ptrdiff_t>(end),
                       [](float v) { return v == 0; });
  };
  // The last query sees the last key, so the first two of four see none of two.
  EXPECT_TRUE(all_zero(r.out, 0, 2 * 32) && all_zero(r.dq, 0, 2 * 32));
  EXPECT_FALSE(all_zero(r.out, 2 * 32, 3 * 32));
  EXPECT_TRUE(all_zero(r.out, 4 * 32, 6 * 32) && all_zero(r.dq, 4 * 32, 6 * 32));
  EXPECT_TRUE(all_zero(r.dk, 2 * 16, 3 * 16) && all_zero(r.dv, 2 * 16, 3 * 16));
  for (const auto& x : {r.dq, r.dk, r.dv, r.out})
    for (const float v : x) ASSERT_TRUE(std::isfinite(v));
}

TEST(attention_operator, masks_are_checked_when_they_are_read) {
  const auto code = [](attention_case<bf16> a, std::string* why = nullptr) {
    emulated_queue d({}, {.sync_each_operation = true});
    return d.code_of([&] { (void)attend(d, a, false); }, why);
  };
  attention_case<bf16> a;
  std::string why;
  EXPECT_EQ(code(a), 0);
  for (auto& x : a.mask) x = !x;  // 1 would mean seen
  EXPECT_EQ(code(a, &why), 507015);
  EXPECT_NE(why.find("row 0 of the compressed mask"), std::string::npos) << why;
  a.mask = compressed_mask();
  a.mask[5 * 2048 + 6] = 0;  // key 6 of query 5
  EXPECT_EQ(code(a, &why), 507015);
  EXPECT_NE(why.find("row 5 of the compressed mask"), std::string::npos) << why;

  attention_case<bf16> full;
  full.query_ends = full.key_ends = {3};
  full.sparse_mode = 0;
  full.mask = {0, 1, 1, 0, 0, 1, 0, 0, 0};
  full.mask_shape = {3, 3};
  full.after = 0;
  EXPECT_EQ(code(full), 0);
  full.mask[1] = 0;
  EXPECT_EQ(code(full), 507015);  // key 1 is beyond nextTokens of query 0
  full.after = 1;
  EXPECT_EQ(code(full), 0);
  full.before = 1;
  EXPECT_EQ(code(full), 507015);
  full.before = 3;
  full.mask = {0, 1, 1, 1, 1, 1, 0, 0, 0};
  EXPECT_EQ(code(full), 507015);  // query 1 sees nothing
  full.inner_precise = 2;
  EXPECT_EQ(code(full), 0);
}

TEST(attention_operator, order_of_the_gradients_is_fixed_only_if_asked_for) {
  attention_case<float> a;
  a.query_ends = a.key_ends = {300};
  a.width = 4;
  {
    emulated_queue d({}, {.deterministic = true});
    const auto x = attend(d, a), y = attend(d, a);
    EXPECT_EQ(x.dq, y.dq);
    EXPECT_EQ(x.dk, y.dk);
    EXPECT_EQ(x.dv, y.dv);
  }
  // An order is drawn for each call. There are three blocks: two calls may draw the same, or one that adds to the same.
  emulated_queue d({}, {.deterministic = false});
  const auto x = attend(d, a);
  std::set<std::vector<float>> dq, dk, dv;
  for (int call = 0; call < 20; ++call) {
    const auto y = attend(d, a);
    EXPECT_EQ(x.out, y.out);
    dq.insert(y.dq), dk.insert(y.dk), dv.insert(y.dv);
    for (std::size_t i = 0; i < x.dk.size(); ++i) ASSERT_NEAR(x.dk[i], y.dk[i], 1e-4);
  }
  EXPECT_GT(dq.size(), 1u);
  EXPECT_GT(dk.size(), 1u);
  EXPECT_GT(dv.size(), 1u);
}

TEST(attention_operator, no_bit_depends_on_the_threads_of_the_host) {
  attention_case<bf16> a;
  a.query_ends = a.key_ends = {200, 500};
  a.width = 64;
  std::vector<attention_result<bf16>> results;
  for (const int threads : {1, 3}) {
    settings s;
    s.threads = threads;
    emulated_queue d(s);
    results.push_back(attend(d, a));
  }
  EXPECT_EQ(floats(results[0].out), floats(results[1].out));
  EXPECT_EQ(floats(results[0].dq), floats(results[1].dq));
  EXPECT_EQ(floats(results[0].dk), floats(results[1].dk));
  EXPECT_EQ(floats(results[0].dv), floats(results[1].dv));
}

TEST(attention_operator, errors_of_exp_stay_what_was_set) {
  attention_case<float> a;
  a.query_ends = a.key_ends = {20};
  const auto with = [&](int ulp, std::uint64_t seed) {
    settings s;
    s.exp_ulp = ulp;
    s.seed = seed;
    emulated_queue d(s);
    return attend(d, a, false);
  };
  const auto exact = with(0, 1), one = with(2, 1), again = with(2, 1), other = with(2, 2);
  EXPECT_EQ(one.total, again.total);
  EXPECT_NE(one.total, exact.total);
  EXPECT_NE(one.total, other.total);
  for (std::size_t i = 0; i < exact.total.size(); ++i)
    ASSERT_NEAR(one.total[i], exact.total[i], exact.total[i] * (2 * 0x1p-23 + 20 * 0x1p-24));
}

TEST(attention_operator, refuses_what_is_documented) {
  emulated_queue d;
  const auto code = [&](auto change) {
    attention_case<bf16> a;
    change(a);
    return d.code_of([&] { (void)attend(d, a); });
  };
  using arguments = attention_case<bf16>&;
  EXPECT_EQ(code([](arguments) {}), 0);
  EXPECT_EQ(code([](arguments a) { a.layout = "BSND"; }), 161002);
  EXPECT_EQ(code([](arguments a) { a.keep = 0.9; }), 161002);
  EXPECT_EQ(code([](arguments a) { a.inner_precise = 3; }), 161002);
  EXPECT_EQ(code([](arguments a) { a.sparse_mode = 4; }), 161002);
  EXPECT_EQ(code([](arguments a) { a.sparse_mode = 9; }), 161002);
  EXPECT_EQ(code([](arguments a) { a.query_ends = {5, 3, 8}; }), 161002);  // lengths instead of their sums
  EXPECT_EQ(code([](arguments a) { a.query_ends = {5}; }), 161002);
  EXPECT_EQ(code([](arguments a) { a.mask_shape = {1024, 4096}; }), 161002);
  EXPECT_EQ(code([](arguments a) { a.sparse_mode = 0; }), 161002);  // not the mask of these lengths
  EXPECT_EQ(code([](arguments a) { a.key_heads = 3; }), 161002);
  EXPECT_EQ(code([](arguments a) { a.width = 776; }), 161002);
}

TEST(attention_operator, refuses_tensors_that_do_not_fit) {
  emulated_queue d;
  const auto q = d.put(random_values<bf16>(4 * 2 * 8, 1));
  const auto f = d.put(random_values<float>(4 * 2 * 8, 2));
  const auto mask = d.put(compressed_mask());
  char layout[] = "TND";
  const auto forward = [&](const auto& query, const dimensions& shape, const auto& key, const dimensions& of_sums,
                           const auto& out, const aclTensor* shift = nullptr, const aclTensor* value = nullptr,
                           std::int64_t heads = 2) {
    const auto v = d.q.tensor(key.data(), {4, 2, 8});
    return d.code_of([&] {
      d.q.run(d.op().aclnnFlashAttentionVarLenScore, d.q.tensor(query.data(), shape), d.q.tensor(key.data(), {4, 2, 8}),
              value ? value : static_cast<aclTensor*>(v), shift, nullptr, nullptr,
              d.q.tensor(mask.data(), {2048, 2048}), nullptr, d.q.ints({4}), d.q.ints({4}), 1.0, 1.0,
              std::int64_t{65536}, std::int64_t{65536}, heads, layout, std::int64_t{0}, std::int64_t{3},
              d.q.tensor(f.data(), of_sums), d.q.tensor(f.data(), of_sums), nullptr, d.q.tensor(out.data(), {4, 2, 8}));
    });
  };
  const auto sums = d.q.take<float>(4 * 2 * 8);
  const auto out = d.q.take<bf16>(4 * 2 * 8);
  EXPECT_EQ(forward(q, {4, 2, 8}, q, {4, 2, 8}, out), 0);
  EXPECT_EQ(forward(f, {4, 2, 8}, q, {4, 2, 8}, out), 161002);
  EXPECT_EQ(forward(q, {4, 16}, q, {4, 2, 8}, out), 161002);
  EXPECT_EQ(forward(q, {4, 2, 8}, q, {2, 4, 8}, out), 161002);
  EXPECT_EQ(forward(q, {4, 2, 8}, q, {4, 2, 8}, f), 161002);
  EXPECT_EQ(forward(q, {4, 2, 8}, q, {4, 2, 8}, out, nullptr, nullptr, 4), 161002);
  const auto wide = d.q.tensor(q.data(), {2, 2, 16}), some = d.q.tensor(q.data(), {4, 2, 8});
  EXPECT_EQ(forward(q, {4, 2, 8}, q, {4, 2, 8}, out, nullptr, wide), 161002);
  EXPECT_EQ(forward(q, {4, 2, 8}, q, {4, 2, 8}, out, some), 161002);
  EXPECT_EQ(d.code_of([&] {
    d.q.run(d.op().aclnnFlashAttentionVarLenScore, some, some, some, nullptr, nullptr, nullptr, nullptr, nullptr,
            nullptr, nullptr, 1.0, 1.0, std::int64_t{65536}, std::int64_t{65536}, std::int64_t{2}, layout,
            std::int64_t{0}, std::int64_t{0}, d.q.tensor(sums.data(), {4, 2, 8}), d.q.tensor(sums.data(), {4, 2, 8}),
            nullptr, d.q.tensor(out.data(), {4, 2, 8}));
  }),
            161001);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
