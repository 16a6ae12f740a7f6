// Cross-entropies against torch.nn.functional.cross_entropy.
#include "rlcore/objective/piece/supervised.hpp"

#include "objective/vocabulary/golden_vocabulary.hpp"
#include "rlcore/objective/vocabulary/transforms.hpp"

namespace RLCORE_TEST_ID {

using namespace rlcore;
using namespace rlcore_test;

namespace {

template <class T>
class cross_entropies : public testing::Test {};
using element_types = testing::Types<float, double>;
TYPED_TEST_SUITE(cross_entropies, element_types);

TYPED_TEST(cross_entropies, equal_pytorch) {
  const golden_positions<TypeParam> x;
  check_positions(cross_entropy{}, x, "cross_entropy");
  check_positions(cross_entropy{.label_smoothing = 0.1}, x, "label_smoothing");
  check_positions(cross_entropy{.label_smoothing = 0.1, .smoothing = smoothing_over::others}, x,
                  "label_smoothing_others");
  check_positions(softcapped{5.0, cross_entropy{.label_smoothing = 0.1, .z_loss = 1e-2}}, x, "cross_entropy_full");
  check_positions(tempered{1.7, cross_entropy{}}, x, "cross_entropy_tempered");
  check_positions(z_loss{}, x, "z_loss");
  check_positions(position_weighted{cross_entropy{}}, x, "position_weighted");
}

// huggingface/trl#7062, #3346: class weights and label smoothing count together.
TYPED_TEST(cross_entropies, with_class_weights_equal_pytorch) {
  const golden_positions<TypeParam> x;
  const std::vector<double> weight = vocabulary_numbers<double>("class_weight");
  check_positions(class_weighted_cross_entropy{weight}, x, "class_weights");
  check_positions(class_weighted_cross_entropy{weight, 0.2}, x, "class_weights_smoothed");
}

TYPED_TEST(cross_entropies, entries_of_minus_infinity_do_not_exist) {
  golden_positions<TypeParam> x;
  x.logits = vocabulary_numbers<TypeParam>("holes");
  check_positions(cross_entropy{}, x, "nll_with_holes");
  check_positions(cross_entropy{.label_smoothing = 0.1}, x, "smoothed_with_holes");
}

// OpenRLHF/OpenRLHF#583: log-probs of nearly certain tokens keep their digits; NaN is never mistaken for anything.
TEST(cross_entropy_edges, nan_shows_and_huge_logits_do_not_overflow) {
  std::vector<float> logits{1e30f, -1e30f, 3e38f, 0.0f};
  logits_position<float> x;
  x.logits = {logits.data(), 4};
  x.label = 2;
  EXPECT_EQ(cross_entropy{}(x, logits_gradient<float>{}).value, 0.0);
  EXPECT_EQ(cross_entropy{}(x, logits_gradient<float>{}).monitor[0], 1.0);
  for (std::size_t j = 0; j < 4; ++j) {
    std::vector<float> poisoned = logits, gradient(4);
    poisoned[j] = std::numeric_limits<float>::quiet_NaN();
    x.logits.data = poisoned.data();
    EXPECT_TRUE(std::isnan(cross_entropy{}(x, logits_gradient<float>{gradient.data(), 4}).value));
    for (const float g : gradient) EXPECT_TRUE(std::isnan(g));
  }
}

// Liger's vocabulary-parallel smoothing takes log(exp(z - max)), infinite from z - max < -104 on (own reading of
// linkedin/Liger-Kernel ops/vocab_parallel_cross_entropy.py).
TEST(cross_entropy_edges, smoothing_survives_underflow) {
  std::vector<float> logits{0.0f, -150.0f, -300.0f}, gradient(3);
  logits_position<float> x;
  x.logits = {logits.data(), 3};
  const auto out = cross_entropy{.label_smoothing = 0.3}(x, logits_gradient<float>{gradient.data(), 3});
  EXPECT_NEAR(out.value, 0.1 * 450, 1e-5);
  EXPECT_NEAR(gradient[2], -0.1, 1e-7);
}

// A row of any length keeps its digits in float: sums are in double (nanochat#618, NVIDIA-NeMo/Automodel#3797,
// allenai/OLMo-core#657). 200 000 equal logits: log 200 000 exactly rounded.
TEST(cross_entropy_edges, long_vocabularies_keep_their_digits) {
  const std::vector<float> logits(200000, 0.1f);
  logits_position<float> x;
  x.logits = {logits.data(), 200000};
  EXPECT_NEAR(cross_entropy{}(x, logits_gradient<float>{}).value, std::log(200000.0), 1e-12);
}

TEST(cross_entropy_edges, settings_out_of_range) {
  EXPECT_THROW(cross_entropy{.label_smoothing = 1.0}.check(4), std::invalid_argument);
  EXPECT_THROW((tempered{0.0, cross_entropy{}}.check(4)), std::invalid_argument);
  EXPECT_THROW((softcapped{-1.0, cross_entropy{}}.check(4)), std::invalid_argument);
  const std::vector<double> three(3, 1.0);
  EXPECT_THROW((softcapped{1.0, class_weighted_cross_entropy{three}}.check(4)), std::invalid_argument);
}

TEST(dft_piece, equals_trl) {
  const auto& golden = vocabulary_golden();
  check_case(dft{}, golden_tokens(golden["fields"]), golden["token_cases"]["dft"]);
  token<double> impossible{};
  impossible.logp = -std::numeric_limits<double>::infinity();
  EXPECT_EQ(at(dft{}, impossible).value, 0.0);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
