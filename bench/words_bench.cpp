// Policy losses as trainers call them, chosen by a word of loss_mode at run time, beside the compositions they stand
// for.
//
//   build/bin/words_bench [--rows N] [--tokens N]
//
// Packed answers of N/2 to N tokens. Repetitions alternate, the best of each counts. The last columns are the word's
// time with KL and entropy, in units of the composition without them.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "rlcore/exec/serial.hpp"
#include "rlcore/objective/algorithm/verl.hpp"
#include "rlcore/train/policy/algorithm/named_algorithm.hpp"

namespace {

using namespace rlcore;
using floats = std::vector<float>;

/// A step of packed answers.
struct step {
  std::vector<std::int32_t> offsets{0};
  floats logp, old_logp, ref_logp, entropy, selected, advantage, dlogp, dentropy;
  global_counts counts;

  step(std::size_t rows, std::size_t tokens) {
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    for (std::size_t i = 0; i < rows; ++i) {
      const std::size_t length = tokens / 2 + random() % (tokens / 2 + 1);
      for (std::size_t t = 0; t < length; ++t) {
        logp.push_back(-std::abs(normal(random)));
        old_logp.push_back(std::min(logp.back() + 0.2f * normal(random), -1e-3f));
        ref_logp.push_back(std::min(logp.back() + 0.2f * normal(random), -1e-3f));
        entropy.push_back(std::abs(normal(random)));
        selected.push_back(random() % 100 == 0);
      }
      offsets.push_back(static_cast<std::int32_t>(logp.size()));
      advantage.push_back(normal(random));
      counts.add_row(static_cast<std::int64_t>(length));
    }
    dlogp.resize(logp.size()), dentropy.resize(logp.size());
  }
};

volatile double sink = 0;

/// The shortest time of each, in seconds; they take turns.
template <class... F>
std::vector<double> best_of(const F&... run) {
  std::vector<double> best(sizeof...(F), 1e9);
  for (int round = 0; round < 40; ++round) {
    std::size_t k = 0;
    const auto one = [&](const auto& f) {
      const auto begin = std::chrono::steady_clock::now();
      sink = sink + f();
      best[k] = std::min(best[k], std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
      ++k;
    };
    (one(run), ...);
  }
  return best;
}

/// A line of the table: `word` beside `algorithm`.
template <class Algorithm>
void line(step& s, const char* word, const Algorithm& algorithm, bool reads_selected = false) {
  policy_rows plain{s.offsets, s.logp, s.old_logp, {}, s.advantage};
  if (reads_selected) plain.selected = s.selected;
  policy_rows full = plain;
  full.ref_logp = s.ref_logp, full.entropy = s.entropy;
  train::policy_loss_settings settings;
  settings.mode = word, settings.dro_beta = 0.1;
  const auto alone = train::algorithm_of(settings);
  settings.use_kl = true, settings.entropy_coeff = 0.01;
  const auto all = train::algorithm_of(settings);
  const auto best = best_of(
      [&] {
        return evaluate(serial{}, algorithm.objective, algorithm.aggregation, batch_of(plain), s.counts,
                        gradients_of(plain, s.dlogp, {}))
            .loss();
      },
      [&] { return alone.loss(plain, s.counts, s.dlogp, {}).loss(); },
      [&] { return all.loss(full, s.counts, s.dlogp, s.dentropy).loss(); });
  const auto ns = [&](std::size_t k) { return 1e9 * best[k] / static_cast<double>(s.logp.size()); };
  std::printf("%-9s %11.3f %11.3f %7.2f %12.3f %7.2f\n", word, ns(0), ns(1), ns(1) / ns(0), ns(2), ns(2) / ns(0));
}

std::size_t number(int argc, char** argv, const std::string& flag, std::size_t otherwise) {
  for (int i = 1; i + 1 < argc; ++i)
    if (argv[i] == flag) return std::stoul(argv[i + 1]);
  return otherwise;
}

}  // namespace

int main(int argc, char** argv) {
  step s(number(argc, argv, "--rows", 256), number(argc, argv, "--tokens", 512));
  std::printf("ns per token, one thread, %zu tokens\n%-9s %11s %11s %7s %12s %7s\n", s.logp.size(), "word",
              "composition", "by word", "ratio", "+kl, entropy", "ratio");
  line(s, "vanilla", verl::grpo());
  line(s, "gspo", verl::gspo());
  line(s, "gpg", verl::gpg());
  line(s, "clip_cov", verl::clip_cov(), true);
  line(s, "kl_cov", verl::kl_cov(), true);
  line(s, "geo_mean", verl::gmpo());
  line(s, "sapo", verl::sapo());
  line(s, "cispo", verl::cispo());
  line(s, "dppo_tv", verl::dppo_tv());
  line(s, "dppo_kl", verl::dppo_kl());
  line(s, "dro", verl::dro(0.1));
}
