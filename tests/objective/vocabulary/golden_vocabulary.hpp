// tests/reference/vocabulary.json: positions with vectors of logits, and what PyTorch and the systems make of them.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "objective/golden_case.hpp"
#include "rlcore/objective/vocabulary/logits_piece.hpp"

namespace rlcore_test {

inline const nlohmann::json& vocabulary_golden() {
  static const nlohmann::json data = read_golden("vocabulary.json");
  return data;
}

template <class T>
std::vector<T> vocabulary_numbers(const char* name) {
  std::vector<T> out;
  for (const auto& x : vocabulary_golden().at(name)) out.push_back(static_cast<T>(golden_number(x)));
  return out;
}

/// Inputs of the golden positions; members may be exchanged by a test.
template <class T>
struct golden_positions {
  rlcore::extent_t positions = vocabulary_golden()["positions"], vocabulary = vocabulary_golden()["vocabulary"],
                   k = vocabulary_golden()["support"];
  std::vector<T> logits = vocabulary_numbers<T>("logits"), teacher = vocabulary_numbers<T>("teacher"), support_logp,
                 targets, weight = vocabulary_numbers<T>("weight");
  std::vector<std::int64_t> labels = vocabulary_numbers<std::int64_t>("labels"), support;

  rlcore::logits_position<T> at(rlcore::extent_t i) const {
    rlcore::logits_position<T> x;
    const auto row = [&](const std::vector<T>& m) {
      const auto width = static_cast<rlcore::extent_t>(m.size()) / positions;
      return rlcore::logits_source<T>{m.data() + i * width, width};
    };
    x.logits = row(logits), x.teacher = row(teacher);
    x.label = labels[static_cast<std::size_t>(i)];
    x.weight = weight[static_cast<std::size_t>(i)];
    if (!support.empty()) x.support = {support.data() + i * k, k, 1, true};
    if (!support_logp.empty()) x.support_logp = {support_logp.data() + i * k, k};
    const auto classes = static_cast<rlcore::extent_t>(targets.size()) / positions;
    if (!targets.empty()) x.target = {targets.data() + i * classes, classes};
    return x;
  }
};

/// Compares a piece, position by position, with the value and gradient that somebody else computed.
template <class P, class T>
void check_positions(const P& piece, const golden_positions<T>& inputs, const char* name, double own_tolerance = 0) {
  const auto& one = vocabulary_golden().at("cases").at(name);
  const double theirs = one.value("tolerance", 1e-12), ours = sizeof(T) == 4 ? 1e-5 : 1e-12;
  const double tolerance = own_tolerance > 0 ? own_tolerance : std::max(theirs, ours);
  std::vector<std::byte> scratch(
      rlcore::scratch_bytes_of(piece, static_cast<rlcore::extent_t>(inputs.logits.size()) / inputs.positions,
                               static_cast<rlcore::extent_t>(inputs.teacher.size()) / inputs.positions));
  for (rlcore::extent_t i = 0; i < inputs.positions; ++i) {
    auto x = inputs.at(i);
    x.scratch = scratch;
    std::vector<T> gradient(static_cast<std::size_t>(x.logits.size), T(-7));
    rlcore::logits_gradient<T> g{gradient.data(), x.logits.size};
    const auto result = rlcore::run_piece(piece, x, g);
    const auto at = static_cast<std::size_t>(i);
    const double value = golden_number(one["value"][at]);
    EXPECT_NEAR(result.value, value, tolerance * std::max(1.0, std::abs(value))) << name << " value of position " << i;
    EXPECT_EQ(rlcore::run_piece(piece, x, rlcore::logits_gradient<T>{}).value, result.value) << name;
    for (std::size_t j = 0; j < gradient.size(); ++j) {
      const double slope = golden_number(one["gradient"][at][j]);
      EXPECT_NEAR(gradient[j], slope, tolerance * std::max(1.0, std::abs(slope)))
          << name << " gradient of position " << i << " entry " << j;
    }
  }
}

}  // namespace rlcore_test
