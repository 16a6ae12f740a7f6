// tests/reference/objective_losses.json as matrices of either type.
#pragma once

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "rlcore/objective/loop/evaluate.hpp"
#include "rlcore/tensor/span.hpp"

inline const nlohmann::json& golden() {
  static const nlohmann::json data = [] {
    std::ifstream in(RLCORE_REFERENCE_DIR "/objective_losses.json");
    return nlohmann::json::parse(in);
  }();
  return data;
}

template <class T>
std::vector<T> golden_vector(const nlohmann::json& j) {
  std::vector<T> out;
  for (const auto& x : j) out.push_back(static_cast<T>(x.get<double>()));
  return out;
}

template <class T>
struct golden_batch {
  rlcore::extent_t rows = golden()["rows"], tokens = golden()["tokens"];
  std::vector<T> logp = golden_vector<T>(golden()["logp"]), old_logp = golden_vector<T>(golden()["old_logp"]),
                 ref_logp = golden_vector<T>(golden()["ref_logp"]), advantage = golden_vector<T>(golden()["advantage"]),
                 weight = golden_vector<T>(golden()["weight"]), entropy = golden_vector<T>(golden()["entropy"]);
  std::vector<std::uint8_t> mask = golden_vector<std::uint8_t>(golden()["mask"]);
  std::vector<T> logp_gradient = std::vector<T>(logp.size(), T(-1)), entropy_gradient = logp_gradient;

  template <class U>
  rlcore::matrix_view<U> matrix(std::vector<U>& x) const {
    return {x.data(), {rows, tokens}};
  }
  rlcore::token_batch<T> batch() {
    return {.logp = matrix(logp),
            .old_logp = matrix(old_logp),
            .ref_logp = matrix(ref_logp),
            .advantage = advantage,
            .weight = matrix(weight),
            .entropy = matrix(entropy),
            .mask = matrix(mask)};
  }
  rlcore::token_gradients<T> gradients() {
    return {.logp = matrix(logp_gradient), .entropy = matrix(entropy_gradient)};
  }
};
