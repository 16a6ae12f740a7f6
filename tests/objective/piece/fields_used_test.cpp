// A field that a piece uses without listing it is refused in every build, however the body uses it: it would be 0
// there.
#include "rlcore/objective/piece/fields_used.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "rlcore/losses.hpp"
#include "rlcore/objective/piece/slope_check.hpp"
#include "rlcore/objective/vocabulary/transforms.hpp"

namespace RLCORE_TEST_ID {

using namespace rlcore;

namespace {

struct pulls_to_reference {  // value -1 instead of 2 if ref_logp were 0
  static constexpr field reads = field::logp;
  static constexpr std::string_view name = "pulls_to_reference";
  template <class Math, class V>
  RLCORE_FN term<V> operator()(const token<V>& t) const noexcept {
    return {t.logp - t.ref_logp, V(1)};
  }
};
struct hidden_by_a_mask {  // no arithmetic on the field: NaN in it would not show
  static constexpr field reads = field::logp;
  static constexpr std::string_view name = "hidden_by_a_mask";
  template <class Math, class V>
  RLCORE_FN term<V> operator()(const token<V>& t) const noexcept {
    return {Math::select(Math::any(t.entropy > V(1), !(t.logp < V(0))), t.logp, -t.logp), V(1)};
  }
};
struct in_its_slope {
  static constexpr field reads = field::logp;
  static constexpr std::string_view name = "in_its_slope";
  template <class Math, class V>
  RLCORE_FN term<V> operator()(const token<V>& t) const noexcept {
    return {t.logp, Math::exp(Math::clamp(t.old_logp, V(0), V(1)))};
  }
};
struct in_its_monitor {
  static constexpr field reads = field::logp;
  static constexpr std::string_view name = "in_its_monitor";
  static constexpr std::array<std::string_view, 1> monitors{"weight"};
  template <class Math, class V>
  RLCORE_FN flagged_term<V> operator()(const token<V>& t) const noexcept {
    return {t.logp, V(1), {Math::sigmoid(t.weight)}};
  }
};
struct by_its_settings {
  static constexpr field reads = field::logp;
  static constexpr std::string_view name = "by_its_settings";
  bool weighted = false;
  template <class Math, class V>
  RLCORE_FN term<V> operator()(const token<V>& t) const noexcept {
    if (weighted) return {t.weight * t.logp, t.weight};
    return {t.logp, V(1)};
  }
};
struct looks_without_using {  // a field that does not reach the result is nobody's business
  static constexpr field reads = field::logp;
  static constexpr std::string_view name = "looks_without_using";
  template <class Math, class V>
  RLCORE_FN term<V> operator()(const token<V>& t) const noexcept {
    [[maybe_unused]] const V unused = t.ref_logp * t.logp;
    return {t.logp, V(1)};
  }
};

/// What evaluate says: a message, or "loss x".
template <class Objective>
std::string outcome(const Objective& objective) {
  const std::vector<float> logp{-1, -2}, other{-3, -3};
  const std::vector<std::int64_t> offsets{0, 2};
  std::vector<float> slope(2), entropy(2);
  token_batch<float> batch{.logp = logp, .old_logp = other, .ref_logp = other, .advantage = logp, .weight = other};
  batch.entropy = other, batch.offsets = offsets;
  try {
    return "loss " + std::to_string(evaluate(serial{}, objective, token_mean{}, batch, loss_counts(batch),
                                             {.logp = slope, .entropy = entropy})
                                        .loss());
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
}
std::string refusal(const std::string& piece, const std::string& name) {
  return "rlcore: " + piece + " uses " + name +
         ", which its `reads` does not list, so it would find nothing there; add field::" + name +
         " to `static constexpr field reads`";
}

TEST(fields_used, of_an_own_piece_are_listed_or_refused) {
  EXPECT_EQ(outcome(pulls_to_reference{}), refusal("pulls_to_reference", "ref_logp"));
  EXPECT_EQ(outcome(hidden_by_a_mask{}), refusal("hidden_by_a_mask", "entropy"));
  EXPECT_EQ(outcome(in_its_slope{}), refusal("in_its_slope", "old_logp"));
  EXPECT_EQ(outcome(in_its_monitor{}), refusal("in_its_monitor", "weight"));
  EXPECT_EQ(outcome(looks_without_using{}), "loss -1.500000");
}

TEST(fields_used, depend_on_settings) {
  EXPECT_EQ(outcome(by_its_settings{}), "loss -1.500000");
  EXPECT_EQ(outcome(by_its_settings{true}), refusal("by_its_settings", "weight"));
}

TEST(fields_used, of_one_piece_are_not_lent_to_another) {
  EXPECT_EQ(outcome(sum{k3{}, scaled{0.1, pulls_to_reference{}}}), refusal("pulls_to_reference", "ref_logp"));
  EXPECT_EQ(outcome(weighted{pulls_to_reference{}}), refusal("pulls_to_reference", "ref_logp"));
}

TEST(fields_used, are_those_that_catalogue_pieces_list) {
  EXPECT_EQ(fields_used(ppo_clip{}), ppo_clip::reads);
  EXPECT_EQ(fields_used(sequence_is{ppo_clip{}}),
            field::advantage | field::gathered);  // its logp and old_logp only matter through what is gathered
  EXPECT_EQ(fields_used(k3{}), field::logp | field::ref_logp);
  EXPECT_EQ(fields_used(clipped_value{}), field::value | field::old_value | field::target);
}

struct score_of_its_own {
  static constexpr field reads = field::logp;
  static constexpr std::string_view name = "score_of_its_own";
  template <class Math, class V>
  RLCORE_FN term<V> operator()(const token<V>& t) const noexcept {
    return {t.logp - t.rollout_logp, V(1)};
  }
};
struct gathers_it {
  using gathers = mean_of<score_of_its_own>;
  static constexpr field reads = field::logp | field::gathered;
  static constexpr std::string_view name = "gathers_it";
  template <class Math, class V>
  RLCORE_FN term<V> operator()(const token<V>& t) const noexcept {
    return {t.logp * t.gathered, t.gathered};
  }
};
TEST(fields_used, of_what_is_gathered) {
  EXPECT_EQ(outcome(gathers_it{}), refusal("score_of_its_own", "rollout_logp"));
}

struct row_link_with_target {
  static constexpr field reads = field::logp;
  static constexpr std::string_view name = "row_link_with_target";
  template <class Math, class V>
  RLCORE_FN term<V> operator()(const token<V>& row) const noexcept {
    return {row.logp * row.target, row.target};
  }
};
struct pair_link_with_target {
  static constexpr std::string_view name = "pair_link_with_target";
  template <class Math, class V>
  RLCORE_FN pair_term<V> operator()(const token<V>& chosen, const token<V>& rejected) const noexcept {
    return {chosen.logp - rejected.logp - chosen.target, V(1), V(-1)};
  }
};
struct batch_link_with_target {
  static constexpr std::string_view name = "batch_link_with_target";
  double operator()(std::span<const token<double>> rows, std::span<double> slope) const noexcept {
    for (double& s : slope) s = 1;
    return rows[0].logp - rows[0].target;
  }
};

template <class Link, class Aggregation>
double link_loss(const Link& link, const Aggregation& aggregation) {
  const std::vector<double> logp{-1, -2, -3, -4}, target{5, 5};
  const std::vector<std::int64_t> offsets{0, 2, 4};
  std::vector<double> slope(4);
  token_batch<double> batch{.logp = logp, .ref_logp = logp, .target = per_row(target)};
  batch.offsets = offsets;
  return evaluate(serial{}, sequence_objective{sum_of<log_prob>{}, link}, aggregation, batch, loss_counts(batch),
                  {.logp = slope})
      .loss();
}
template <class Link, class Aggregation>
std::string link_outcome(const Link& link, const Aggregation& aggregation) {
  try {
    return std::to_string(link_loss(link, aggregation));
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
}
TEST(fields_used, of_links) {
  EXPECT_EQ(link_outcome(row_link_with_target{}, sequence_mean{}), refusal("row_link_with_target", "target"));
  EXPECT_EQ(link_outcome(pair_link_with_target{}, pair_mean{}), refusal("pair_link_with_target", "target"));
  EXPECT_TRUE(std::isnan(link_loss(batch_link_with_target{}, batch_total{})));  // its body is not a template
  // A link that lists a field of tokens finds 0 there, so that a surrogate's log-ratio is the score itself.
  EXPECT_EQ(link_loss(k2{}, sequence_mean{}), (0.5 * 3 * 3 + 0.5 * 7 * 7) / 2);
}

struct entry_with_teacher {
  static constexpr logits_field reads = logits_field::none;
  static constexpr std::string_view name = "entry_with_teacher";
  template <class Math, class V>
  RLCORE_FN term<V> operator()(const entry<V>& e) const noexcept {
    return {e.p * e.teacher_logp, V(0)};
  }
};
template <int What>
struct position_with {
  static constexpr logits_field reads = logits_field::none;
  static constexpr std::string_view name = "position_with";
  template <class T>
  double operator()(const logits_position<T>& x, const logits_gradient<T>& g) const noexcept {
    if (g.wanted()) g.fill(T(0)), g.add_at(What == 0 ? x.label : 0, 1);
    if constexpr (What == 0) return x.logits[static_cast<extent_t>(x.label)];
    if constexpr (What == 1) return x.teacher[1];
    if constexpr (What == 2) return x.logits[static_cast<extent_t>(x.support[0])];
    if constexpr (What == 3) return static_cast<double>(x.support_logp[0]);
    if constexpr (What == 4) return static_cast<double>(x.target[0]);
    return static_cast<double>(x.weight);
  }
};
template <class Piece>
double logits_loss(const Piece& piece) {
  std::vector<float> z{-1, -2, 3, 4}, slope(4), ones(2, 1.0f);
  const std::vector<std::int64_t> label{1, 0}, support{0, 1};
  const matrix_view<const float> logits(z.data(), {2, 2});
  logits_batch<float> batch{.logits = logits, .labels = label};
  batch.teacher = logits, batch.support = matrix_view<const std::int64_t>(support.data(), {2, 1});
  batch.support_logp = ones, batch.targets = ones, batch.weight = ones;
  return evaluate_logits(serial{}, piece, token_mean{}, batch, loss_counts(batch),
                         {.logits = matrix_view<float>(slope.data(), {2, 2})})
      .loss();
}
TEST(fields_used, of_logits_pieces) {
  EXPECT_THROW(logits_loss(entry_with_teacher{}), std::invalid_argument);
  EXPECT_THROW(logits_loss(tempered{2.0, entry_with_teacher{}}), std::invalid_argument);
  EXPECT_TRUE(std::isnan(logits_loss(position_with<0>{})));
  EXPECT_TRUE(std::isnan(logits_loss(position_with<1>{})));
  EXPECT_TRUE(std::isnan(logits_loss(position_with<2>{})));
  EXPECT_TRUE(std::isnan(logits_loss(position_with<3>{})));
  EXPECT_TRUE(std::isnan(logits_loss(position_with<4>{})));
  EXPECT_TRUE(std::isnan(logits_loss(position_with<5>{})));
  EXPECT_FALSE(std::isnan(logits_loss(cross_entropy{})));
}

struct wrong_slope {
  [[maybe_unused]] static constexpr field reads = field::logp;
  static constexpr std::string_view name = "wrong_slope";
  template <class Math, class V>
  RLCORE_FN term<V> operator()(const token<V>& t) const noexcept {
    return {V(0.5) * t.logp * t.logp, Math::select(t.logp < V(-2), V(2) * t.logp, t.logp)};
  }
};
TEST(slope_check, finds_where_a_slope_is_wrong) {
  const slope_difference worst = largest_slope_error(wrong_slope{});
  EXPECT_GT(worst.error(), 0.4);
  EXPECT_LT(worst.at.logp, -2);
  EXPECT_EQ(worst.slope, 2 * worst.at.logp);
  EXPECT_EQ(worst.derivative, worst.at.logp);
  EXPECT_NE(worst.text().find("but the value's derivative is"), std::string::npos);
}
TEST(slope_check, passes_what_is_right) {
  EXPECT_LE(largest_slope_error(ppo_clip{}).error(), 1e-12);
  EXPECT_LE(largest_slope_error(k3{}).error(), 1e-12);
  EXPECT_LE(largest_slope_error(clipped_value{}).error(), 1e-12);
  EXPECT_LE(largest_slope_error(bradley_terry{.beta = 0.3, .smoothing = 0.1}).error(), 1e-12);
  EXPECT_LE(largest_slope_error(pair_link_with_target{}).error(), 1e-12);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
