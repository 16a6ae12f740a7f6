// Policy losses in the memory of a device, the emulated NPU, against the same losses on the host.
#include "rlcore/train/policy/algorithm/policy_algorithm.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "rlcore/core/random.hpp"
#include "rlcore/objective/advantage/group_relative.hpp"
#include "rlcore/objective/aggregation.hpp"
#include "rlcore/objective/algorithm/grpo.hpp"
#include "rlcore/train/policy/algorithm/any_algorithm.hpp"
#include "rlcore/train/policy/algorithm/named_algorithm.hpp"
#include "rlcore/train/policy/update.hpp"
#include "rlcore/train/run/devices.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using train::policy_loss_settings;
using floats = std::vector<float>;

std::unique_ptr<any_device> emulated_device(int cann_version = 80300) {
  device_settings s{.kind = device_kind::npu_emulator, .type = compute::float32};
  s.emulator.cann_version = cann_version;
  return open_device(s);
}

/// Rows of a step: two micro-batches of 4 and 3 rows, one of them without tokens.
struct step_rows {
  std::vector<std::vector<std::int32_t>> offsets{{0, 3, 4, 4, 41}, {0, 17, 19, 24}};
  std::vector<floats> logp, old_logp, ref_logp, entropy, selected, by_token,
      advantage{{1, -0.5f, 2, -1.5f}, {0.3f, -1, 0}};
  global_counts counts;

  step_rows() {
    for (std::uint32_t m = 0; m < offsets.size(); ++m) {
      const random_key key = random_key{8}.child(m);
      for (auto* f : {&logp, &old_logp, &ref_logp, &entropy, &selected, &by_token}) f->emplace_back();
      for (std::uint32_t i = 0; static_cast<std::int32_t>(i) < offsets[m].back(); ++i) {
        const auto u = [&](std::uint32_t what) { return static_cast<float>(key.below(10'000, i, what)) * 1e-4f; };
        logp[m].push_back(-3 * u(0) - 0.01f), old_logp[m].push_back(logp[m][i] + 1.6f * u(1) - 0.8f);
        ref_logp[m].push_back(logp[m][i] + u(2) - 0.5f), entropy[m].push_back(2 * u(3));
        selected[m].push_back(u(4) < 0.3f ? 1.f : 0.f), by_token[m].push_back(2 * u(5) - 1);
      }
      for (std::size_t r = 0; r + 1 < offsets[m].size(); ++r) counts.add_row(offsets[m][r + 1] - offsets[m][r]);
    }
  }
  policy_rows rows(std::size_t m, bool token_advantage, bool with_entropy) const {
    policy_rows b;
    b.offsets = offsets[m], b.logp = logp[m], b.old_logp = old_logp[m], b.ref_logp = ref_logp[m];
    b.advantage = advantage[m], b.selected = selected[m];
    if (token_advantage) b.token_advantage = by_token[m];
    if (with_entropy) b.entropy = entropy[m];
    return b;
  }
};

struct outcome {
  policy_report report;
  std::vector<floats> dlogp, dentropy;
};

template <class Loss>
outcome on_host(const Loss& loss, const step_rows& of, bool token_advantage, bool with_entropy) {
  outcome o;
  for (std::size_t m = 0; m < of.offsets.size(); ++m) {
    o.dlogp.emplace_back(of.logp[m].size(), 7.f);
    o.dentropy.emplace_back(with_entropy ? of.logp[m].size() : 0, 7.f);
    o.report += loss.loss(of.rows(m, token_advantage, with_entropy), of.counts, o.dlogp[m], o.dentropy[m]);
  }
  return o;
}

template <class Loss>
outcome on_device(any_device& device, const Loss& loss, const step_rows& of, bool token_advantage, bool with_entropy) {
  outcome o;
  const auto there = loss.on_device(device, of.counts, of.counts.rows());
  for (std::size_t m = 0; there && m < of.offsets.size(); ++m) {
    const policy_rows host = of.rows(m, token_advantage, with_entropy);
    const std::size_t n = host.logp.size();
    buffer<float, any_device> memory(device, 4 * n);
    floats all(host.logp.begin(), host.logp.end());
    all.insert(all.end(), of.entropy[m].begin(), of.entropy[m].end());
    all.resize(4 * n, 7.f);
    memory.upload(all);
    const train::rows_on_device<any_device> fields(device, host, loss.reads());
    policy_rows rows = fields.rows();
    rows.logp = {memory.data(), n};
    if (with_entropy) rows.entropy = {memory.data() + n, n};
    there->add(rows, {memory.data() + 2 * n, n}, {memory.data() + 3 * n, with_entropy ? n : 0});
    memory.download(all);
    o.dlogp.emplace_back(all.begin() + std::ptrdiff_t(2 * n), all.begin() + std::ptrdiff_t(3 * n));
    o.dentropy.emplace_back(all.begin() + std::ptrdiff_t(3 * n),
                            all.begin() + std::ptrdiff_t((with_entropy ? 4 : 3) * n));
  }
  if (there) o.report = there->report();
  return o;
}

/// Slopes within 2e-6 of the largest, sums within 2e-6 of the sum of absolute terms, which are of the order of 1.
void expect_same(const outcome& got, const outcome& wanted) {
  ASSERT_EQ(got.dlogp.size(), wanted.dlogp.size());
  for (const auto slopes : {&outcome::dlogp, &outcome::dentropy})
    for (std::size_t m = 0; m < (wanted.*slopes).size(); ++m) {
      const floats &g = (got.*slopes)[m], &w = (wanted.*slopes)[m];
      ASSERT_EQ(g.size(), w.size());
      float largest = 0;
      for (const float x : w) largest = std::max(largest, std::abs(x));
      for (std::size_t i = 0; i < w.size(); ++i) EXPECT_NEAR(g[i], w[i], 2e-6f * largest) << m << " " << i;
    }
  const policy_report &g = got.report, &w = wanted.report;
  EXPECT_EQ(g.tokens, w.tokens);
  EXPECT_EQ(g.sequences, w.sequences);
  EXPECT_EQ(g.rows, w.rows);
  EXPECT_EQ(g.kl_coefficient, w.kl_coefficient);
  EXPECT_EQ(g.entropy_coefficient, w.entropy_coefficient);
  const auto tokens = static_cast<double>(w.tokens);
  for (const auto sum : {&policy_report::policy, &policy_report::kl, &policy_report::entropy})
    EXPECT_NEAR((g.*sum).value(), (w.*sum).value(), 4e-6);
  for (const auto sum : {&policy_report::clipped, &policy_report::clipped_lower, &policy_report::ppo_kl,
                         &policy_report::kl_total, &policy_report::entropy_total})
    EXPECT_NEAR((g.*sum).value(), (w.*sum).value(), 2e-6 * tokens);
}

/// The words of loss_mode.
std::vector<std::string_view> words() {
  std::vector<std::string_view> all;
  std::string_view left = train::policy_loss_words::choices;
  for (std::size_t bar = left.find('|'); bar != left.npos; bar = left.find('|'))
    all.push_back(left.substr(0, bar)), left.remove_prefix(bar + 1);
  all.push_back(left);
  return all;
}

TEST(loss_on_device, of_every_word_is_the_hosts) {
  const step_rows rows;
  for (const int cann : {80100, 80300, 80500, 90100}) {
    const auto device = emulated_device(cann);
    for (const std::string_view word : words()) {
      SCOPED_TRACE(std::string(word) + ", CANN " + std::to_string(cann));
      policy_loss_settings s{.mode = std::string(word), .clip = {.clip_low = 0.2, .clip_high = 0.28}};
      s.dro_beta = 0.5;
      for (const bool token_advantage : {false, true}) {
        if (token_advantage && train::traits_of_policy_loss(word).by_response) continue;
        const auto loss = train::algorithm_of(s);
        expect_same(on_device(*device, loss, rows, token_advantage, false),
                    on_host(loss, rows, token_advantage, false));
      }
    }
  }
}

TEST(loss_on_device, with_penalties_is_the_hosts) {
  const step_rows rows;
  const auto device = emulated_device();
  const any_aggregation aggregations[] = {token_mean{}, sequence_mean_token_mean{}, fixed_length{64}};
  for (const char* word : {"vanilla", "gspo", "gpg"})
    for (const bool with_kl : {false, true})
      for (const double entropy_coeff : {0.0, 0.125})
        for (std::size_t a = 0; a < std::size(aggregations); ++a)
          for (const kl_kind kind : {kl_kind::k2, kl_kind::k3}) {
            SCOPED_TRACE(std::string(word) + (with_kl ? ", KL" : "") + (entropy_coeff > 0 ? ", entropy" : "") + ", " +
                         std::to_string(a));
            policy_loss_settings s{.mode = word, .aggregation = aggregations[a], .use_kl = with_kl, .kl = kind};
            s.kl_coef = 0.25, s.entropy_coeff = entropy_coeff, s.version = verl::version::v0_9_1;
            const auto loss = train::algorithm_of(s);
            expect_same(on_device(*device, loss, rows, false, entropy_coeff > 0),
                        on_host(loss, rows, false, entropy_coeff > 0));
          }
}

TEST(loss_on_device, of_an_algorithm_is_that_of_its_loss) {
  const step_rows rows;
  const auto device = emulated_device();
  const train::any_algorithm algorithm = train::any_algorithm{paper::dapo()};
  expect_same(on_device(*device, algorithm, rows, false, false), on_host(algorithm, rows, false, false));
}

/// A loss that somebody wrote by hand, for the host.
struct of_the_host_alone {
  field reads() const { return field::none; }
  void select(std::span<train::trajectory>, random_key) const {}
  policy_report loss(const policy_rows&, const global_counts&, std::span<float>, std::span<float>) const { return {}; }
};

TEST(loss_on_device, does_not_exist_for_a_loss_of_the_host) {
  const auto device = emulated_device();
  const of_the_host_alone loss;
  const train::any_algorithm algorithm(group_relative{}, loss);
  EXPECT_EQ(algorithm.on_device(*device, {}, 1), nullptr);
  EXPECT_EQ(train::penalised_loss(loss, {.kl_coef = 1, .entropy_coeff = 1}).on_device(*device, {}, 1), nullptr);
}

TEST(loss_on_device, says_what_is_missing) {
  const step_rows rows;
  const auto device = emulated_device();
  const auto there =
      train::algorithm_of(policy_loss_settings{.use_kl = true}).on_device(*device, rows.counts, rows.counts.rows());
  const policy_rows host = rows.rows(0, false, false);
  const train::rows_on_device<any_device> fields(*device, host, field::none);
  EXPECT_TRUE(fields.rows().ref_logp.empty()) << "nobody reads it";
  policy_rows here = fields.rows();
  here.logp = here.old_logp;
  floats unused(host.logp.size());
  try {
    there->add(here, unused, {});
    FAIL() << "KL without reference";
  } catch (const std::invalid_argument& e) {
    EXPECT_STREQ(e.what(), "rlcore: the objective reads ref_logp, but the batch has none; set token_batch::ref_logp");
  }
}

}  // namespace
}  // namespace RLCORE_TEST_ID
