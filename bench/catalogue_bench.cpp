// Every named algorithm's loop beside its hand-written twin, in one run, on responses [512, 1024].
//
//   build/bin/catalogue_bench [--json FILE] [--rows N] [--tokens N] [--only NAME]
//
// Repetitions alternate between the two, the best of each counts (other programs can only slow one down). The last
// columns are the bytes that have to be moved once, per second, and that as a share of what one thread reads from
// arrays of the same size in the same run. FILE is read by bench/peers/catalogue_torch.py.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "raw/twins.hpp"
#include "rlcore/device/cpu.hpp"
#include "rlcore/exec/threads.hpp"
#include "rlcore/objective/advantage/gae.hpp"
#include "rlcore/objective/advantage/whitening.hpp"
#include "rlcore/objective/algorithms.hpp"
#include "rlcore/objective/loop/evaluate.hpp"
#include "rlcore/tensor/span.hpp"

namespace {

using floats = std::vector<float>;
volatile double sink = 0;

/// A step as it comes out of a rollout: nearly on-policy, responses that end at different places.
struct step {
  std::size_t rows, tokens;
  floats logp, old_logp, ref_logp, mask, value, old_value, target, reward, advantage, desirable;
  floats gradient, twin, returns, twin_returns;
  rlcore::global_counts counts;

  step(std::size_t rows_, std::size_t tokens_) : rows(rows_), tokens(tokens_), advantage(rows), desirable(rows) {
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    for (floats* x : {&logp, &old_logp, &ref_logp, &mask, &value, &old_value, &target, &reward, &gradient, &twin,
                      &returns, &twin_returns})
      x->resize(rows * tokens);
    for (std::size_t k = 0; k < logp.size(); ++k) {
      logp[k] = -std::abs(normal(random));
      const auto close = [&] { return std::min(logp[k] + 0.2f * normal(random), -1e-3f); };  // log-probs are below 0
      old_logp[k] = close(), ref_logp[k] = close();
      value[k] = normal(random), old_value[k] = value[k] + 0.4f * normal(random), target[k] = normal(random);
      reward[k] = 0.1f * normal(random);
    }
    for (std::size_t i = 0; i < rows; ++i) {
      advantage[i] = normal(random), desirable[i] = i % 3 ? 1.0f : 0.0f;
      std::fill_n(mask.begin() + static_cast<std::ptrdiff_t>(i * tokens), live(i), 1.0f);
      counts.add_row(live(i));
    }
  }

  std::int64_t live(std::size_t i) const { return static_cast<std::int64_t>(tokens - (i * 37) % (tokens / 2)); }

  rlcore::matrix_view<float> matrix(floats& x) const {
    return {x.data(), {static_cast<rlcore::extent_t>(rows), static_cast<rlcore::extent_t>(tokens)}};
  }
  rlcore::token_batch<float> batch() {
    return {.logp = matrix(logp),
            .old_logp = matrix(old_logp),
            .ref_logp = matrix(ref_logp),
            .advantage = advantage,
            .value = matrix(value),
            .old_value = matrix(old_value),
            .target = matrix(target),
            .mask = matrix(mask)};
  }
  raw::batch twin_batch() const {
    return {rows,
            tokens,
            logp.data(),
            old_logp.data(),
            ref_logp.data(),
            advantage.data(),
            mask.data(),
            value.data(),
            old_value.data(),
            target.data(),
            static_cast<double>(counts.tokens()),
            static_cast<double>(counts.sequences())};
  }
};

/// A thread pool or none, as one type, so that each loop is compiled once.
struct executor {
  const rlcore::threads* pool = nullptr;
  template <class F>
  void for_each(std::size_t count, F&& f) const {
    if (pool) return pool->for_each(count, f);
    for (std::size_t i = 0; i < count; ++i) f(i);
  }
  std::size_t concurrency() const noexcept { return pool ? pool->concurrency() : 1; }
};

template <class F>
double seconds(F&& f, int calls) {
  const auto start = std::chrono::steady_clock::now();
  for (int k = 0; k < calls; ++k) f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / calls;
}

class table {
 public:
  table(int argc, char** argv) {
    for (int k = 1; k < argc; ++k) {
      const std::string_view word = argv[k];
      const bool known = word == "--json" || word == "--rows" || word == "--tokens" || word == "--only";
      if (!known || k + 1 == argc) {
        std::fprintf(stderr, "usage: catalogue_bench [--json FILE] [--rows N] [--tokens N] [--only NAME]\n");
        std::exit(2);
      }
      (word == "--json" ? json_ : word == "--rows" ? rows_ : word == "--tokens" ? tokens_ : only_) = argv[++k];
    }
  }
  std::size_t rows() const { return std::strtoul(rows_.c_str(), nullptr, 10); }
  std::size_t tokens() const { return std::strtoul(tokens_.c_str(), nullptr, 10); }
  bool wants(std::string_view name) const { return only_.empty() || name.find(only_) != name.npos; }

  void head(double memory) {
    memory_ = memory;
    std::printf("[%s, %s], one thread; memory reads at %.1f GB/s\n", rows_.c_str(), tokens_.c_str(), memory);
    std::printf("%-22s %10s %10s %12s %7s %8s %9s\n", "", "us", "pool us", "by hand us", "ratio", "GB/s", "of read");
  }

  /// One line: ours(executor) and twin() do the same and return the loss; `arrays` [rows, tokens] are read or written.
  template <class Ours, class Twin>
  void line(const char* name, double bytes, const Ours& ours, const Twin& twin,
            const std::vector<std::pair<const floats*, const floats*>>& results = {}) {
    if (!wants(name)) return;
    check(name, ours(executor{}), twin());
    for (const auto& [a, b] : results) compare(name, *a, *b);
    const double once = seconds([&] { sink = twin(); }, 1);
    const int calls = std::max(1, static_cast<int>(1e-3 / once)), repetitions = once > 2e-2 ? 7 : once > 2e-3 ? 21 : 51;
    area_.assign(static_cast<std::size_t>(bytes / sizeof(float)), 1.0f);
    double best[4] = {1e9, 1e9, 1e9, 1e9};
    for (int k = 0; k < repetitions; ++k) {
      const double times[4] = {seconds([&] { sink = ours(executor{}); }, calls), seconds([&] { sink = twin(); }, calls),
                               seconds([&] { sink = ours(executor{&pool_}); }, calls),
                               seconds([&] { sink = raw::read(area_.data(), area_.size()); }, calls)};
      for (std::size_t t = 0; t < 4; ++t) best[t] = std::min(best[t], times[t]);
    }
    const double ratio = best[0] / best[1];
    worst_ = std::max(worst_, ratio);
    std::printf("%-22s %10.1f %10.1f %12.1f %7.3f %8.1f %8.0f%%%s\n", name, best[0] * 1e6, best[2] * 1e6, best[1] * 1e6,
                ratio, bytes / best[0] / 1e9, 100 * best[3] / best[0], ratio > 1.05 ? "  slower" : "");
    std::fflush(stdout);
    char text[256];
    std::snprintf(text, sizeof(text),
                  "%s\n{\"name\":\"%s\",\"ours_s\":%.4e,\"pool_s\":%.4e,\"raw_s\":%.4e,\"of_read\":%.3f}",
                  lines_.empty() ? "" : ",", name, best[0], best[2], best[1], best[3] / best[0]);
    lines_ += text;
  }

  int end() {
    std::printf("worst ratio to a hand-written loop: %.3f\n", worst_);
    if (!json_.empty()) {
      std::FILE* f = std::fopen(json_.c_str(), "w");
      if (!f) return std::fprintf(stderr, "cannot write %s\n", json_.c_str()), 1;
      std::fprintf(f, "{\"rows\":%s,\"tokens\":%s,\"read_gb_s\":%.2f,\"runs\":[%s]}\n", rows_.c_str(), tokens_.c_str(),
                   memory_, lines_.c_str());
      std::fclose(f);
    }
    return 0;
  }

 private:
  static void check(const char* name, double ours, double twin) {
    if (std::abs(ours - twin) <= 2e-6 * (1 + std::abs(ours))) return;
    std::fprintf(stderr, "%s: the loops disagree: %.9g and %.9g\n", name, ours, twin);
    std::exit(1);
  }
  static void compare(const char* name, const floats& a, const floats& b) {
    double largest = 0;
    for (const float x : b) largest = std::max(largest, std::abs(static_cast<double>(x)));
    for (std::size_t k = 0; k < a.size(); ++k)
      if (!(std::abs(static_cast<double>(a[k] - b[k])) <= 1e-5 * largest)) {
        std::fprintf(stderr, "%s: slot %zu: %g and %g\n", name, k, static_cast<double>(a[k]),
                     static_cast<double>(b[k]));
        std::exit(1);
      }
  }

  std::string json_, rows_ = "512", tokens_ = "1024", only_, lines_;
  floats area_;
  rlcore::threads pool_;
  double worst_ = 0, memory_ = 0;
};

double memory_bandwidth() {
  const floats x(std::size_t{1} << 27, 1.0f);  // 512 MB
  double best = 1e9;
  for (int k = 0; k < 5; ++k) best = std::min(best, seconds([&] { sink = raw::read(x.data(), x.size()); }, 1));
  return 4.0 * static_cast<double>(x.size()) / best / 1e9;
}

double array_bytes(const step& s) { return 4.0 * static_cast<double>(s.logp.size()); }

/// One line per named algorithm: `arrays` [rows, tokens] are moved, twin(batch, gradient) is the loop by hand.
struct loss_lines {
  table& t;
  step& s;

  template <class Algorithm, class Twin, class... Counts>
  void operator()(const char* name, double arrays, const Algorithm& algorithm, const Twin& twin,
                  const Counts&... further_counts) const {
    run(name, arrays, algorithm, s.batch(), {.logp = s.matrix(s.gradient)}, twin, further_counts...);
  }
  template <class Algorithm, class Twin, class... Counts>
  void run(const char* name, double arrays, const Algorithm& algorithm, const rlcore::token_batch<float>& batch,
           const rlcore::token_gradients<float>& gradients, const Twin& twin, const Counts&... further_counts) const {
    if (!t.wants(name)) return;
    const raw::batch b = s.twin_batch();
    t.line(
        name, arrays * array_bytes(s),
        [&](const executor& exec) {
          return evaluate(exec, algorithm, batch, s.counts, further_counts..., gradients).loss();
        },
        [&] { return twin(b, s.twin.data()).sum[0]; }, {{&s.gradient, &s.twin}});
  }
};

void policy_lines(table& t, step& s) {
  using raw::batch;
  const loss_lines line{t, s};
  line("ppo", 4, rlcore::paper::ppo(), [](const batch& b, float* g) { return raw::clipped(b, 0.2f, 0.2f, 0, g); });
  line("ppo_dual_clip", 4, rlcore::verl::ppo(),
       [](const batch& b, float* g) { return raw::dual_clipped(b, 0.2f, 0.2f, 3, 20, g); });
  line("grpo", 5, rlcore::paper::grpo(), [](const batch& b, float* g) { return raw::grpo(b, 0.2f, 0.2f, 0.04f, g); });
  line("dapo", 4, rlcore::paper::dapo(), [](const batch& b, float* g) { return raw::clipped(b, 0.2f, 0.28f, 0, g); });
  line("dr_grpo", 4, rlcore::paper::dr_grpo(),
       [](const batch& b, float* g) { return raw::clipped(b, 0.2f, 0.2f, 3000, g); });
  line("gspo", 4, rlcore::paper::gspo(), [](const batch& b, float* g) { return raw::gspo(b, 3e-4f, 4e-4f, g); });
  line("gmpo", 4, rlcore::paper::gmpo(), [](const batch& b, float* g) { return raw::gmpo(b, 0.4f, 0.4f, g); });
  line("cispo", 4, rlcore::paper::cispo(), [](const batch& b, float* g) { return raw::cispo(b, 5, g); });
  line("sapo", 4, rlcore::paper::sapo(), [](const batch& b, float* g) { return raw::sapo(b, 1, 1.05f, g); });
  line("gpg", 3, rlcore::paper::gpg(), [](const batch& b, float* g) { return raw::policy_gradient(b, false, g); });
  line("rloo", 3, rlcore::paper::rloo(), [](const batch& b, float* g) { return raw::policy_gradient(b, true, g); });
  line("dppo_tv", 4, rlcore::paper::dppo_tv(),
       [](const batch& b, float* g) { return raw::dppo_tv(b, 0.15f, 0.15f, 20, g); });
  line("dppo_kl", 4, rlcore::paper::dppo_kl(),
       [](const batch& b, float* g) { return raw::dppo_kl(b, 0.05f, 0.05f, 20, g); });
  line("dro", 4, rlcore::paper::dro(), [](const batch& b, float* g) { return raw::dro(b, 1, g); });
  line.run("ppo_critic", 5, rlcore::paper::ppo_critic(), s.batch(), {.value = s.matrix(s.gradient)},
           [](const batch& b, float* g) { return raw::value_loss(b, 0.2f, g); });
}

void preference_lines(table& t, step& s) {
  using raw::batch;
  const loss_lines line{t, s};
  line("dpo", 4, rlcore::paper::dpo(), [](const batch& b, float* g) { return raw::dpo(b, 0.1, g); });
  rlcore::token_batch<float> labelled = s.batch();
  labelled.target = s.desirable;
  line.run("kto", 4, rlcore::paper::kto({.kl = rlcore::kto_baseline(0.1)}), labelled, {.logp = s.matrix(s.gradient)},
           [&](const batch& b, float* g) { return raw::kto(b, 0.1, 0.1, s.desirable.data(), g); });
  line("simpo", 3, rlcore::paper::simpo(), [](const batch& b, float* g) { return raw::simpo(b, 2, 1, g); });
  rlcore::global_counts chosen;
  for (std::size_t i = 0; i < s.rows; i += 2) chosen.add_row(s.live(i));
  const double tokens = static_cast<double>(chosen.tokens());
  line(
      "orpo", 3, rlcore::paper::orpo(), [&](const batch& b, float* g) { return raw::orpo(b, 0.1, tokens, g); }, chosen);
}

void advantage_lines(table& t, step& s) {
  const rlcore::gae gae{.gamma = 0.99, .lambda = 0.95};
  const auto rewards = s.matrix(s.reward), values = s.matrix(s.value), mask = s.matrix(s.mask),
             advantages = s.matrix(s.gradient), returns = s.matrix(s.returns);
  const raw::batch b = s.twin_batch();
  t.line(
      "gae", 5 * array_bytes(s),
      [&](const executor& exec) { return gae(exec, rewards, values, mask, advantages, returns), 0.0; },
      [&] { return raw::gae(b, s.reward.data(), 0.99f, 0.95f, s.twin.data(), s.twin_returns.data()), 0.0; },
      {{&s.gradient, &s.twin}, {&s.returns, &s.twin_returns}});
  t.line(
      "whitening", 3 * array_bytes(s),
      [&](const executor& exec) { return rlcore::whitening{}(exec, rewards, mask, advantages), 0.0; },
      [&] { return raw::whiten(b, s.reward.data(), s.twin.data()), 0.0; }, {{&s.gradient, &s.twin}});
}

void log_prob_lines(table& t) {
  const rlcore::extent_t rows = 128, vocabulary = 151936;
  const std::size_t n = static_cast<std::size_t>(rows), v = static_cast<std::size_t>(vocabulary);
  floats logits(n * v), work, twin_work, logp(n), entropy(n), statistics(2 * n), dlogp(n, 0.01f), dentropy(n, -1e-4f);
  std::mt19937 random(2);
  std::uniform_real_distribution<float> uniform(-6, 6);
  for (float& z : logits) z = uniform(random);
  work = twin_work = logits;
  std::vector<std::int32_t> target(n);
  for (std::size_t i = 0; i < n; ++i) target[i] = static_cast<std::int32_t>((i * 997) % v);
  rlcore::cpu one(1), all;
  const auto forward = [&](rlcore::cpu& device, const floats& z) {
    device.run(rlcore::op::log_prob_forward{.logits = z.data(),
                                            .rows = rows,
                                            .vocabulary = vocabulary,
                                            .targets = target.data(),
                                            .temperature = 1,
                                            .logp = logp.data(),
                                            .entropy = entropy.data(),
                                            .statistics = statistics.data()});
    double sum = 0;
    for (std::size_t i = 0; i < n; ++i) sum += static_cast<double>(logp[i] + entropy[i]);
    return sum;
  };
  const auto twin_forward = [&](const floats& z) {
    double sum = 0;
    for (std::size_t i = 0; i < n; ++i) {
      raw::log_prob(z.data() + i * v, v, static_cast<std::size_t>(target[i]), &logp[i], &entropy[i],
                    &statistics[2 * i]);
      sum += static_cast<double>(logp[i] + entropy[i]);
    }
    return sum;
  };
  const double bytes = 4.0 * static_cast<double>(logits.size());
  t.line(
      "log_prob+entropy", bytes, [&](const executor& e) { return forward(e.pool ? all : one, logits); },
      [&] { return twin_forward(logits); });
  // The gradient takes the place of the logits, so every repetition works on the last one's gradient: the same work.
  t.line(
      "log_prob+gradient", 3 * bytes,
      [&](const executor& e) {
        rlcore::cpu& device = e.pool ? all : one;
        const double sum = forward(device, work);
        device.run(rlcore::op::log_prob_backward{.logits = work.data(),
                                                 .rows = rows,
                                                 .width = vocabulary,
                                                 .first = 0,
                                                 .targets = target.data(),
                                                 .temperature = 1,
                                                 .dlogp = dlogp.data(),
                                                 .dentropy = dentropy.data(),
                                                 .entropy = entropy.data(),
                                                 .statistics = statistics.data()});
        return sum;
      },
      [&] {
        const double sum = twin_forward(twin_work);
        for (std::size_t i = 0; i < n; ++i)
          raw::log_prob_backward(twin_work.data() + i * v, v, static_cast<std::size_t>(target[i]), dlogp[i],
                                 dentropy[i], entropy[i], &statistics[2 * i]);
        return sum;
      },
      {{&work, &twin_work}});
}

}  // namespace

int main(int argc, char** argv) {
  table t(argc, argv);
  step s(t.rows(), t.tokens());
  t.head(memory_bandwidth());
  policy_lines(t, s);
  preference_lines(t, s);
  advantage_lines(t, s);
  if (t.wants("log_prob")) log_prob_lines(t);
  return t.end();
}
