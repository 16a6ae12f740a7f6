// The attention of several ranks against that of one: outputs and gradients of queries, keys and values, to the bit
// where the order of sums is that of one rank.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "device/cpu/sets.hpp"
#include "rlcore/nn/parallel/context_pass.hpp"
#include "rlcore/parallel/communicator/any.hpp"
#include "rlcore/parallel/communicator/threads.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using parallel::context_kind;
using floats = std::vector<float>;

std::size_t at(extent_t i) { return static_cast<std::size_t>(i); }

struct problem {
  attention_shape shape;
  std::vector<int> lengths;
  double size = 1;  ///< of queries and keys
  floats qkv{};     ///< rows [queries | keys | values], values of size 1
  floats slopes{};  ///< of the outputs

  extent_t q_width() const { return shape.heads * shape.head_dim; }
  extent_t width() const { return (shape.heads + 2 * shape.kv_heads) * shape.head_dim; }
  ragged<std::int32_t> sequences() const {
    ragged<std::int32_t> r;
    for (const int n : lengths) r.push_back(std::vector<std::int32_t>(static_cast<std::size_t>(n), 0));
    return r;
  }
  extent_t rows() const {
    extent_t n = 0;
    for (const int length : lengths) n += length;
    return n;
  }
};

struct result {
  floats out, dqkv;
};

result on_one_rank(const problem& p, const std::string& set) {
  cpu device(1, set);
  const floats &qkv = p.qkv, &slopes = p.slopes;
  result r{floats(at(p.rows() * p.q_width())), floats(at(p.rows() * p.width()))};
  floats statistics(at(p.rows() * p.shape.heads * 2));
  std::vector<attention_segment> segments;
  std::vector<attention_segment_gradient> gradients;
  extent_t first = 0;
  for (const int n : p.lengths) {
    const extent_t keys = first * p.width() + p.q_width(), values = keys + p.shape.kv_heads * p.shape.head_dim;
    segments.push_back({qkv.data() + keys, qkv.data() + values, p.width(), first, n, 0});
    gradients.push_back({r.dqkv.data() + keys, r.dqkv.data() + values});
    first += n;
  }
  device.run(op::attention_forward{.shape = p.shape,
                                   .segments = segments,
                                   .q = qkv.data(),
                                   .q_row = p.width(),
                                   .out = r.out.data(),
                                   .out_row = p.q_width(),
                                   .statistics = statistics.data()});
  device.run(op::attention_backward{.shape = p.shape,
                                    .segments = segments,
                                    .gradients = gradients,
                                    .q = qkv.data(),
                                    .q_row = p.width(),
                                    .out = r.out.data(),
                                    .dout = slopes.data(),
                                    .out_row = p.q_width(),
                                    .statistics = statistics.data(),
                                    .dq = r.dqkv.data()});
  return r;
}

/// The rows of all ranks, put together in rank 0.
result on_ranks(int ranks, context_kind how, const problem& p, const std::string& set) {
  result whole{floats(at(p.rows() * p.q_width())), floats(at(p.rows() * p.width()))};
  parallel::run_ranks(
      ranks,
      [&](parallel::thread_rank& self) {
        parallel::any_communicator_of<parallel::thread_rank> any(self);
        cpu device(ranks == 2 ? 2 : 1, set);
        nn::workspace<cpu> space(device);
        space.context = {&any, how};
        const ragged<std::int32_t> sequences = p.sequences();
        nn::context_pass<cpu> context(device, space, p.shape, 1000, sequences, {});
        const floats &qkv = p.qkv, &slopes = p.slopes;
        const extent_t rows = context.rows(), w = p.width(), q = p.q_width();
        floats own(at(rows * w)), dout(at(rows * q)), out(dout.size()), dqkv(own.size());
        floats statistics(at(rows * p.shape.heads * 2));
        const auto for_rows = [&](auto&& f) {
          for (const nn::context_piece& piece : context.pieces())
            for (extent_t i = 0; i < piece.rows; ++i)
              f(piece.at + i, sequences.offsets[piece.sequence] + piece.first + i);
        };
        for_rows([&](extent_t here, extent_t there) {
          std::copy_n(qkv.begin() + there * w, w, own.begin() + here * w);
          std::copy_n(slopes.begin() + there * q, q, dout.begin() + here * q);
        });
        nn::attention_activations a;
        a.qkv = own.data(), a.attended = out.data(), a.statistics = statistics.data();
        context.forward(a);
        context.begin_backward();
        context.backward(a, dout.data(), dqkv.data());
        for_rows([&](extent_t here, extent_t there) {  // every row by one rank
          std::copy_n(out.begin() + here * q, q, whole.out.begin() + there * q);
          std::copy_n(dqkv.begin() + here * w, w, whole.dqkv.begin() + there * w);
        });
      },
      std::chrono::seconds(60));
  return whole;
}

bool same_bits(const floats& a, const floats& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

/// The problems, drawn once for all tests.
const std::vector<problem>& problems() {
  static const std::vector<problem> drawn = [] {
    std::vector<problem> all = {
        {{8, 8, 16, 0.25f}, {512}, 1},                    // a head for every rank of eight
        {{16, 8, 10, 0.3f}, {300, 7, 0, 65, 1, 129}, 1},  // grouped queries, odd lengths, packed
        {{8, 8, 16, 1.0f}, {400}, 7},                     // scores that differ by more than 88
        {{8, 8, 6, 0.4f}, {5}, 1},                        // fewer tokens than ranks
        {{8, 2, 4, 0.5f}, {150, 3, 331, 64}, 1},          // fewer key heads than ranks
        {{6, 3, 4, 0.5f}, {250}, 1},                      // key heads that no number of ranks divides but 3
    };
    for (problem& p : all) {
      p.qkv = rlcore_test::normal(at(p.rows() * p.width()), 7);
      p.slopes = rlcore_test::normal(at(p.rows() * p.q_width()), 8);
      for (extent_t t = 0; t < p.rows(); ++t)
        for (extent_t i = 0; i < p.q_width() + p.shape.kv_heads * p.shape.head_dim; ++i)
          p.qkv[at(t * p.width() + i)] *= static_cast<float>(p.size);
    }
    return all;
  }();
  return drawn;
}

class context_attention : public testing::TestWithParam<std::tuple<std::string, context_kind>> {};

TEST_P(context_attention, is_that_of_one_rank) {
  const auto& [set, how] = GetParam();
  for (std::size_t number = 0; number < problems().size(); ++number) {
    const problem& p = problems()[number];
    const result one = on_one_rank(p, set);
    for (const int ranks : {1, 2, 3, 4, 8}) {
      SCOPED_TRACE("problem " + std::to_string(number) + ", " + std::to_string(ranks) + " ranks");
      const result r = on_ranks(ranks, how, p, set);
      EXPECT_TRUE(same_bits(r.out, one.out));
      if (how != context_kind::gather_kv) {
        EXPECT_TRUE(same_bits(r.dqkv, one.dqkv));
        continue;
      }
      double difference = 0, size = 0;
      for (extent_t t = 0; t < p.rows(); ++t) {
        EXPECT_EQ(
            std::memcmp(&r.dqkv[at(t * p.width())], &one.dqkv[at(t * p.width())], at(p.q_width()) * sizeof(float)), 0);
        for (extent_t i = t * p.width() + p.q_width(); i < (t + 1) * p.width(); ++i) {
          difference += std::pow(static_cast<double>(r.dqkv[at(i)] - one.dqkv[at(i)]), 2);
          size += std::pow(static_cast<double>(one.dqkv[at(i)]), 2);
        }
      }
      EXPECT_LE(std::sqrt(difference / size), ranks == 1 ? 0 : 1e-6);
    }
  }
}

std::string name_of(const testing::TestParamInfo<std::tuple<std::string, context_kind>>& i) {
  const context_kind how = std::get<1>(i.param);
  return std::get<0>(i.param) + (how == context_kind::gather_kv ? "_gather_kv"
                                 : how == context_kind::ring    ? "_ring"
                                                                : "_ulysses");
}

INSTANTIATE_TEST_SUITE_P(sets, context_attention,
                         testing::Combine(testing::ValuesIn(rlcore_test::instruction_sets()),
                                          testing::Values(context_kind::gather_kv, context_kind::ring,
                                                          context_kind::ulysses)),
                         name_of);

/// The problem that is to be extreme is so.
TEST(context_attention, scores_differ_by_more_than_88) {
  const problem& p = problems()[2];
  const floats& qkv = p.qkv;
  float low = 0, high = 0;
  for (extent_t key = 0; key < p.rows(); ++key) {
    float score = 0;
    for (extent_t e = 0; e < p.shape.head_dim; ++e)
      score += qkv[at((p.rows() - 1) * p.width() + e)] * qkv[at(key * p.width() + p.q_width() + e)];
    low = std::min(low, score * p.shape.scale), high = std::max(high, score * p.shape.scale);
  }
  EXPECT_GT(high - low, 88 * 4);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
