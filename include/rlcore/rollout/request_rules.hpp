// The rules of a call of generate() and the histories that they need.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "rlcore/rollout/apply_rules.hpp"
#include "rlcore/rollout/logit_rules.hpp"
#include "rlcore/rollout/request.hpp"
#include "rlcore/rollout/schedule.hpp"
#include "rlcore/rollout/token_history.hpp"

RLCORE_BEGIN
namespace rollout {

/// One set of rules for many requests. Neutral rules keep nothing and cost nothing. Histories do not know of
/// preemption: they are functions of prompt and text.
class request_rules {
 public:
  /// Begins anew; `rules` is borrowed.
  void start(const logit_rules& rules, std::span<const request> requests) {
    rules_ = rules.neutral() ? nullptr : &rules;
    history_.clear();
    if (rules_ == nullptr || !rules_->penalises()) return;
    history_.resize(requests.size());
    for (std::size_t i = 0; i < requests.size(); ++i) history_[i].start(requests[i].prompt);
  }
  /// What the rows of `draws` are under, in their order; nothing if the rules are neutral. Good until the next call.
  std::span<const ruled_row> of(std::span<const scheduled_draw> draws, std::span<const response> responses) {
    rows_.clear();
    if (rules_ == nullptr) return rows_;
    for (const scheduled_draw& d : draws)
      rows_.push_back({rules_, history_.empty() ? nullptr : &history_[d.request], responses[d.request].tokens});
    return rows_;
  }
  /// The tokens that were drawn.
  void accept(std::span<const scheduled_draw> draws, std::span<const std::int32_t> tokens) {
    if (history_.empty()) return;
    for (std::size_t i = 0; i < draws.size(); ++i) history_[draws[i].request].add(tokens[i]);
  }

 private:
  const logit_rules* rules_ = nullptr;
  std::vector<token_history> history_;  // by request
  std::vector<ruled_row> rows_;
};

}  // namespace rollout
RLCORE_END
