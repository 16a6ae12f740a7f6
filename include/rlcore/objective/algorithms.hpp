// Every named algorithm. The defaults are those of the paper (paper::grpo()) or of a system (verl::grpo(),
// openrlhf::grpo(), trl::grpo()); docs/algorithms.md has them all in one table.
#pragma once

#include "rlcore/objective/algorithm/cispo.hpp"
#include "rlcore/objective/algorithm/distillation.hpp"
#include "rlcore/objective/algorithm/dpo.hpp"
#include "rlcore/objective/algorithm/grpo.hpp"
#include "rlcore/objective/algorithm/gspo.hpp"
#include "rlcore/objective/algorithm/kto.hpp"
#include "rlcore/objective/algorithm/openrlhf.hpp"
#include "rlcore/objective/algorithm/orpo.hpp"
#include "rlcore/objective/algorithm/ppo.hpp"
#include "rlcore/objective/algorithm/regression.hpp"
#include "rlcore/objective/algorithm/reinforce.hpp"
#include "rlcore/objective/algorithm/reinforce_plus_plus.hpp"
#include "rlcore/objective/algorithm/reward_model.hpp"
#include "rlcore/objective/algorithm/rloo.hpp"
#include "rlcore/objective/algorithm/sft.hpp"
#include "rlcore/objective/algorithm/simpo.hpp"
#include "rlcore/objective/algorithm/trl.hpp"
#include "rlcore/objective/algorithm/verl.hpp"
#include "rlcore/objective/evaluate.hpp"
