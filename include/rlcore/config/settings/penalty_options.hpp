// Sampling penalty options.
#pragma once

#include <string>

#include "rlcore/config/options.hpp"
#include "rlcore/rollout/logit_rules.hpp"

RLCORE_BEGIN
namespace trainer {

/// <prefix>repetition_penalty, frequency_penalty and presence_penalty.
inline rollout::logit_rules read_penalties(const options& opt, const std::string& prefix) {
  rollout::logit_rules rules;
  rules.repetition_penalty = static_cast<float>(opt.get<double>(prefix + "repetition_penalty"));
  rules.frequency_penalty = static_cast<float>(opt.get<double>(prefix + "frequency_penalty"));
  rules.presence_penalty = static_cast<float>(opt.get<double>(prefix + "presence_penalty"));
  return rules;
}

}  // namespace trainer
RLCORE_END
