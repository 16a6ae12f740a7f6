// The actor update on the emulated NPU: the loss where the log-probs are, against the loss on the host, and what
// crosses between the two.
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "data/scratch.hpp"
#include "rlcore/core/random.hpp"
#include "rlcore/objective/advantage/group_relative.hpp"
#include "rlcore/train/policy/algorithm/any_algorithm.hpp"
#include "rlcore/train/policy/algorithm/named_algorithm.hpp"
#include "rlcore/train/policy/critic.hpp"
#include "rlcore/train/policy/update.hpp"
#include "rlcore/train/run/devices.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using train::trajectory;

/// Of this process: tests run beside each other.
std::filesystem::path trace_file() {
  static const scratch::folder place;
  return place / "trace";
}

std::unique_ptr<any_device> device_for_updates(bool emulated, int cann_version = 80300) {
  device_settings s{.kind = emulated ? device_kind::npu_emulator : device_kind::cpu, .type = compute::float32};
  s.threads = 1, s.emulator.cann_version = cann_version;
  if (emulated) s.trace = trace_file();
  return open_device(s);
}

/// Copies between host and device since this was made.
class transfers {
 public:
  transfers() : from_(std::filesystem::file_size(trace_file())) {}

  struct sums {
    std::int64_t uploads = 0, upload_bytes = 0, downloads = 0, download_bytes = 0;
  };
  /// Reads aclrtMemcpyAsync(to, room, from, bytes, kind, stream).
  sums so_far() const {
    sums s;
    std::ifstream in(trace_file());
    in.seekg(static_cast<std::streamoff>(from_));
    for (std::string line; std::getline(in, line);) {
      const std::size_t call = line.find("aclrtMemcpyAsync(");
      if (call == line.npos) continue;
      std::size_t at = call;
      for (int comma = 0; comma < 3; ++comma) at = line.find(',', at) + 1;
      const std::int64_t bytes = std::atoll(line.c_str() + at);
      if (line.find(", 1, stream") != line.npos) ++s.uploads, s.upload_bytes += bytes;
      if (line.find(", 2, stream") != line.npos) ++s.downloads, s.download_bytes += bytes;
    }
    return s;
  }

 private:
  std::uintmax_t from_;
};

nn::config small_model() {
  nn::config c;
  c.vocab_size = 31, c.hidden_size = 32, c.intermediate_size = 48, c.num_hidden_layers = 2;
  c.num_attention_heads = 2, c.num_key_value_heads = 1, c.rope_theta = 10000, c.max_position_embeddings = 256;
  return c;
}

void fill_weights(train::trainable_model<any_device>& m, std::uint32_t seed = 5) {
  std::vector<float> weights(m.model.size());
  for (const nn::parameter& p : m.model.parameters())
    for (std::size_t i = 0; i < p.size; ++i)
      weights[p.offset + i] =
          (p.name.find("norm") != p.name.npos ? 1.f : 0.f) +
          0.25f * static_cast<float>(random_key{seed}.normal(static_cast<std::uint32_t>(p.offset + i)));
  m.model.weights().upload(weights);
}

struct updated_model {
  explicit updated_model(any_device& device) : actor(device, small_model(), settings()) { fill_weights(actor); }
  static train::policy_settings settings() {
    train::policy_settings s;
    s.logits_bytes = 1 << 20;
    return s;
  }
  std::vector<float> gradient() {
    std::vector<float> g(actor.gradient().size());
    actor.model.device().download(g.data(), actor.gradient().data(), g.size() * sizeof(float));
    return g;
  }
  train::actor<any_device> actor;
};

/// `rows` responses of different lengths, one of them empty.
std::vector<trajectory> responses(std::size_t rows, std::uint32_t longest = 40) {
  std::vector<trajectory> all(rows);
  for (std::uint32_t i = 0; i < rows; ++i) {
    const random_key key = random_key{9}.child(i);
    trajectory& t = all[i];
    t.prompt_length = 3 + static_cast<std::int32_t>(i % 3);
    const std::uint32_t length = i == 2 ? 0 : 1 + key.below(longest, 0, 0);
    for (std::uint32_t k = 0; k < static_cast<std::uint32_t>(t.prompt_length) + length; ++k)
      t.tokens.push_back(static_cast<std::int32_t>(key.below(31, k, 1)));
    for (std::uint32_t k = 0; k < length; ++k) {
      t.old_logp.push_back(-3.4f + 0.4f * static_cast<float>(key.normal(k, 2)));
      t.ref_logp.push_back(t.old_logp[k] + 0.3f * static_cast<float>(key.normal(k, 3)));
      t.selected.push_back(k % 5 == 0 ? 1.f : 0.f);
    }
    t.advantage = static_cast<float>(key.normal(0, 4));
  }
  return all;
}

/// The same algorithm, of which nobody knows that it runs on a device.
struct kept_on_host {
  train::any_algorithm held;
  field reads() const { return held.reads(); }
  void advantages(std::span<trajectory> batch, std::int64_t samples, random_key key) const {
    held.advantages(batch, samples, key);
  }
  policy_report loss(const policy_rows& rows, const global_counts& step, std::span<float> dlogp,
                     std::span<float> dentropy) const {
    return held.loss(rows, step, dlogp, dentropy);
  }
};

std::vector<const trajectory*> pointers_to(const std::vector<trajectory>& batch) {
  std::vector<const trajectory*> order;
  for (const trajectory& t : batch) order.push_back(&t);
  return order;
}

train::update_plan plan_of(std::int64_t micro_rows) {
  train::update_plan plan;
  plan.micro_trajectories = micro_rows, plan.temperature = 0.9f;
  return plan;
}

struct update_result {
  policy_report report;
  std::vector<float> gradient;
};

update_result gradient_of(any_device& device, const train::any_algorithm& algorithm,
                          const std::vector<trajectory>& batch, std::int64_t micro_rows) {
  updated_model m(device);
  m.actor.begin_update();
  update_result r{train::accumulate_gradient(m.actor, algorithm, pointers_to(batch), plan_of(micro_rows)), {}};
  r.gradient = m.gradient();
  return r;
}

double norm(const std::vector<float>& x) {
  double sum = 0;
  for (const float v : x) sum += static_cast<double>(v) * static_cast<double>(v);
  return std::sqrt(sum);
}

void expect_near_gradient(const update_result& got, const update_result& wanted, double relative) {
  ASSERT_EQ(got.gradient.size(), wanted.gradient.size());
  std::vector<float> difference = got.gradient;
  for (std::size_t i = 0; i < difference.size(); ++i) difference[i] -= wanted.gradient[i];
  EXPECT_LT(norm(difference), relative * norm(wanted.gradient));
  EXPECT_GT(norm(wanted.gradient), 0);
  EXPECT_EQ(got.report.tokens, wanted.report.tokens);
  EXPECT_EQ(got.report.rows, wanted.report.rows);
  EXPECT_NEAR(got.report.policy_loss(), wanted.report.policy_loss(), relative);
  EXPECT_NEAR(got.report.kl_loss(), wanted.report.kl_loss(), relative);
  EXPECT_NEAR(got.report.entropy_value(), wanted.report.entropy_value(), relative);
  EXPECT_NEAR(got.report.ppo_kl_mean(), wanted.report.ppo_kl_mean(), relative);
  EXPECT_NEAR(got.report.clip_fraction(), wanted.report.clip_fraction(), relative);
}

train::any_algorithm algorithm_with(const train::policy_loss_settings& s) { return train::algorithm_of(s); }

TEST(update_on_device, is_the_update_with_the_loss_on_the_host) {
  const auto batch = responses(11);
  for (const int cann : {80100, 80300, 80500, 90100}) {
    const auto device = device_for_updates(true, cann);
    const auto host = device_for_updates(false);
    for (const char* word : {"vanilla", "gspo", "kl_cov"})
      for (const bool penalised : {false, true}) {
        SCOPED_TRACE(std::string(word) + (penalised ? ", penalised" : "") + ", CANN " + std::to_string(cann));
        train::policy_loss_settings s{.mode = word};
        s.use_kl = penalised, s.kl_coef = 0.1, s.entropy_coeff = penalised ? 0.01 : 0;
        const auto algorithm = algorithm_with(s);
        const auto got = gradient_of(*device, algorithm, batch, 4);
        expect_near_gradient(got, gradient_of(*device, kept_on_host{algorithm}, batch, 4), 2e-6);
        expect_near_gradient(got, gradient_of(*host, algorithm, batch, 4), 2e-5);
      }
  }
}

/// The log-probs of the reference that stay on the device are those that come to the host, whatever rows a micro-batch
/// takes, also for a loss on the host.
TEST(update_on_device, reads_the_reference_where_it_was_scored) {
  const auto device = device_for_updates(true);
  updated_model reference(*device), m(*device);
  fill_weights(reference.actor, 6);
  auto kept = responses(11), fetched = kept;
  train::score_trajectories(reference.actor.model, m.actor.space, std::span(fetched), 0.9f, 4, 0,
                            &trajectory::ref_logp);
  const transfers of_scoring;
  train::keep_reference(m.actor, reference.actor.model, std::span(kept), 0.9f, 4, 0);
  device->wait();
  EXPECT_EQ(of_scoring.so_far().downloads, 0);
  for (const trajectory& t : kept) EXPECT_TRUE(t.ref_logp.empty());

  const auto algorithm = algorithm_with({.use_kl = true, .kl_coef = 0.1});
  ASSERT_TRUE(algorithm.reference_stays());
  EXPECT_FALSE(train::any_algorithm(kept_on_host{algorithm}).reference_stays()) << "it does not say so";
  const auto uploads_of = [&](const train::any_algorithm& a, const std::vector<const trajectory*>& order,
                              std::vector<float>& gradient) {
    m.actor.begin_update();
    device->wait();
    const transfers all;
    train::accumulate_gradient(m.actor, a, order, plan_of(4));
    device->wait();
    gradient = m.gradient();
    return all.so_far().upload_bytes;
  };
  std::int64_t tokens = 0;
  for (const trajectory& t : kept) tokens += t.response_length();
  for (const std::size_t stride :
       {std::size_t{1}, std::size_t{7}}) {  // micro-batches of consecutive rows, and of rows from everywhere
    std::vector<const trajectory*> here, there;
    for (std::size_t i = 0; i < kept.size(); ++i) {
      const std::size_t row = i * stride % kept.size();
      here.push_back(&kept[row]), there.push_back(&fetched[row]);
    }
    std::vector<float> got, wanted;
    uploads_of(algorithm, there, wanted);  // takes what only a first pass uploads
    const std::int64_t over_the_host = uploads_of(algorithm, there, wanted), stays = uploads_of(algorithm, here, got);
    EXPECT_GT(norm(wanted), 0);
    EXPECT_EQ(got, wanted) << stride;
    EXPECT_EQ(over_the_host - stays, 4 * tokens) << stride;
    uploads_of(kept_on_host{algorithm}, there, wanted), uploads_of(kept_on_host{algorithm}, here, got);
    EXPECT_EQ(got, wanted) << stride;
  }
}

/// What crosses in the gradient of one update, without what only its first pass uploads.
transfers::sums crossing(any_device& device, const train::any_algorithm& algorithm,
                         const std::vector<trajectory>& batch, std::int64_t micro_rows) {
  updated_model m(device);
  m.actor.begin_update();
  train::accumulate_gradient(m.actor, algorithm, pointers_to(batch), plan_of(micro_rows));
  m.actor.begin_update();
  device.wait();
  const transfers all;
  train::accumulate_gradient(m.actor, algorithm, pointers_to(batch), plan_of(micro_rows));
  device.wait();
  return all.so_far();
}

/// "| `vanilla`, KL | 8 (...) | 16 (...) | 8 (...) | 1 (...) |"
std::string row_of(const std::string& name, const transfers::sums& host, const transfers::sums& here) {
  std::string row = "| " + name + " |";
  for (const auto& [count, bytes] : {std::pair{host.uploads, host.upload_bytes},
                                     {host.downloads, host.download_bytes},
                                     {here.uploads, here.upload_bytes},
                                     {here.downloads, here.download_bytes}})
    row += " " + std::to_string(count) + " (" + std::to_string(bytes) + ") |";
  return row;
}

/// Every slope is another number than 0 here: the host's backward would leave out the others.
TEST(update_on_device, log_probs_and_slopes_do_not_cross) {
  const auto device = device_for_updates(true);
  const auto batch = responses(64, 200);
  std::int64_t tokens = 0;
  for (const trajectory& t : batch) tokens += t.response_length();
  std::ifstream in(std::string(RLCORE_SOURCE_DIR) + "/docs/devices.md");
  const std::string page{std::istreambuf_iterator<char>(in), {}};
  const auto check = [&](const std::string& name, const train::policy_loss_settings& s, std::int64_t reports,
                         std::int64_t sums) {
    SCOPED_TRACE(name);
    constexpr std::int64_t micro_batches = 8, rows = 64, number = 4;
    const auto algorithm = algorithm_with(s);
    const auto host = crossing(*device, kept_on_host{algorithm}, batch, rows / micro_batches),
               here = crossing(*device, algorithm, batch, rows / micro_batches);
    EXPECT_EQ(host.downloads - here.downloads, 2 * micro_batches - reports) << "log-probs, entropies; reports";
    EXPECT_EQ(host.download_bytes - here.download_bytes, 2 * number * tokens - number * rows * sums);
    const std::string row = row_of(name, host, here);
    EXPECT_TRUE(page.find(row + "\n") != page.npos) << row;
  };
  check("`vanilla`, KL, entropy", {.use_kl = true, .entropy_coeff = 0.01}, 1, 7);
  check("`gspo`, KL, entropy", {.mode = "gspo", .use_kl = true, .entropy_coeff = 0.01}, 2, 7);
  check("`gpg`", {.mode = "gpg"}, 1, 3);
}

/// Groups without an advantage cost their forward alone, if nothing but the advantage makes slopes.
TEST(update_on_device, leaves_tokens_without_advantage_out_of_the_backward) {
  const auto device = device_for_updates(true);
  auto some = responses(12), by_token = some, none = some;
  for (std::size_t i = 0; i < some.size(); ++i) {
    if (i % 3 != 0) some[i].advantage = 0;
    none[i].advantage = 0;
    for (std::size_t k = 0; k < by_token[i].old_logp.size(); ++k)
      by_token[i].token_advantage.push_back(k % 2 == 0 ? 0.f : by_token[i].advantage);
  }
  const auto alone = algorithm_with({.mode = "gpg"});
  const auto compared = [&](const std::vector<trajectory>& batch) {
    expect_near_gradient(gradient_of(*device, alone, batch, 4), gradient_of(*device, kept_on_host{alone}, batch, 4),
                         2e-6);
    const auto host = crossing(*device, kept_on_host{alone}, batch, 4), here = crossing(*device, alone, batch, 4);
    return host.download_bytes - here.download_bytes;
  };
  std::int64_t tokens = 0;
  for (const trajectory& t : some) tokens += t.response_length();
  const std::int64_t saved = 2 * 4 * tokens - 4 * 12 * 3;  // the backward looks at the same rows
  EXPECT_EQ(compared(some), saved);
  EXPECT_EQ(compared(by_token), saved);
  const auto with_kl = algorithm_with({.use_kl = true, .kl_coef = 0.1});
  EXPECT_EQ(crossing(*device, alone, none, 4).downloads, 1) << "the report";
  EXPECT_LT(crossing(*device, alone, none, 4).uploads, crossing(*device, alone, some, 4).uploads) << "no backward";
  EXPECT_EQ(norm(gradient_of(*device, alone, none, 4).gradient), 0);
  EXPECT_GT(norm(gradient_of(*device, with_kl, none, 4).gradient), 0) << "a KL has slopes";
}

TEST(update_on_device, of_a_critic_is_the_hosts) {
  auto batch = responses(13);
  for (trajectory& t : batch)
    for (std::size_t k = 0; k < t.old_logp.size(); ++k) {
      const auto at = static_cast<std::uint32_t>(&t - batch.data());
      t.value.push_back(0.5f * static_cast<float>(random_key{3}.normal(at, static_cast<std::uint32_t>(k))));
      t.token_return.push_back(t.value[k] +
                               static_cast<float>(random_key{4}.normal(at, static_cast<std::uint32_t>(k))));
    }
  train::critic_settings s;
  s.mini_trajectories = 7, s.micro_trajectories = 3, s.cliprange_value = 0.2;
  train::metrics there, here;
  for (const bool emulated : {true, false}) {
    const auto device = device_for_updates(emulated);
    train::critic<any_device> critic(*device, small_model(), s, 1 << 20, 1);
    fill_weights(critic);
    const double rates[] = {1e-3};
    critic.update(batch, rates, random_key{1}, emulated ? there : here);
  }
  for (const char* name : {"critic/vf_loss", "critic/vf_clipfrac", "critic/vpred_mean", "critic/grad_norm"})
    EXPECT_NEAR(there.get(name), here.get(name), 2e-5 * (1 + std::abs(here.get(name)))) << name;
  EXPECT_GT(here.get("critic/vf_clipfrac"), 0);
  EXPECT_NE(here.get("critic/vpred_mean"), 0);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
