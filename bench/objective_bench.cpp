// The composed GRPO loop beside its hand-written twin and the memory's read bandwidth, in one run.
//
//   build/bin/objective_bench [--json FILE]
//
// Interleaved repetitions, the best of each (other programs can only slow one down). Times are printed, ratios are what
// travels. FILE is read by bench/peers/objective_torch.py.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "raw/objective_raw.hpp"
#include "rlcore/exec/serial.hpp"
#include "rlcore/objective/algorithm/grpo.hpp"
#include "rlcore/tensor/span.hpp"

namespace {

struct data {
  std::size_t rows, tokens;
  std::vector<float> logp, old_logp, ref_logp, advantage, mask, gradient;

  data(std::size_t rows_, std::size_t tokens_)
      : rows(rows_),
        tokens(tokens_),
        logp(rows * tokens),
        advantage(rows),
        mask(logp.size(), 1.0f),
        gradient(logp.size()) {
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    for (float& x : logp) x = -std::abs(normal(random));
    old_logp = ref_logp = logp;
    for (float& x : old_logp) x += 0.2f * normal(random);
    for (float& x : ref_logp) x += 0.2f * normal(random);
    for (float& x : advantage) x = normal(random);
    for (std::size_t i = 0; i < rows; ++i)  // responses end at different places
      for (std::size_t t = tokens - (i * 37) % (tokens / 2); t < tokens; ++t) mask[i * tokens + t] = 0.0f;
  }
};

template <class F>
double seconds(F&& f, int calls) {
  const auto start = std::chrono::steady_clock::now();
  for (int k = 0; k < calls; ++k) f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / calls;
}

double best(const std::vector<double>& x) { return *std::min_element(x.begin(), x.end()); }

}  // namespace

int main(int argc, char** argv) {
  std::string json = "{\"runs\":[";
  std::printf("%-14s %-6s %12s %12s %7s %12s %10s\n", "size", "mask", "composed", "hand-written", "ratio", "GB/s moved",
              "of read");
  double worst = 0;
  bool first = true;
  for (const auto& [rows, tokens] : {std::pair<std::size_t, std::size_t>{16, 1024}, {512, 1024}, {256, 8192}}) {
    data d(rows, tokens);
    const auto m = [&, rows = rows, tokens = tokens](auto& x) {
      return rlcore::matrix_view<float>(x.data(),
                                        {static_cast<std::ptrdiff_t>(rows), static_cast<std::ptrdiff_t>(tokens)});
    };
    for (const bool masked : {false, true}) {
      rlcore::token_batch<float> batch{
          .logp = m(d.logp), .old_logp = m(d.old_logp), .ref_logp = m(d.ref_logp), .advantage = d.advantage};
      if (masked) batch.mask = m(d.mask);
      rlcore::global_counts step;
      for (std::size_t i = 0; i < rows; ++i)
        step.add_row(static_cast<std::int64_t>(masked ? tokens - (i * 37) % (tokens / 2) : tokens));
      const auto objective = rlcore::paper::grpo({.clip_low = 0.2, .clip_high = 0.28, .kl = 0.04});
      volatile double sink = 0;
      const auto composed = [&] {
        sink = evaluate(rlcore::serial{}, objective, rlcore::sequence_mean_token_mean{}, batch, step,
                        {.logp = m(d.gradient)})
                   .loss();
      };
      const auto raw = [&, rows = rows, tokens = tokens] {
        const auto r = raw_grpo(d.logp.data(), d.old_logp.data(), d.ref_logp.data(), d.advantage.data(),
                                masked ? d.mask.data() : nullptr, rows, tokens, 0.2f, 0.28f, 0.04f, d.gradient.data());
        sink = r.policy + 0.04 * r.kl;
      };
      composed();
      const double ours = sink;
      raw();
      if (std::abs(ours - sink) > 1e-6 * std::abs(ours))
        return std::fprintf(stderr, "the loops disagree: %g and %g\n", ours, sink), 1;
      const double size = static_cast<double>(rows * tokens);
      const int calls = std::max(1, static_cast<int>(2e6 / size)), repetitions = size > 1e6 ? 15 : 41;
      std::vector<double> a, b, read;
      for (int k = 0; k < repetitions; ++k) {
        a.push_back(seconds(composed, calls));
        b.push_back(seconds(raw, calls));
        read.push_back(seconds([&] { sink = raw_read(d.logp.data(), d.logp.size()); }, calls));
      }
      const double moved = (masked ? 5 : 4) * 4 * size / best(a) / 1e9, bandwidth = 4 * size / best(read) / 1e9;
      const double ratio = best(a) / best(b);
      worst = std::max(worst, ratio);
      std::printf("%5zu x %-6zu %-6s %8.0f Mt/s %8.0f Mt/s %7.3f %12.1f %9.0f%%\n", rows, tokens,
                  masked ? "float" : "none", size / best(a) / 1e6, size / best(b) / 1e6, ratio, moved,
                  100 * moved / bandwidth);
      json += std::string(first ? "" : ",") + "{\"rows\":" + std::to_string(rows) +
              ",\"tokens\":" + std::to_string(tokens) + ",\"masked\":" + (masked ? "true" : "false") +
              ",\"composed_s\":" + std::to_string(best(a) * 1e9) + "e-9,\"raw_s\":" + std::to_string(best(b) * 1e9) +
              "e-9,\"read_gb_s\":" + std::to_string(bandwidth) + "}";
      first = false;
    }
  }
  std::printf("worst ratio composed / hand-written: %.3f\n", worst);
  json += "]}\n";
  for (int k = 1; k + 1 < argc; ++k)
    if (std::strcmp(argv[k], "--json") == 0)
      if (std::FILE* f = std::fopen(argv[k + 1], "w")) std::fputs(json.c_str(), f), std::fclose(f);
}
