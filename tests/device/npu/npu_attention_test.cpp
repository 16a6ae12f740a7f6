// Attention of the npu device against the cpu: packed sequences, shifted segments, pages.
#include <gtest/gtest.h>

#include "device/npu/emulated_npu.hpp"
#include "rlcore/core/dtype.hpp"

namespace rlcore_test::RLCORE_TEST_ID {
namespace {

const change_of_operators without_fused = [](ascend::operator_calls& op) {
  op.aclnnFlashAttentionVarLenScore = {}, op.aclnnFlashAttentionUnpaddingScoreGrad = {};
};

/// Normal values that bf16 holds, so that rounding them again changes nothing.
floats short_normal(extent_t n, std::uint64_t seed) {
  floats x = normal(n, seed);
  for (float& v : x) v = static_cast<float>(bf16(v));
  return x;
}

float largest(const floats& x) {
  float top = 0;
  for (const float v : x) top = std::max(top, std::abs(v));
  return top;
}

/// Sequences one after the other in rows [q | k | v | gap]; `backwards` hands the segments over last first.
struct packed {
  attention_shape s;
  std::vector<extent_t> lengths;
  bool backwards = false;
  extent_t gap = 5;
};
struct attended {
  floats out, gradients;
};

template <class D>
attended attend(D& d, const packed& p) {
  const extent_t q = p.s.heads * p.s.head_dim, kv = p.s.kv_heads * p.s.head_dim, row = q + 2 * kv + p.gap,
                 out_row = q + 3;
  extent_t t = 0;
  for (const extent_t n : p.lengths) t += n;
  auto x = put(d, short_normal(t * row, 1)), dx = put(d, short_normal(t * row, 2)),
       out = put(d, short_normal(t * out_row, 3)), dout = put(d, short_normal(t * out_row, 4)),
       statistics = room<float>(d, t * p.s.heads * 2);
  std::vector<attention_segment> segments;
  std::vector<attention_segment_gradient> gradients;
  extent_t first = 0;
  for (const extent_t n : p.lengths) {
    const float* keys = x + first * row + q;
    segments.push_back({keys, keys + kv, row, first, n, 0});
    float* dkeys = dx + first * row + q;
    gradients.push_back({dkeys, dkeys + kv});
    first += n;
  }
  if (p.backwards) std::reverse(segments.begin(), segments.end()), std::reverse(gradients.begin(), gradients.end());
  d.run(rlcore::op::attention_forward{.shape = p.s,
                                      .segments = segments,
                                      .q = x,
                                      .q_row = row,
                                      .out = out,
                                      .out_row = out_row,
                                      .statistics = statistics});
  d.run(rlcore::op::attention_backward{.shape = p.s,
                                       .segments = segments,
                                       .gradients = gradients,
                                       .q = x,
                                       .q_row = row,
                                       .out = out,
                                       .dout = dout,
                                       .out_row = out_row,
                                       .statistics = statistics,
                                       .dq = dx});
  return {out.back(), dx.back()};
}

const packed problems[] = {{{1, 1, 2, 1.0f}, {1}},
                           {{4, 2, 16, 0.25f}, {5, 1, 17, 3}},
                           {{6, 1, 8, 0.35f}, {33, 2}},
                           {{2, 2, 64, 0.125f}, {7, 7}, true},
                           {{4, 4, 10, 0.3f}, {12, 0, 4}}};

/// `unit`: of the roundings of the weights and of what is stored, relative to the largest value of its kind.
void compare(npu& d, double unit) {
  cpu host(1);
  for (const packed& p : problems) {
    SCOPED_TRACE(testing::Message() << p.s.heads << " heads of " << p.s.head_dim);
    const attended got = attend(d, p), wanted = attend(host, p);
    expect_near(got.out, wanted.out, unit, unit * largest(wanted.out), "out");
    expect_near(got.gradients, wanted.gradients, unit, 4 * unit * largest(wanted.gradients), "gradients");
  }
}

TEST(npu_attention, float_inputs) {
  emulated_npu on(compute::float32);
  compare(*on, 4e-6);
}
TEST(npu_attention, hf32_keeps_11_bits_of_the_weights) {
  emulated_npu on(compute::hf32);
  compare(*on, 4e-6 + 0x1p-12);
}
TEST(npu_attention, bf16_rounds_the_weights_and_what_is_stored) {
  emulated_npu on(compute::bfloat16);
  compare(*on, 0x1p-8);
}
TEST(npu_attention, composed_of_products_and_a_softmax) {
  emulated_npu on(compute::bfloat16, without_fused);
  compare(*on, 4e-6);
}

/// Rows at first_position > 0 whose keys lie elsewhere, one behind the other or apart; two segments share their keys,
/// and their gradients add up.
template <class D>
std::array<floats, 4> shifted(D& d) {
  const attention_shape s{4, 2, 8, 0.4f};
  const extent_t q = 32, kv = 16;
  auto x = put(d, short_normal(7 * q, 1)), keys = put(d, short_normal(12 * kv, 2)),
       values = put(d, short_normal(12 * kv, 3)), dout = put(d, short_normal(7 * q, 4)), dq = room<float>(d, 7 * q),
       dk = put(d, short_normal(12 * kv, 5)), dv = put(d, short_normal(12 * kv, 6)), out = room<float>(d, 7 * q),
       statistics = room<float>(d, 7 * 4 * 2);
  const std::vector<attention_segment> segments{{keys, values, kv, 0, 2, 3},
                                                {keys + 5 * kv, values + 5 * kv, kv, 2, 4, 2},
                                                {keys + 5 * kv, values + 5 * kv, kv, 6, 1, 5}};
  const std::vector<attention_segment_gradient> gradients{
      {dk, dv}, {dk + 5 * kv, dv + 5 * kv}, {dk + 5 * kv, dv + 5 * kv}};
  d.run(rlcore::op::attention_forward{
      .shape = s, .segments = segments, .q = x, .q_row = q, .out = out, .out_row = q, .statistics = statistics});
  d.run(rlcore::op::attention_backward{.shape = s,
                                       .segments = segments,
                                       .gradients = gradients,
                                       .q = x,
                                       .q_row = q,
                                       .out = out,
                                       .dout = dout,
                                       .out_row = q,
                                       .statistics = statistics,
                                       .dq = dq});
  return {out.back(), dq.back(), dk.back(), dv.back()};
}

TEST(npu_attention, segments_that_begin_later_and_share_keys) {
  cpu host(1);
  const auto wanted = shifted(host);
  for (const auto& [type, change, unit] : {std::tuple<compute, change_of_operators, double>{compute::float32, {}, 4e-6},
                                           {compute::bfloat16, {}, 0x1p-8},
                                           {compute::float32, without_fused, 4e-6}}) {
    emulated_npu on(type, change);
    const auto got = shifted(*on);
    for (std::size_t k = 0; k < 4; ++k)
      expect_near(got[k], wanted[k], unit, 4 * unit * largest(wanted[k]), k == 0 ? "out" : "gradient");
  }
}

/// Two passes over the pages of three sequences, as generation makes them: pieces of prompts, then single tokens; the
/// lists of pages of the second pass lie in the memory of the first's.
template <class D>
std::array<floats, 2> paged(D& d) {
  const attention_shape s{4, 2, 8, 0.4f};
  const extent_t q = 32, kv = 16, row = q + 2 * kv, pages = 9,
                 size = static_cast<extent_t>(d.kv_page_bytes(s) / sizeof(float));
  auto layers = put(d, floats(static_cast<std::size_t>(2 * pages * size), 0.0f));
  float* layer = layers + pages * size;  // the second of two
  const indices first_lists{4, 8, 2, 0, 7, 3}, later_lists{4, 8, 2, 0, 7, 5};
  auto lists = put(d, first_lists);
  const auto segment = [&](extent_t list, extent_t first_row, extent_t rows, extent_t position) {
    attention_segment g;
    g.first_row = first_row, g.rows = rows, g.first_position = position, g.pages = lists + list, g.layer_pages = pages;
    return g;
  };
  const auto pass = [&](std::vector<attention_segment> segments, extent_t t, std::uint64_t seed) {
    auto x = put(d, short_normal(t * row, seed)), out = room<float>(d, t * q), statistics = room<float>(d, t * 8);
    floats all;
    for (int repeat = 0; repeat < 2; ++repeat) {  // of two layers in the same pages, the second as the first
      d.run(rlcore::op::store_keys_values{
          .shape = s, .segments = segments, .layer = layer, .keys = x + q, .values = x + q + kv, .row = row});
      for (attention_segment& g : segments) g.keys = layer;
      d.run(rlcore::op::attention_forward{
          .shape = s, .segments = segments, .q = x, .q_row = row, .out = out, .out_row = q, .statistics = statistics});
      all = out.back();
    }
    return all;
  };
  // 70 positions in pages 4, 8, 2; 33 in 0, 7; 5 in 3
  const floats prompts =
      pass({segment(0, 0, 40, 0), segment(0, 40, 30, 40), segment(3, 70, 33, 0), segment(5, 103, 5, 0)}, 108, 1);
  d.upload(lists.data(), later_lists.data(), later_lists.size() * sizeof(std::int32_t));
  pass({segment(5, 0, 6, 0)}, 6, 2);  // another sequence in page 5
  const floats tokens = pass({segment(0, 0, 1, 70), segment(3, 1, 1, 33), segment(5, 2, 1, 6)}, 3, 3);
  return {prompts, tokens};
}

TEST(npu_attention, pages_of_a_cache) {
  cpu host(1);
  const auto wanted = paged(host);
  for (const auto& [type, change, unit] : {std::tuple<compute, change_of_operators, double>{compute::float32, {}, 4e-6},
                                           {compute::bfloat16, {}, 0x1p-8},
                                           {compute::float32, without_fused, 4e-6}}) {
    emulated_npu on(type, change);
    const auto got = paged(*on);
    expect_near(got[0], wanted[0], unit, unit * largest(wanted[0]), "prompts");
    expect_near(got[1], wanted[1], unit, unit * largest(wanted[1]), "tokens");
  }
}

TEST(npu_attention, training_does_not_read_pages) {
  emulated_npu on;
  npu& d = *on;
  auto x = put(d, normal(64, 1));
  auto list = put(d, indices{0});
  attention_segment g;
  g.keys = x, g.rows = 1, g.pages = list;
  const std::vector<attention_segment_gradient> gradients(1);
  EXPECT_THROW(d.run(rlcore::op::attention_backward{.shape = {1, 1, 1, 1},
                                                    .segments = std::span(&g, 1),
                                                    .gradients = gradients,
                                                    .q = x,
                                                    .q_row = 1,
                                                    .out = x,
                                                    .dout = x,
                                                    .out_row = 1,
                                                    .statistics = x,
                                                    .dq = x}),
               std::invalid_argument);
  d.run(rlcore::op::attention_forward{
      .shape = {1, 1, 1, 1}, .q = x, .q_row = 1, .out = x, .out_row = 1, .statistics = x});
  d.run(rlcore::op::store_keys_values{.shape = {1, 1, 1, 1}, .layer = x, .keys = x, .values = x, .row = 1});
  EXPECT_EQ(x.back(), normal(64, 1));
}

}  // namespace
}  // namespace rlcore_test::RLCORE_TEST_ID
