// The batch of preference.json, and gather -> link -> scatter written out in double, one term after the other: what
// the loop does, without compiling the loop for every link.
#pragma once

#include <span>
#include <type_traits>
#include <vector>

#include "objective/piece/preference/check_pair.hpp"

namespace rlcore_test {

struct loss_and_gradient {
  double loss = 0;
  std::vector<double> gradient;
};

class preference_batch {
 public:
  preference_batch() : golden_(read_golden("preference.json")) {
    const auto& g = golden_["tokens"];
    rows = g["rows"], width = g["width"];
    logp = g["logp"].get<std::vector<double>>();
    ref_logp = g["ref_logp"].get<std::vector<double>>();
    log_square_sum = g["log_square_sum"].get<std::vector<double>>();
    mask = g["mask"].get<std::vector<int>>();
    label = g["label"].get<std::vector<double>>();
    score = g["score"].get<std::vector<double>>();
    margin = g["margin"].get<std::vector<double>>();
    weight.assign(logp.size(), 1.0);
    row_weight.assign(rows, 1.0);
  }

  std::size_t rows, width;
  std::vector<double> logp, ref_logp, log_square_sum, label, score, margin, weight, row_weight;
  std::vector<int> mask;

  const nlohmann::json& system(const std::string& name, const std::string& one) const {
    return golden_.at(name).at(one);
  }
  std::vector<double> numbers(const std::string& name) const {
    return golden_["tokens"].at(name).get<std::vector<double>>();
  }

  /// The mean over pairs, over rows, or what a batch link says.
  template <class Gather, class Link>
  loss_and_gradient operator()(Gather, const Link& link) const {
    using score_type = typename Gather::score;
    std::vector<rlcore::token<double>> row(rows);
    for (std::size_t i = 0; i < rows; ++i) {
      row[i].logp = gather<Gather>(i);
      if constexpr (!std::is_same_v<rlcore::gathers_of<Link>, rlcore::no_gather>)
        row[i].gathered = gather<rlcore::gathers_of<Link>>(i);
      row[i].target = label[i], row[i].weight = row_weight[i];
    }
    loss_and_gradient out;
    std::vector<double> slope(rows);
    const double terms = rlcore::pair_link<Link> ? static_cast<double>(rows) / 2 : static_cast<double>(rows);
    if constexpr (rlcore::batch_link<Link>) {
      out.loss = link(std::span<const rlcore::token<double>>(row), std::span<double>(slope));
    } else if constexpr (rlcore::pair_link<Link>) {
      for (std::size_t i = 0; i < rows; i += 2) {
        const auto term = judge(link, {row[i], row[i + 1]});
        out.loss += term.value / terms;
        slope[i] = term.slope_chosen / terms, slope[i + 1] = term.slope_rejected / terms;
      }
    } else {
      for (std::size_t i = 0; i < rows; ++i) {
        const auto term = at(link, row[i]);
        out.loss += term.value / terms;
        slope[i] = term.slope / terms;
      }
    }
    out.gradient.assign(rows * width, 0.0);
    for (std::size_t i = 0; i < rows; ++i)
      for (std::size_t t = 0; t < width; ++t)
        if (mask[i * width + t] != 0)
          out.gradient[i * width + t] =
              slope[i] * at(score_type{}, token(i, t)).slope / (Gather::averages ? live(i) : 1.0);
    return out;
  }

  rlcore::token<double> token(std::size_t i, std::size_t t) const {
    rlcore::token<double> x{};
    x.logp = logp[i * width + t], x.ref_logp = ref_logp[i * width + t], x.weight = weight[i * width + t];
    return x;
  }
  double live(std::size_t i) const {
    double n = 0;
    for (std::size_t t = 0; t < width; ++t) n += mask[i * width + t];
    return n;
  }

 private:
  template <class Gather>
  double gather(std::size_t i) const {
    double sum = 0;
    for (std::size_t t = 0; t < width; ++t)
      if (mask[i * width + t] != 0) sum += at(typename Gather::score{}, token(i, t)).value;
    return Gather::averages ? sum / live(i) : sum;
  }

  nlohmann::json golden_;
};

inline void expect_same(const loss_and_gradient& got, const nlohmann::json& want, double tolerance,
                        const std::string& what) {
  expect_close(got.loss, want["loss"], tolerance, what);
  ASSERT_EQ(got.gradient.size(), want["gradient"].size()) << what;
  for (std::size_t k = 0; k < got.gradient.size(); ++k)
    expect_close(got.gradient[k], want["gradient"][k], tolerance, what + " gradient " + std::to_string(k));
}

}  // namespace rlcore_test
