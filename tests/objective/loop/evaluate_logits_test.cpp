// The logits loop: aggregation, invariances, alignment of inputs, and what it refuses.
#include "rlcore/objective/loop/evaluate_logits.hpp"

#include <gmock/gmock.h>

#include <bit>
#include <cstring>
#include <random>

#include "objective/vocabulary/golden_vocabulary.hpp"
#include "rlcore/exec/serial.hpp"
#include "rlcore/exec/threads.hpp"
#include "rlcore/objective/aggregation.hpp"
#include "rlcore/objective/distillation/divergences.hpp"
#include "rlcore/objective/distillation/support.hpp"
#include "rlcore/objective/piece/combine/sum.hpp"
#include "rlcore/objective/piece/supervised.hpp"
#include "rlcore/objective/vocabulary/transforms.hpp"
#include "rlcore/tensor/span.hpp"

namespace RLCORE_TEST_ID {

using namespace rlcore;
using namespace rlcore_test;

namespace {

double golden_value(const char* name, std::size_t i) { return vocabulary_golden()["cases"][name]["value"][i]; }
double golden_slope(const char* name, std::size_t i, std::size_t j) {
  return vocabulary_golden()["cases"][name]["gradient"][i][j];
}

/// 0.6 CE + 0.4 tau^2 KL(teacher || student) at tau = 2.
const auto mixture = sum{scaled{0.6, cross_entropy{}}, scaled{0.4 * 4, tempered{2.0, forward_kl{}}}};

TEST(evaluate_logits_loop, weighs_positions_by_their_sequence) {
  golden_positions<double> x;
  const std::vector<std::int32_t> offsets{0, 2, 2, 6};
  const std::vector<float> mask{1, 1, 1, 0, 1, 1};
  std::vector<double> gradient(x.logits.size(), -7);
  const logits_batch<double> batch{.logits = matrix(x.logits, x.positions, x.vocabulary),
                                   .teacher = matrix(x.teacher, x.positions, x.vocabulary),
                                   .labels = x.labels,
                                   .mask = mask,
                                   .offsets = offsets};
  const auto counts = loss_counts(batch);
  EXPECT_EQ(counts.tokens(), 5);
  EXPECT_EQ(counts.sequences(), 2);
  EXPECT_EQ(counts.rows(), 3);
  const auto report = evaluate_logits(serial{}, mixture, sequence_mean_token_mean{}, batch, counts,
                                      {.logits = matrix(gradient, x.positions, x.vocabulary)});
  const double weight[] = {0.25, 0.25, 1.0 / 6, 0, 1.0 / 6, 1.0 / 6};
  double loss = 0;
  for (std::size_t i = 0; i < 6; ++i) {
    loss += weight[i] * golden_value("mixture", i);
    for (std::size_t j = 0; j < 13; ++j)
      EXPECT_NEAR(gradient[i * 13 + j], weight[i] * golden_slope("mixture", i, j), 1e-12);
  }
  EXPECT_NEAR(report.loss(), loss, 1e-12);
  EXPECT_EQ(report.tokens, 5);
  EXPECT_EQ(report.sequences, 2);
  EXPECT_EQ(report.rows, 3);
  EXPECT_EQ(report.piece[1].name, "forward_kl");
  EXPECT_EQ(report.piece[1].coefficient, 1.6);
  EXPECT_EQ(report["accuracy"], report.monitor[0].total.value() / 5);
  EXPECT_EQ(report["forward_kl"], report.piece[1].total.value() / 5);
  EXPECT_EQ(report.value("forward_kl"), report.piece[1].aggregated.value());
  EXPECT_THAT(
      [&] { static_cast<void>(report["acuracy"]); },
      testing::ThrowsMessage<std::out_of_range>(testing::HasSubstr("no 'acuracy'; it has cross_entropy, forward_kl")));
  EXPECT_THROW(static_cast<void>(report.value("accuracy")), std::out_of_range);
  EXPECT_EQ(report.monitor[0].piece, "cross_entropy");
  double nll = 0;
  for (const std::size_t i : {0u, 1u, 2u, 4u, 5u}) nll += golden_value("cross_entropy", i) / 5;
  EXPECT_NEAR(report["cross_entropy"], nll, 1e-12);
  EXPECT_NEAR(report.monitor[1].total.value() / 5, nll, 1e-12);
}

// Liger pads the smaller vocabulary with logits of 0, which gives tokens that do not exist real probability. Here both
// are restricted to the entries that they share, and the student's others get no gradient.
TEST(evaluate_logits_loop, vocabularies_of_different_size_share_their_first_entries) {
  golden_positions<double> x;
  x.teacher = vocabulary_numbers<double>("other_teacher");
  std::vector<double> gradient(x.logits.size(), -7);
  logits_batch<double> batch{.logits = matrix(x.logits, x.positions, x.vocabulary),
                             .teacher = matrix(x.teacher, x.positions, 19)};
  const auto counts = loss_counts(batch);
  EXPECT_THROW(evaluate_logits(serial{}, forward_kl{}, token_mean{}, batch, counts), std::invalid_argument);
  batch.common = 10;
  const auto report = evaluate_logits(serial{}, forward_kl{}, token_mean{}, batch, counts,
                                      {.logits = matrix(gradient, x.positions, x.vocabulary)});
  double loss = 0;
  for (std::size_t i = 0; i < 6; ++i) {
    loss += golden_value("common", i) / 6;
    for (std::size_t j = 0; j < 13; ++j) EXPECT_NEAR(gradient[i * 13 + j], golden_slope("common", i, j) / 6, 1e-12);
  }
  EXPECT_NEAR(report.loss(), loss, 1e-12);
  // The label's cross-entropy next to it is over the student's whole vocabulary.
  batch.labels = x.labels;
  const auto both = evaluate_logits(serial{}, sum{cross_entropy{}, forward_kl{}}, token_mean{}, batch, counts,
                                    {.logits = matrix(gradient, x.positions, x.vocabulary)});
  EXPECT_NEAR(gradient[12], golden_slope("cross_entropy", 0, 12) / 6, 1e-12);
  EXPECT_EQ(both.value("forward_kl"), report.value("forward_kl"));
}

/// Random rows of a wide vocabulary, enough for several chunks.
struct wide_rows {
  extent_t vocabulary = 1003;
  std::vector<std::int64_t> offsets{0};
  std::vector<float> logits, teacher, weight;
  std::vector<std::int32_t> labels;

  wide_rows() {
    std::mt19937 random(3);
    std::normal_distribution<float> normal;
    for (const int n : {70, 1, 0, 130, 17, 64, 33, 90}) {
      for (int t = 0; t < n; ++t) {
        for (extent_t j = 0; j < vocabulary; ++j) {
          logits.push_back(3 * normal(random));
          teacher.push_back(3 * normal(random));
        }
        labels.push_back(static_cast<std::int32_t>(random() % 1003));
        weight.push_back(std::abs(normal(random)));
      }
      offsets.push_back(std::ssize(labels));
    }
  }
};

const auto objective = sum{cross_entropy{.label_smoothing = 0.1, .z_loss = 1e-4},
                           scaled{0.5, tempered{1.5, generalised_jsd{0.3}}}, position_weighted{reverse_kl{}}};
using result = report_of<std::remove_const_t<decltype(objective)>>;

struct outcome {
  result report;
  std::vector<float> gradient;
};

template <class Executor>
outcome in_parts(const wide_rows& r, const std::vector<std::size_t>& cuts, const Executor& exec) {
  global_counts counts;
  for (std::size_t i = 0; i + 1 < r.offsets.size(); ++i) counts.add_row(r.offsets[i + 1] - r.offsets[i]);
  outcome out;
  out.gradient.assign(r.logits.size(), -7.0f);
  const extent_t v = r.vocabulary;
  for (std::size_t k = cuts.size() - 1; k-- > 0;) {  // micro-batches, the last one first
    const extent_t begin = r.offsets[cuts[k]], n = r.offsets[cuts[k + 1]] - begin;
    std::vector<std::int64_t> local;
    for (std::size_t i = cuts[k]; i <= cuts[k + 1]; ++i) local.push_back(r.offsets[i] - begin);
    const auto cut = [&](const auto& x) {
      return std::span(x).subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(n));
    };
    const logits_batch<float> batch{.logits = matrix(r.logits.data() + begin * v, n, v),
                                    .teacher = matrix(r.teacher.data() + begin * v, n, v),
                                    .labels = cut(r.labels),
                                    .weight = cut(r.weight),
                                    .offsets = local};
    out.report += evaluate_logits(exec, objective, sequence_mean_token_mean{}, batch, counts,
                                  {.logits = matrix(out.gradient.data() + begin * v, n, v)});
  }
  return out;
}

void expect_same_bits(const outcome& a, const outcome& b) {
  EXPECT_EQ(std::bit_cast<std::uint64_t>(a.report.loss()), std::bit_cast<std::uint64_t>(b.report.loss()));
  for (std::size_t i = 0; i < 3; ++i)
    EXPECT_EQ(a.report.piece[i].aggregated.value(), b.report.piece[i].aggregated.value());
  EXPECT_EQ(a.report["accuracy"], b.report["accuracy"]);
  EXPECT_EQ(a.report.tokens, b.report.tokens);
  EXPECT_EQ(a.report.sequences, b.report.sequences);
  EXPECT_EQ(a.report.rows, b.report.rows);
  EXPECT_EQ(std::memcmp(a.gradient.data(), b.gradient.data(), a.gradient.size() * sizeof(float)), 0);
}

TEST(evaluate_logits_invariance, micro_batches_and_threads_leave_no_trace) {
  const wide_rows r;
  const outcome whole = in_parts(r, {0, 8}, serial{});
  EXPECT_TRUE(std::isfinite(whole.report.loss()));
  expect_same_bits(in_parts(r, {0, 1, 2, 3, 4, 5, 6, 7, 8}, serial{}), whole);
  expect_same_bits(in_parts(r, {0, 3, 8}, serial{}), whole);
  for (const int n : {2, 3, 5}) {
    const threads pool(n);
    expect_same_bits(in_parts(r, {0, 8}, pool), whole);
    expect_same_bits(in_parts(r, {0, 4, 8}, pool), whole);
  }
}

// The same numbers in column-major and interleaved memory give the same bits.
TEST(evaluate_logits_invariance, strides_leave_no_trace) {
  const golden_positions<float> x;
  const auto n = static_cast<std::size_t>(x.positions), v = static_cast<std::size_t>(x.vocabulary);
  logits_batch<float> batch{.logits = matrix(x.logits, x.positions, x.vocabulary),
                            .teacher = matrix(x.teacher, x.positions, x.vocabulary),
                            .labels = x.labels,
                            .weight = x.weight};
  std::vector<float> gradient(n * v), turned(n * v), turned_gradient(n * v);
  const auto counts = loss_counts(batch);
  const double loss = evaluate_logits(serial{}, objective, token_mean{}, batch, counts,
                                      {.logits = matrix(gradient, x.positions, x.vocabulary)})
                          .loss();
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < v; ++j) turned[j * n + i] = x.logits[i * v + j];
  const auto column_major = [&](std::vector<float>& m) {
    return matrix_view<float>{m.data(), {x.positions, x.vocabulary}, {1, x.positions}};
  };
  batch.logits = column_major(turned);
  EXPECT_EQ(evaluate_logits(serial{}, objective, token_mean{}, batch, counts, {.logits = column_major(turned_gradient)})
                .loss(),
            loss);
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < v; ++j) EXPECT_EQ(turned_gradient[j * n + i], gradient[i * v + j]);
}

// huggingface/trl#2127: a label of -100 is never used as an index; masked positions are not read at all.
TEST(evaluate_logits_invariance, masked_positions_are_not_read) {
  golden_positions<float> x;
  const auto v = static_cast<std::size_t>(x.vocabulary);
  std::vector<std::int16_t> mask{1, 0, 1, 1, 0, 1};
  std::vector<float> clean(x.logits.size()), poisoned(x.logits.size(), -7);
  const auto run = [&](std::vector<float>& gradient) {
    const logits_batch<float> batch{.logits = matrix(x.logits, x.positions, x.vocabulary),
                                    .teacher = matrix(x.teacher, x.positions, x.vocabulary),
                                    .labels = x.labels,
                                    .weight = x.weight,
                                    .mask = mask};
    return evaluate_logits(serial{}, objective, token_mean{}, batch, loss_counts(batch),
                           {.logits = matrix(gradient, x.positions, x.vocabulary)})
        .loss();
  };
  const double loss = run(clean);
  for (const std::size_t i : {1u, 4u}) {
    x.labels[i] = i == 1 ? -100 : 1000000;
    x.weight[i] = std::nanf("");
    for (std::size_t j = 0; j < v; ++j) x.logits[i * v + j] = x.teacher[i * v + j] = std::nanf("");
  }
  EXPECT_EQ(run(poisoned), loss);
  EXPECT_EQ(poisoned, clean);
  for (std::size_t j = 0; j < v; ++j) EXPECT_EQ(clean[v + j], 0.0f);
}

// Naming positions is the same as masking all others; gradients of all others are written as 0, or kept with `add`.
TEST(evaluate_logits_loop, runs_on_named_positions) {
  golden_positions<double> x;
  const std::vector<double> mask{0, 1, 0, 1, 1, 0};
  const std::vector<std::int32_t> positions{1, 3, 4}, offsets{0, 1, 3}, row_offsets{0, 3, 6};
  const std::vector<std::int64_t> labels{x.labels[1], x.labels[3], x.labels[4]};
  std::vector<double> masked(x.logits.size(), -7), named(x.logits.size(), -7), added(x.logits.size(), 2);
  const auto logits = matrix(x.logits, x.positions, x.vocabulary);
  const logits_batch<double> by_mask{.logits = logits, .labels = x.labels, .mask = mask, .offsets = row_offsets};
  const logits_batch<double> by_name{.logits = logits, .labels = labels, .positions = positions, .offsets = offsets};
  const auto counts = loss_counts(by_name);
  EXPECT_EQ(counts.tokens(), loss_counts(by_mask).tokens());
  const auto run = [&](const logits_batch<double>& batch, std::vector<double>& gradient, bool add) {
    return evaluate_logits(threads(2), cross_entropy{}, sequence_mean_token_mean{}, batch, counts,
                           {.logits = matrix(gradient, x.positions, x.vocabulary), .add = add})
        .loss();
  };
  const double loss = run(by_mask, masked, false);
  EXPECT_EQ(run(by_name, named, false), loss);
  EXPECT_EQ(named, masked);
  EXPECT_EQ(run(by_name, added, true), loss);
  for (std::size_t k = 0; k < added.size(); ++k) EXPECT_NEAR(added[k], 2 + masked[k], 1e-15);
}

// OpenRLHF/OpenRLHF#774: a batch without labels has loss 0 and gradient 0, not NaN.
TEST(evaluate_logits_loop, an_empty_step_is_zero) {
  const golden_positions<float> x;
  const std::vector<std::int32_t> none, offsets{0, 0, 0};
  std::vector<float> gradient(x.logits.size(), -7);
  const logits_batch<float> batch{.logits = matrix(x.logits, x.positions, x.vocabulary),
                                  .labels = none,
                                  .positions = std::span<const std::int32_t>(offsets).first(0),
                                  .offsets = offsets};
  const auto report = evaluate_logits(serial{}, cross_entropy{}, token_mean{}, batch, loss_counts(batch),
                                      {.logits = matrix(gradient, x.positions, x.vocabulary)});
  EXPECT_EQ(report.loss(), 0.0);
  EXPECT_EQ(report["accuracy"], 0.0);
  EXPECT_TRUE(report.empty_step);
  EXPECT_EQ(report.rows, 2);
  for (const float g : gradient) EXPECT_EQ(g, 0.0f);
}

template <class F>
void expect_complaint(F&& f, const char* part) {
  try {
    f();
    ADD_FAILURE() << "expected a complaint about " << part;
  } catch (const std::invalid_argument& e) {
    EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what();
    EXPECT_EQ(std::string(e.what()).find('\n'), std::string::npos);
  }
}

TEST(evaluate_logits_loop, says_what_does_not_fit) {
  golden_positions<float> x;
  const auto logits = matrix(x.logits, x.positions, x.vocabulary);
  std::vector<float> small_gradient(12);
  const std::vector<std::int32_t> five(5), backwards{3, 1}, two(2), past{0, 7};
  const auto run = [](const logits_batch<float>& b, const logits_gradients<float>& g = {}) {
    return evaluate_logits(serial{}, cross_entropy{}, token_mean{}, b, global_counts::reduced(6, 1, 1, 6), g);
  };
  expect_complaint([&] { run({.logits = logits}); }, "reads labels, but the batch has none");
  expect_complaint([&] { run({.logits = logits, .labels = five}); }, "labels are [5], the logits have positions [6]");
  expect_complaint([&] { run({.logits = logits, .labels = two, .positions = backwards}); }, "positions[1] = 1 after 3");
  expect_complaint([&] { run({.logits = logits, .labels = two, .positions = past}); }, "positions[1] = 7");
  expect_complaint([&] { run({.logits = logits, .labels = x.labels, .offsets = past}); }, "[7]");
  expect_complaint([&] { run({.logits = logits, .labels = x.labels}, {.logits = matrix(small_gradient, 3, 4)}); },
                   "the gradient by logits is [3, 4], the logits are [6, 13]");
  expect_complaint([&] { run({.logits = x.logits, .labels = x.labels}); }, "must be a matrix");
  x.labels[4] = 13;
  expect_complaint([&] { run({.logits = logits, .labels = x.labels}); }, "labels[4] = 13");
  x.labels[4] = 0;
  expect_complaint(
      [&] {
        evaluate_logits(serial{}, cross_entropy{}, token_mean{},
                        logits_batch<float>{.logits = logits, .labels = x.labels}, global_counts::reduced(5, 1, 1, 5));
      },
      "the counts of the step say 5 tokens");
}

}  // namespace
}  // namespace RLCORE_TEST_ID
