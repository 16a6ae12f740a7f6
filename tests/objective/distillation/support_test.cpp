// Divergences on a few entries, and between vocabularies that share none: against TRL and verl.
#include "rlcore/objective/distillation/support.hpp"
#include "objective/vocabulary/golden_vocabulary.hpp"
#include "rlcore/exec/serial.hpp"
#include "rlcore/objective/aggregation.hpp"
#include "rlcore/objective/distillation/divergences.hpp"
#include "rlcore/objective/loop/evaluate_logits.hpp"
#include "rlcore/objective/piece/combine/sum.hpp"
#include "rlcore/objective/vocabulary/transforms.hpp"
#include "rlcore/tensor/span.hpp"

namespace RLCORE_TEST_ID {

using namespace rlcore;
using namespace rlcore_test;

namespace {

template <class T>
class support_pieces : public testing::Test {};
using element_types = testing::Types<float, double>;
TYPED_TEST_SUITE(support_pieces, element_types);

TYPED_TEST(support_pieces, equal_sdpo) {
  golden_positions<TypeParam> x;
  x.support = vocabulary_numbers<std::int64_t>("student_ids");
  x.support_logp = vocabulary_numbers<TypeParam>("teacher_logp_at_student_ids");
  check_positions(on_support{forward_kl{}}, x, "renormalised_forward");
  check_positions(on_support{reverse_kl{}}, x, "renormalised_reverse");
  check_positions(on_support{generalised_jsd{}}, x, "renormalised_jsd");
  check_positions(with_tail{forward_kl{}}, x, "tail_forward");
  check_positions(with_tail{reverse_kl{}}, x, "tail_reverse");
  check_positions(with_tail{generalised_jsd{}}, x, "tail_jsd");
}

TYPED_TEST(support_pieces, equal_verl) {
  golden_positions<TypeParam> x;
  x.support = vocabulary_numbers<std::int64_t>("teacher_ids");
  x.support_logp = vocabulary_numbers<TypeParam>("teacher_logp_at_teacher_ids");
  const double none = std::numeric_limits<double>::infinity();
  check_positions(top_k_forward_kl{}, x, "top_k_forward_kl");
  check_positions(top_k_forward_kl{-none, none}, x, "top_k_forward_kl_free");
}

TYPED_TEST(support_pieces, uld_equals_gold) {
  golden_positions<TypeParam> x;
  x.teacher = vocabulary_numbers<TypeParam>("other_teacher");
  check_positions(uld{}, x, "uld");
}

// GOLD's hybrid: divergence on the tokens that both have, sorted probabilities for the others. Run through the loop.
TYPED_TEST(support_pieces, hybrid_uld_equals_gold) {
  golden_positions<TypeParam> x;
  x.teacher = vocabulary_numbers<TypeParam>("other_teacher");
  const auto student = vocabulary_numbers<std::int32_t>("matched_student"),
             teacher = vocabulary_numbers<std::int32_t>("matched_teacher");
  const auto others = [](const std::vector<std::int32_t>& known, std::int32_t size) {
    std::vector<std::int32_t> out;
    for (std::int32_t j = 0; j < size; ++j)
      if (std::find(known.begin(), known.end(), j) == known.end()) out.push_back(j);
    return out;
  };
  const auto other_student = others(student, 13), other_teacher = others(teacher, 19);
  const double share = 5.0 / 19;
  const auto hybrid = sum{scaled{share, matched_entries{generalised_jsd{}, student, teacher}},
                          scaled{1 - share, uld{other_student, other_teacher}}};
  std::vector<TypeParam> gradient(x.logits.size());
  logits_batch<TypeParam> batch{.logits = matrix(x.logits, x.positions, x.vocabulary),
                                .teacher = matrix(x.teacher, x.positions, 19)};
  std::vector<std::byte> scratch(scratch_bytes(serial{}, hybrid, batch));
  batch.scratch = scratch;
  const auto& golden = vocabulary_golden()["cases"]["gold_hybrid"];
  const double loss = evaluate_logits(serial{}, hybrid, token_sum{}, batch, loss_counts(batch),
                                      {.logits = matrix(gradient, x.positions, x.vocabulary)})
                          .loss();
  double expected = 0;
  for (std::size_t i = 0; i < 6; ++i) {
    expected += golden["value"][i].template get<double>();
    for (std::size_t j = 0; j < 13; ++j)
      EXPECT_NEAR(gradient[i * 13 + j], golden["gradient"][i][j].template get<double>(), 2e-6);
  }
  EXPECT_NEAR(loss, expected, 1e-5);
  const std::vector<std::int32_t> wrong{19, 0, 1, 2, 3};
  EXPECT_THROW(
      evaluate_logits(serial{}, matched_entries{reverse_kl{}, student, wrong}, token_sum{}, batch, loss_counts(batch)),
      std::invalid_argument);
}

// With a support that holds everything, all of them are the divergence itself.
TEST(support_identities, a_support_of_all_entries_is_no_restriction) {
  std::vector<double> z{1, 2, 3, -1}, w{0.5, 0, -1, 2}, logp(4), g(4), expected(4);
  std::vector<std::int64_t> ids{2, 0, 3, 1};
  logits_position<double> x;
  x.logits = {z.data(), 4}, x.teacher = {w.data(), 4}, x.support = {ids.data(), 4, 1, true};
  const auto n = normalize(x.teacher);
  for (std::size_t k = 0; k < 4; ++k) logp[k] = n.logp(w[static_cast<std::size_t>(ids[k])]);
  x.support_logp = {logp.data(), 4};
  const auto check = [&](const auto& restricted, const auto& whole, double tolerance) {
    const double value = run_piece(restricted, x, logits_gradient<double>{g.data(), 4}).value;
    EXPECT_NEAR(value, run_piece(whole, x, logits_gradient<double>{expected.data(), 4}).value, tolerance);
    for (std::size_t j = 0; j < 4; ++j) EXPECT_NEAR(g[j], expected[j], tolerance);
  };
  const double none = std::numeric_limits<double>::infinity();
  check(on_support{reverse_kl{}}, reverse_kl{}, 1e-14);
  check(on_support{negative_entropy{}}, negative_entropy{}, 1e-14);
  check(with_tail{reverse_kl{}}, reverse_kl{}, 1e-6);  // the tail's least mass, 1e-7
  check(top_k_forward_kl{-none, none}, forward_kl{}, 1e-14);
}

TEST(support_identities, an_empty_support_has_no_loss) {
  std::vector<float> z{1, 2, 3}, g(3, -7.0f);
  logits_position<float> x;
  x.logits = {z.data(), 3};
  EXPECT_EQ(run_piece(on_support{reverse_kl{}}, x, logits_gradient<float>{g.data(), 3}).value, 0.0);
  EXPECT_EQ(g, (std::vector<float>{0, 0, 0}));
  EXPECT_EQ(run_piece(top_k_forward_kl{}, x, logits_gradient<float>{g.data(), 3}).value, 0.0);
  EXPECT_EQ(g, (std::vector<float>{0, 0, 0}));
}

TEST(top_k_forward_kl_piece, clamps_cut_the_gradient_and_masses_are_reported) {
  std::vector<double> z{0, 0, 0, -30}, g(4);
  std::vector<std::int32_t> ids{3, 0};
  std::vector<double> logp{std::log(0.1), std::log(0.2)};
  logits_position<double> x;
  x.logits = {z.data(), 4}, x.support = {ids.data(), 2, 1, false}, x.support_logp = {logp.data(), 2};
  const auto out = run_piece(top_k_forward_kl{}, x, logits_gradient<double>{g.data(), 4});
  EXPECT_NEAR(out.monitor[0], 1.0 / 3, 1e-12);
  EXPECT_NEAR(out.monitor[1], 0.3, 1e-12);
  // Only entry 0 pulls; the student's log-prob of entry 3 is below -10.
  const double third = 1.0 / 3;
  EXPECT_NEAR(out.value, 0.1 * (std::log(0.1) + 10) + 0.2 * (std::log(0.2) - std::log(third)), 1e-12);
  EXPECT_NEAR(g[0], 0.2 * third - 0.2, 1e-12);
  EXPECT_NEAR(g[1], 0.2 * third, 1e-12);
  // A negative sum becomes 0 and has no gradient.
  logp = {std::log(1e-9), std::log(0.1)};
  const auto none = run_piece(top_k_forward_kl{}, x, logits_gradient<double>{g.data(), 4});
  EXPECT_EQ(none.value, 0.0);
  EXPECT_EQ(g, (std::vector<double>{0, 0, 0, 0}));
}

TEST(uld_piece, nan_shows_and_breaks_no_sort) {
  std::vector<double> z(40, 1.0), w(30, 2.0), g(40);
  z[7] = std::numeric_limits<double>::quiet_NaN();
  std::vector<std::byte> scratch(uld{}.scratch_bytes(40, 30));
  logits_position<double> x;
  x.logits = {z.data(), 40}, x.teacher = {w.data(), 30}, x.scratch = scratch;
  EXPECT_TRUE(std::isnan(run_piece(uld{}, x, logits_gradient<double>{g.data(), 40}).value));
  EXPECT_TRUE(std::isnan(g[0]));
}

// huggingface/trl experimental sdpo: torch.topk of the student's logits.
TEST(top_k_selection, equals_pytorch) {
  const golden_positions<float> x;
  std::vector<std::int32_t> ids(static_cast<std::size_t>(x.positions * x.k), -1);
  top_k(serial{}, matrix(x.logits.data(), x.positions, x.vocabulary), matrix(ids, x.positions, x.k));
  EXPECT_EQ(ids, vocabulary_numbers<std::int32_t>("student_ids"));
}

TEST(top_k_selection, takes_the_lower_entry_of_equals_and_nan_last) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> z{nan, 1, 2, 1, 2, nan};
  std::vector<std::int64_t> ids(5);
  top_k(serial{}, matrix(z, 1, 6), matrix(ids, 1, 5));
  EXPECT_EQ(ids, (std::vector<std::int64_t>{2, 4, 1, 3, 0}));
  std::vector<std::int64_t> seven(7);
  EXPECT_THROW(top_k(serial{}, matrix(z, 1, 6), matrix(seven, 1, 7)), std::invalid_argument);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
