// The cases of tests/reference/sampling.json, and draws from them on any device.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "rlcore/rollout/sampler.hpp"

namespace rlcore_test {

/// One case: what is asked of which logits, and NumPy's answer.
struct sampling_case {
  std::string name;
  std::vector<float> logits, ruled;
  std::vector<std::int32_t> prompt, generated, kept;  // kept: by falling probability
  std::vector<double> p;                              // of the kept ones
  rlcore::rollout::sampling sampling;
  rlcore::rollout::logit_rules rules;

  rlcore::rollout::token_history history() const {
    rlcore::rollout::token_history h;
    h.start(prompt, generated);
    return h;
  }
};

inline sampling_case sampling_case_of(const nlohmann::json& j) {
  sampling_case c;
  j.at("name").get_to(c.name), j.at("logits").get_to(c.logits), j.at("kept").get_to(c.kept), j.at("p").get_to(c.p);
  j.at("prompt").get_to(c.prompt), j.at("generated").get_to(c.generated);
  for (const auto& x : j.at("ruled"))
    c.ruled.push_back(x.is_null() ? -std::numeric_limits<float>::infinity() : x.get<float>());
  c.sampling = {j.at("temperature"), j.at("top_k"), j.at("top_p"), j.at("min_p")};
  rlcore::rollout::logit_rules& r = c.rules;
  j.at("allowed_token_ids").get_to(r.allowed_token_ids), j.at("bad_words").get_to(r.bad_words);
  j.at("min_tokens").get_to(r.min_tokens), j.at("ending_ids").get_to(r.ending_ids);
  for (const auto& b : j.at("logit_bias")) r.logit_bias.push_back({b.at(0), b.at(1)});
  j.at("repetition_penalty").get_to(r.repetition_penalty);
  j.at("frequency_penalty").get_to(r.frequency_penalty), j.at("presence_penalty").get_to(r.presence_penalty);
  return c;
}

inline const std::vector<sampling_case>& sampling_cases() {
  static const std::vector<sampling_case> all = [] {
    std::ifstream in(RLCORE_REFERENCE_DIR "/sampling.json");
    if (!in) throw std::runtime_error("no golden file sampling.json");
    std::vector<sampling_case> cases;
    const nlohmann::json golden = nlohmann::json::parse(in);
    for (const auto& j : golden.at("cases")) cases.push_back(sampling_case_of(j));
    return cases;
  }();
  return all;
}

/// log softmax(logits / temperature), in double.
inline std::vector<double> log_softmax(const std::vector<float>& logits, double temperature) {
  const double top = static_cast<double>(*std::ranges::max_element(logits));
  double total = 0;
  for (const float x : logits) total += std::exp((static_cast<double>(x) - top) / temperature);
  std::vector<double> logp;
  for (const float x : logits) logp.push_back((static_cast<double>(x) - top) / temperature - std::log(total));
  return logp;
}

/// A row of its own for each of some numbers in [0, 1), drawn together on a device under the rules of a case.
template <class Device>
class sampling_draws {
 public:
  sampling_draws(Device& device, const sampling_case& c, std::vector<double> uniform, std::int64_t chunks = 1)
      : tokens(uniform.size()), logp(uniform.size()), entropy(uniform.size()) {
    std::vector<float> host;
    for (std::size_t i = 0; i < uniform.size(); ++i) host.insert(host.end(), c.logits.begin(), c.logits.end());
    rlcore::buffer<float, Device> rows(device, host.size());
    rows.upload(host);
    const rlcore::rollout::token_history history = c.history();
    const std::vector<rlcore::rollout::ruled_row> rules(uniform.size(), {&c.rules, &history, c.generated});
    const auto vocabulary = static_cast<rlcore::extent_t>(c.logits.size());
    draw_(device, c.sampling, {vocabulary, chunks, 0, chunks}, rows.data(), vocabulary, uniform, tokens, logp, entropy,
          rules);
    std::vector<float> after(host.size());
    rows.download(after);
    EXPECT_EQ(after, host) << c.name << ": the logits themselves stay";
  }

  std::vector<std::int32_t> tokens;
  std::vector<float> logp, entropy;

 private:
  rlcore::rollout::sampler<Device> draw_;
};

/// The middle of the interval of every kept token likelier than `least` draws it, the ends draw kept ones; log-probs
/// are those of the logits without rules.
template <class Device>
void expect_draws(Device& device, const sampling_case& c, double least, double tolerance, std::int64_t chunks = 1) {
  SCOPED_TRACE(c.name);
  std::vector<std::size_t> order(c.kept.size());  // of the inverse CDF
  std::iota(order.begin(), order.end(), std::size_t{0});
  const rlcore::rollout::sampling& s = c.sampling;
  if (s.top_k < 0 && s.top_p >= 1 && s.min_p <= 0) std::ranges::sort(order, {}, [&](auto k) { return c.kept[k]; });
  std::vector<double> uniform{0, std::nextafter(1.0, 0.0)};
  std::vector<std::int32_t> wanted;
  double before = 0;
  for (const std::size_t k : order) {
    if (c.p[k] > least) uniform.push_back(before + c.p[k] / 2), wanted.push_back(c.kept[k]);
    before += c.p[k];
  }
  ASSERT_GT(wanted.size(), 0u);
  const sampling_draws<Device> drawn(device, c, uniform, chunks);
  EXPECT_EQ(drawn.tokens[0], c.kept[order.front()]);
  EXPECT_NE(std::ranges::find(c.kept, drawn.tokens[1]), c.kept.end());
  EXPECT_EQ(std::vector(drawn.tokens.begin() + 2, drawn.tokens.end()), wanted);
  const auto logp = log_softmax(c.logits, s.greedy() ? 1 : static_cast<double>(s.temperature));
  for (std::size_t i = 0; i < drawn.tokens.size(); ++i)
    EXPECT_NEAR(drawn.logp[i], logp[static_cast<std::size_t>(drawn.tokens[i])], tolerance);
}

}  // namespace rlcore_test
