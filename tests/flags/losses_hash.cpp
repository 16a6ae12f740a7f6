// Prints one line: the namespace that packs were compiled in, and one hash of the bits of losses, gradients and
// advantages. run.cmake compares it between compilers, optimisation levels and processors.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <vector>

#include "rlcore/exec/serial.hpp"
#include "rlcore/objective/advantage/gae.hpp"
#include "rlcore/objective/advantage/rloo.hpp"
#include "rlcore/objective/algorithm/algorithm.hpp"
#include "rlcore/objective/algorithm/cispo.hpp"
#include "rlcore/objective/algorithm/distillation.hpp"
#include "rlcore/objective/algorithm/dpo.hpp"
#include "rlcore/objective/algorithm/grpo.hpp"
#include "rlcore/objective/algorithm/gspo.hpp"
#include "rlcore/objective/algorithm/ppo.hpp"
#include "rlcore/objective/algorithm/reinforce_plus_plus.hpp"
#include "rlcore/objective/algorithm/reward_model.hpp"
#include "rlcore/objective/loop/evaluate.hpp"
#include "rlcore/objective/loop/evaluate_logits.hpp"
#include "rlcore/tensor/span.hpp"

#define RLCORE_TEXT_OF(x) #x
#define RLCORE_TEXT(x) RLCORE_TEXT_OF(x)

namespace {

/// FNV-1a over the bits of numbers, -0 and 0 being different.
struct hash {
  std::uint64_t state = 0xcbf29ce484222325u;

  template <class T>
  void add(const T& x) {
    unsigned char bytes[sizeof(T)];
    std::memcpy(bytes, &x, sizeof(T));
    for (const unsigned char b : bytes) state = (state ^ b) * 0x100000001b3u;
  }
  template <class T>
  void add(const std::vector<T>& x) {
    for (const T& value : x) add(value);
  }
};

/// A batch of rows that end at different places, from integers: no arithmetic that could round.
template <class T>
struct step {
  static constexpr std::size_t rows = 8, tokens = 75;  // no multiple of any register
  std::vector<T> logp = field(1), old_logp = field(2), ref_logp = field(3), value = field(4), old_value = field(5),
                 target = field(6), mask, reward, advantage, gradient = std::vector<T>(rows * tokens),
                 second = gradient;

  step() : mask(rows * tokens), reward(rows), advantage(rows) {
    for (std::size_t i = 0; i < rows; ++i) {
      reward[i] = static_cast<T>(static_cast<int>(i * 5 % 7) - 3);
      for (std::size_t t = 0; t < tokens - i * 7; ++t) mask[i * tokens + t] = t % 11 == 3 ? T(0) : T(1);
    }
  }
  /// Numbers of 20 random bits around -0.5; those of other fields within an eighth of the first,
  /// ref_logp within 1.5, where exponentials take their other branch.
  static std::vector<T> field(std::uint32_t which) {
    std::vector<T> x(rows * tokens);
    for (std::size_t k = 0; k < x.size(); ++k) {
      const auto word = [k](std::uint32_t n) {
        std::uint64_t z = (k * 8 + n) * 0x9e3779b97f4a7c15u;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        return static_cast<std::int64_t>((z ^ (z >> 27)) >> 44);  // 20 bits
      };
      const std::int64_t all = -8 * word(1) + (which == 1 ? 0 : word(which) - (1 << 19)) * (which == 3 ? 24 : 2);
      x[k] = static_cast<T>(all) * static_cast<T>(0x1p-23);
    }
    return x;
  }
  auto shaped(std::vector<T>& x) const {
    return rlcore::matrix_view<T>{x.data(),
                                  {static_cast<rlcore::extent_t>(rows), static_cast<rlcore::extent_t>(tokens)}};
  }
  rlcore::token_batch<T> batch() {
    return {.logp = shaped(logp),
            .old_logp = shaped(old_logp),
            .ref_logp = shaped(ref_logp),
            .advantage = advantage,
            .value = shaped(value),
            .old_value = shaped(old_value),
            .target = shaped(target),
            .mask = shaped(mask)};
  }
};

template <class T>
class losses {
 public:
  explicit losses(hash& all) : all_(all) {}

  template <class Algorithm>
  void tokens(const char* name, const Algorithm& algorithm) {
    const auto batch = step_.batch();
    finish(name, rlcore::evaluate(rlcore::serial{}, algorithm, batch, rlcore::loss_counts(batch),
                                  {.logp = step_.shaped(step_.gradient), .value = step_.shaped(step_.second)}));
  }
  /// One token per row is a score: pairs of rows.
  template <class Algorithm>
  void pairs(const char* name, const Algorithm& algorithm) {
    const auto batch = step_.batch();
    finish(name, rlcore::evaluate(rlcore::serial{}, algorithm, batch, rlcore::loss_counts(batch),
                                  {.logp = step_.shaped(step_.gradient)}));
  }
  void advantages() {
    auto& s = step_;
    rlcore::rloo{}(s.reward, 4, s.advantage);
    show("rloo");
    rlcore::paper::grpo().advantage(s.reward, 4, s.advantage);
    show("group_relative");
    const auto view = [&](std::vector<T>& x) { return s.shaped(x); };
    rlcore::gae{.gamma = 0.99, .lambda = 0.95}(view(s.target), view(s.value), view(s.mask), view(s.gradient),
                                               view(s.second));
    show("gae");
    rlcore::reinforce_plus_plus{.gamma = 0.97}(view(s.target), view(s.mask), view(s.gradient));
    show("reinforce_plus_plus");
  }
  /// Fifteen positions over a vocabulary of forty, by a teacher.
  template <class Algorithm>
  void vocabulary(const char* name, const Algorithm& algorithm) {
    constexpr rlcore::extent_t positions = 15, entries = 40;
    const auto matrix = [&](std::vector<T>& x) { return rlcore::matrix_view<T>{x.data(), {positions, entries}}; };
    rlcore::logits_batch<T> batch;
    batch.logits = matrix(step_.value), batch.teacher = matrix(step_.old_value);
    rlcore::global_counts counts;
    counts.add_row(positions);
    finish(name,
           rlcore::evaluate_logits(rlcore::serial{}, algorithm, batch, counts, {.logits = matrix(step_.gradient)}));
  }

 private:
  template <class Report>
  void finish(const char* name, const Report& r) {
    all_.add(r.loss());
    for (const auto& m : r.monitor) all_.add(m.total.value());
    show(name);
  }
  void show(const char* name) {
    all_.add(step_.advantage), all_.add(step_.gradient), all_.add(step_.second);
    if (verbose)
      std::printf("  %016llx after %s of %zu bytes\n", static_cast<unsigned long long>(all_.state), name, sizeof(T));
  }

 public:
  bool verbose = false;

 private:
  hash& all_;
  step<T> step_;
};

template <class T>
void add_losses(hash& all, bool verbose) {
  losses<T> of(all);
  of.verbose = verbose;
  of.advantages();
  of.tokens("grpo", rlcore::paper::grpo());
  of.tokens("gspo", rlcore::paper::gspo());
  of.tokens("gmpo", rlcore::paper::gmpo());
  of.tokens("ppo critic", rlcore::paper::ppo_critic());
  of.vocabulary("gkd", rlcore::paper::gkd());
  of.pairs("dpo", rlcore::paper::dpo());
  if constexpr (sizeof(T) == 4) {
    of.tokens("dapo", rlcore::paper::dapo());
    of.tokens("cispo", rlcore::paper::cispo());
    of.tokens("sapo", rlcore::paper::sapo());
    of.tokens("ppo", rlcore::paper::ppo());
  }
}

}  // namespace

/// With an argument: the hash after every step of the way.
int main(int argc, char**) {
  hash all;
  add_losses<float>(all, argc > 1);
  add_losses<double>(all, argc > 1);
  std::printf("%s %016llx\n", RLCORE_TEXT(RLCORE_ISA), static_cast<unsigned long long>(all.state));
}
