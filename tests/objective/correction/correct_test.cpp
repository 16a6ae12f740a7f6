// Weights, rejections and metrics against verl's own; what the split and the layout must not change.
#include "rlcore/objective/correction/correct.hpp"

#include <bit>
#include <limits>
#include <random>

#include "objective/correction/correction_data.hpp"
#include "rlcore/exec/threads.hpp"
#include "rlcore/objective/piece/divergence/kl.hpp"

namespace RLCORE_TEST_ID {

using namespace rlcore;
using namespace correction_test;

namespace {

double metric(const nlohmann::json& one, const char* name) {
  return rlcore_test::golden_number(one.at("metrics").at(name));
}
// verl adds 1e-8 to the number of tokens and to the mean weight.
void expect_near(double got, double want, const std::string& what, double tolerance = 3e-8) {
  EXPECT_NEAR(got, want, tolerance * std::max(1.0, std::abs(want))) << what;
}

template <class Weight>
void check_weight(const std::string& name, const Weight& weight, bool normalized = false) {
  golden_data d;
  const auto& one = d.cases["verl_weights"][name];
  const auto corrected = d.run(decoupled(weight));
  if (normalized) self_normalize<double>(golden_data::shaped(d.weight), corrected.report.weight);
  expect_equal(d.weight, one["weight"], name, normalized ? 3e-8 : 1e-13);
  const weight_report& r = corrected.report.weight;
  expect_near(r.mean(), metric(one, "rollout_is_mean"), name);
  expect_near(r.deviation(), metric(one, "rollout_is_std"), name, 1e-7);
  expect_near(r.effective_sample_share(), metric(one, "rollout_is_eff_sample_size"), name);
  expect_near(r.mean_of_sequences(), metric(one, "rollout_is_seq_mean"), name);
  expect_near(r.deviation_of_sequences(), metric(one, "rollout_is_seq_std"), name);
  expect_near(r.smallest_sequence, metric(one, "rollout_is_seq_min"), name);
  expect_near(r.largest_sequence, metric(one, "rollout_is_seq_max"), name);
  const double n = static_cast<double>(r.sequences);
  expect_near(static_cast<double>(r.sequences_above) / n, metric(one, "rollout_is_seq_fraction_high"), name, 1e-7);
  if (!weight.per_sequence) {  // verl's shares of the sequence level are over rows
    expect_near(r.above_share(), metric(one, "rollout_is_ratio_fraction_high"), name);
    expect_near(r.smallest, metric(one, "rollout_is_min"), name);
    expect_near(r.largest, metric(one, "rollout_is_max"), name);
  }
  if (normalized) expect_near(r.normalizer(), metric(one, "rollout_is_batch_norm_factor"), name);
}

template <class... Gates>
void check_rejection(const std::string& name, const std::string& verl, const Gates&... gates) {
  golden_data d;
  const auto& one = d.cases["verl_rejections"][name];
  const auto corrected = d.run(decoupled(no_weight{}, gates...));
  expect_mask(d.kept, corrected, one["mask"], name);
  const auto& r = corrected.report;
  const double all = static_cast<double>(r.policy.tokens);
  expect_near(static_cast<double>(r.rejected) / all, metric(one, "rollout_rs_masked_fraction"), name);
  expect_near(static_cast<double>(r.touched) / 6, metric(one, "rollout_rs_seq_masked_fraction"), name, 1e-7);
  if (sizeof...(Gates) > 1) return;
  const std::string prefix = "rollout_rs_" + verl;
  expect_near(r.gate[0].rejected_share(), metric(one, (prefix + "_masked_fraction").c_str()), name);
  expect_near(r.gate[0].touched_share(), metric(one, (prefix + "_seq_masked_fraction").c_str()), name, 1e-7);
  // verl reports log(rollout / train), here it is log(train / rollout).
  const bool turned = verl.ends_with("k1");
  const double smallest = metric(one, (prefix + "_min").c_str()), largest = metric(one, (prefix + "_max").c_str());
  expect_near(r.gate[0].mean(), (turned ? -1 : 1) * metric(one, (prefix + "_mean").c_str()), name);
  expect_near(r.gate[0].smallest, turned ? -largest : smallest, name);
  expect_near(r.gate[0].largest, turned ? -smallest : largest, name);
}

}  // namespace

TEST(rollout_correction, weights_of_verl) {
  check_weight("token_tis", importance_weight{token_level{}, truncated{2}});
  check_weight("token_tis_normalized", importance_weight{token_level{}, truncated{2}}, true);
  check_weight("token_icepop", importance_weight{token_level{}, zero_outside{0.5, 5}});
  check_weight("sequence_tis", importance_weight{summed_over_sequence{}, truncated{2}});
  check_weight("sequence_tis_normalized", importance_weight{summed_over_sequence{}, truncated{2}}, true);
  check_weight("sequence_icepop", importance_weight{summed_over_sequence{}, zero_outside{0.5, 5}});
}

TEST(rollout_correction, weights_by_definition) {
  golden_data d;
  d.run(decoupled(importance_weight{mean_over_sequence{}, untreated{}}));
  expect_equal(d.weight, d.cases["definition"]["geometric"], "geometric mean");
  d.run(decoupled(importance_weight{summed_over_turn{}, truncated{2}}));
  expect_equal(d.weight, d.cases["definition"]["turn"], "product over the turn");
}

TEST(rollout_correction, rejections_of_verl) {
  check_rejection("token_k1", "token_k1", ratio_within<token_level>(rollout_over_train{0.6, 1.5}));
  check_rejection("token_k2", "token_k2", divergence_at_most<k2, token_level>{.bound = 0.1});
  check_rejection("token_k3", "token_k3", divergence_at_most<k3, token_level>{.bound = 0.1});
  check_rejection("sequence_sum_k1", "seq_sum_k1", ratio_within<summed_over_sequence>(rollout_over_train{0.5, 3}));
  check_rejection("sequence_sum_k2", "seq_sum_k2", divergence_at_most<k2, summed_over_sequence>{.bound = 1});
  check_rejection("sequence_sum_k3", "seq_sum_k3", divergence_at_most<k3, summed_over_sequence>{.bound = 1});
  check_rejection("sequence_mean_k1", "seq_mean_k1", ratio_within<mean_over_sequence>(rollout_over_train{0.5, 1.04}));
  check_rejection("sequence_mean_k2", "seq_mean_k2", divergence_at_most<k2, mean_over_sequence>{.bound = 0.05});
  check_rejection("sequence_mean_k3", "seq_mean_k3", divergence_at_most<k3, mean_over_sequence>{.bound = 0.05});
  check_rejection("sequence_max_k2", "seq_max_k2", divergence_at_most<k2, largest_in_sequence>{.bound = 0.5});
  check_rejection("sequence_max_k3", "seq_max_k3", divergence_at_most<k3, largest_in_sequence>{.bound = 0.5});
  check_rejection("two", "", divergence_at_most<k3, token_level>{.bound = 0.1},
                  ratio_within<mean_over_sequence>(rollout_over_train{0.5, 1.1}));
}

TEST(rollout_correction, metrics_of_verl_and_trl) {
  golden_data d;
  const off_policy_report r = d.run(decoupled(no_weight{})).report.policy;
  const auto want = [&](const char* name) { return rlcore_test::golden_number(d.cases["verl_off_policy"][name]); };
  expect_near(r.k1(), want("kl"), "k1");
  expect_near(r.k3(), want("k3_kl"), "k3");
  expect_near(r.train_perplexity(), want("training_ppl"), "training_ppl", 1e-6);
  expect_near(r.rollout_perplexity(), want("rollout_ppl"), "rollout_ppl", 1e-6);
  expect_near(r.train_log_perplexity(), want("training_log_ppl"), "training_log_ppl");
  expect_near(r.rollout_log_perplexity(), want("rollout_log_ppl"), "rollout_log_ppl");
  expect_near(r.mean_log_ppl_ratio(), want("log_ppl_diff"), "log_ppl_diff");
  expect_near(r.mean_size_of_log_ppl_ratio(), want("log_ppl_abs_diff"), "log_ppl_abs_diff");
  expect_near(r.largest_log_ppl_ratio, want("log_ppl_diff_max"), "log_ppl_diff_max");
  expect_near(r.smallest_log_ppl_ratio, want("log_ppl_diff_min"), "log_ppl_diff_min");
  expect_near(r.perplexity_ratio(), want("ppl_ratio"), "ppl_ratio");
  expect_near(r.chi_square_token(), want("chi2_token"), "chi2_token");
  expect_near(r.chi_square_sequence(), want("chi2_seq"), "chi2_seq");
  expect_near(r.mean_difference(), d.cases["trl_difference"]["mean"].get<double>(), "mean difference", 1e-12);
  expect_near(r.largest_difference, d.cases["trl_difference"]["max"].get<double>(), "largest difference", 1e-12);
}

// verl compares its bounds with rollout over train although it documents train over rollout; here the type says which.
TEST(rollout_correction, the_direction_of_a_ratio_is_its_type) {
  std::vector<double> train{-1.0, -1.0}, rollout{-1.0 + std::log(2.5), -1.0 - std::log(2.5)}, kept(2);
  const token_batch<double> batch{.old_logp = matrix(train.data(), 2, 1), .rollout_logp = matrix(rollout.data(), 2, 1)};
  // train / rollout is 0.4 and 2.5
  correct(serial{}, decoupled(no_weight{}, ratio_within<mean_over_sequence>(train_over_rollout{0.5, 3})), batch,
          {.mask = matrix(kept.data(), 2, 1)});
  EXPECT_EQ(kept, (std::vector<double>{0, 1}));
  correct(serial{}, decoupled(no_weight{}, ratio_within<mean_over_sequence>(rollout_over_train{0.5, 3})), batch,
          {.mask = matrix(kept.data(), 2, 1)});
  EXPECT_EQ(kept, (std::vector<double>{1, 0}));
  // Plain numbers do not compile: tests/compile_fail/correction_ratio_without_direction.cpp.
  static_assert(!std::is_constructible_v<ratio_within<token_level>, std::pair<double, double>>);
}

// Padding must not be exponentiated, nor may what it holds appear anywhere: MakazhanAlpamys/Soup#342,
// NVIDIA-NeMo/RL#4120.
TEST(rollout_correction, masked_slots_are_never_read) {
  golden_data clean, poisoned;
  for (std::size_t k = 0; k < 72; ++k)
    if (poisoned.mask[k] == 0) {
      poisoned.old_logp[k] = std::numeric_limits<double>::quiet_NaN();
      poisoned.rollout_logp[k] = std::numeric_limits<double>::infinity();
    }
  const auto rule = decoupled(importance_weight{summed_over_sequence{}, truncated{2}},
                              ratio_within<mean_over_sequence>(rollout_over_train{0.6, 2}));
  const auto a = clean.run(rule), b = poisoned.run(rule);
  EXPECT_EQ(clean.weight, poisoned.weight);
  EXPECT_EQ(clean.kept, poisoned.kept);
  EXPECT_EQ(a.report.policy.k3(), b.report.policy.k3());
  EXPECT_EQ(a.report.weight.mean(), b.report.weight.mean());
}

namespace {

struct long_rows {
  std::vector<std::int64_t> offsets{0};
  std::vector<float> train, rollout, weight;
  std::vector<std::uint8_t> mask, kept;

  long_rows() {
    std::mt19937 random(5);
    std::normal_distribution<float> normal;
    std::uniform_int_distribution<int> length(0, 90);
    for (int i = 0; i < 23; ++i) {
      const int n = i == 4 ? 0 : length(random);
      for (int t = 0; t < n; ++t) {
        train.push_back(-std::abs(normal(random)));
        rollout.push_back(train.back() + 0.1f * static_cast<float>(i) * 0.2f * normal(random));
        mask.push_back(t % 7 != 3);
      }
      offsets.push_back(static_cast<std::int64_t>(train.size()));
    }
    weight.resize(train.size()), kept.resize(train.size());
  }
};

const auto both = decoupled(importance_weight{summed_over_sequence{}, truncated{2}},
                            ratio_within<mean_over_sequence>(rollout_over_train{0.9, 1.1}),
                            divergence_at_most<k3, token_level>{.bound = 0.3});

}  // namespace

TEST(rollout_correction, split_threads_and_layout_are_not_seen) {
  long_rows r;
  const token_batch<float> packed{.old_logp = r.train, .rollout_logp = r.rollout, .mask = r.mask, .offsets = r.offsets};
  const auto whole = correct(serial{}, both, packed, {.weight = r.weight, .mask = r.kept});
  ASSERT_GT(whole.report.rejected, 0);
  ASSERT_LT(whole.counts.tokens(), whole.report.policy.tokens);

  long_rows threaded;
  threads pool(3);
  correct(pool, both, packed, {.weight = threaded.weight, .mask = threaded.kept});
  EXPECT_EQ(threaded.weight, r.weight);
  EXPECT_EQ(threaded.kept, r.kept);

  // Padded to columns first, in parts of three rows, joined backwards.
  const std::ptrdiff_t height = 23, width = 90;
  std::vector<float> train(23 * 90, NAN), rollout(23 * 90, NAN), weight(23 * 90, NAN);
  std::vector<std::int64_t> lengths(23);
  std::vector<double> mask(23 * 90, 1), kept(23 * 90);
  const auto at = [&](std::ptrdiff_t i, std::ptrdiff_t t) { return static_cast<std::size_t>(t * height + i); };
  for (std::ptrdiff_t i = 0; i < height; ++i) {
    const auto first = r.offsets[static_cast<std::size_t>(i)];
    lengths[static_cast<std::size_t>(i)] = r.offsets[static_cast<std::size_t>(i) + 1] - first;
    for (std::ptrdiff_t t = 0; t < lengths[static_cast<std::size_t>(i)]; ++t) {
      const auto k = static_cast<std::size_t>(first + t);
      train[at(i, t)] = r.train[k], rollout[at(i, t)] = r.rollout[k], mask[at(i, t)] = r.mask[k];
    }
  }
  const auto part = [&](auto& x, std::ptrdiff_t first, std::ptrdiff_t count) {
    using element = typename std::remove_reference_t<decltype(x)>::value_type;
    return matrix_view<element>(x.data() + first, {count, width}, {1, height});
  };
  correction_report<2> joined;
  global_counts counts;
  for (std::ptrdiff_t first = 21; first >= 0; first -= 3) {
    const std::ptrdiff_t count = std::min<std::ptrdiff_t>(3, height - first);
    const auto some = std::span(lengths).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count));
    const auto c = correct(serial{}, both,
                           token_batch<float>{.old_logp = part(train, first, count),
                                              .rollout_logp = part(rollout, first, count),
                                              .mask = part(mask, first, count),
                                              .lengths = some},
                           {.weight = part(weight, first, count), .mask = part(kept, first, count)});
    joined += c.report;
    counts += c.counts;
  }
  for (std::ptrdiff_t i = 0; i < height; ++i)
    for (std::ptrdiff_t t = 0; t < width; ++t) {
      const bool exists = t < lengths[static_cast<std::size_t>(i)];
      const auto k = static_cast<std::size_t>(r.offsets[static_cast<std::size_t>(i)] + t);
      EXPECT_EQ(weight[at(i, t)], exists ? r.weight[k] : 0.0f);
      EXPECT_EQ(kept[at(i, t)], exists ? r.kept[k] : 0);
    }
  EXPECT_EQ(counts.tokens(), whole.counts.tokens());
  EXPECT_EQ(counts.sequences(), whole.counts.sequences());
  EXPECT_EQ(joined.rejected, whole.report.rejected);
  const auto same = [](double a, double b) {
    EXPECT_EQ(std::bit_cast<std::uint64_t>(a), std::bit_cast<std::uint64_t>(b));
  };
  same(joined.weight.normalizer(), whole.report.weight.normalizer());
  same(joined.weight.effective_sample_share(), whole.report.weight.effective_sample_share());
  same(joined.policy.chi_square_sequence(), whole.report.policy.chi_square_sequence());
  same(joined.policy.k3(), whole.report.policy.k3());
  same(joined.gate[1].mean(), whole.report.gate[1].mean());
}

// The mask may be edited where it is; the batch that comes back carries it together with its counts, so that a
// rejection cannot shrink the step the way verl's bypass mode does with counts taken before it.
TEST(rollout_correction, mask_and_denominator_come_from_one_object) {
  long_rows r;
  const token_batch<float> packed{.old_logp = r.train, .rollout_logp = r.rollout, .mask = r.mask, .offsets = r.offsets};
  correct(serial{}, both, packed, {.weight = r.weight, .mask = r.kept});
  long_rows in_place;
  const token_batch<float> own{
      .old_logp = in_place.train, .rollout_logp = in_place.rollout, .mask = in_place.mask, .offsets = in_place.offsets};
  const auto c = correct(serial{}, both, own, {.weight = in_place.weight, .mask = in_place.mask});
  EXPECT_EQ(in_place.mask, r.kept);
  EXPECT_EQ(c.batch.mask.data, reinterpret_cast<const std::byte*>(in_place.mask.data()));
  EXPECT_EQ(c.batch.weight.data, in_place.weight.data());
  EXPECT_EQ(c.counts.tokens(), std::count(r.kept.begin(), r.kept.end(), 1));
  for (std::size_t k = 0; k < r.kept.size(); ++k) EXPECT_TRUE(r.kept[k] || r.weight[k] == 0.0f);
}

TEST(rollout_correction, nothing_is_defined_away_and_empty_is_zero) {
  std::vector<double> train{-1, -2, -3, -4}, rollout{-1, NAN, -3.5, -4}, weight(4), kept(4);
  std::vector<int> mask{1, 1, 0, 0};
  const token_batch<double> batch{.old_logp = matrix(train.data(), 2, 2),
                                  .rollout_logp = matrix(rollout.data(), 2, 2),
                                  .mask = matrix(mask.data(), 2, 2)};
  const correction_outputs<double> out{.weight = matrix(weight.data(), 2, 2), .mask = matrix(kept.data(), 2, 2)};
  auto rule = decoupled(importance_weight{token_level{}, truncated{2}},
                        ratio_within<token_level>(train_over_rollout::around_one(2)));
  const auto shown =
      correct(serial{}, decoupled(importance_weight{token_level{}, zero_outside{}}), batch, {out.weight});
  EXPECT_TRUE(std::isnan(weight[1]));  // not taken for a weight outside of the bounds
  EXPECT_TRUE(std::isnan(shown.report.weight.mean()));
  EXPECT_EQ(correct(serial{}, rule, batch, out).counts.tokens(), 1);  // no gate lets NaN through
  rule.unscored_is_equal = true;
  const auto c = correct(serial{}, rule, batch, out);
  for (std::size_t k = 0; k < 4; ++k) EXPECT_EQ(weight[k], k < 2 ? 1.0 : 0.0);
  EXPECT_EQ(c.report.policy.unscored, 1);
  EXPECT_EQ(c.report.policy.tokens, 1);
  EXPECT_EQ(c.counts.sequences(), 1);
  EXPECT_EQ(c.counts.rows(), 2);

  mask.assign(4, 0);
  const auto none = correct(serial{}, rule, batch, out);
  EXPECT_EQ(none.counts.tokens(), 0);
  for (const double x :
       {none.report.weight.mean(), none.report.weight.effective_sample_share(), none.report.weight.normalizer(),
        none.report.policy.k1(), none.report.policy.chi_square_token(), none.report.policy.perplexity_ratio(),
        none.report.gate[0].mean()})
    EXPECT_EQ(x, 0.0);
}

TEST(rollout_correction, mistakes_are_named) {
  golden_data d;
  const auto message = [&](const auto& rule, const token_batch<double>& batch, const correction_outputs<double>& out) {
    try {
      correct(serial{}, rule, batch, out);
    } catch (const std::invalid_argument& e) {
      return std::string(e.what());
    }
    return std::string("nothing was thrown");
  };
  const auto weigh = importance_weight{token_level{}, truncated{2}};
  const auto gate = ratio_within<token_level>(train_over_rollout::around_one(2));
  const auto has = [](const std::string& text, const char* part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  const correction_outputs<double> weight{.weight = golden_data::shaped(d.weight)},
      kept{.mask = golden_data::shaped(d.kept)};
  has(message(decoupled(weigh), d.batch(false), {}), "set correction_outputs::weight");
  has(message(decoupled(no_weight{}, gate), d.batch(false), {}), "set correction_outputs::mask");
  has(message(decoupled(no_weight{}), d.batch(false), weight), "has no weight");
  has(message(decoupled(weigh), d.batch(true), weight), "set token_batch::old_logp");
  auto three = d.batch(true);
  three.old_logp = golden_data::shaped(d.old_logp);
  has(message(bypass(weigh), three, weight), "would correct twice");
  has(message(bypass(no_weight{}, gate), three, kept), "nothing was thrown");
  std::vector<double> other(24);
  has(message(decoupled(weigh), d.batch(false), {.weight = matrix(other.data(), 6, 4)}), "[6, 4], old_logp is [6, 12]");
  has(message(decoupled(importance_weight{token_level{}, clamped{3, 2}}), d.batch(false), weight), "must be positive");
  EXPECT_THROW(ratio_within<token_level>(train_over_rollout{1.5, 0.5}), std::invalid_argument);
}

}  // namespace RLCORE_TEST_ID
