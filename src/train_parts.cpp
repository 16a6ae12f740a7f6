// What the parts of recipes in rlcore/train declare (the target rlcore::train).
#define RLCORE_SOURCE_TRAIN_PARTS
#define RLCORE_SOURCE_WRITE_GGUF
#include "rlcore/checkpoint/write_gguf.hpp"
#include "rlcore/train/evaluation/problems.hpp"
#include "rlcore/train/evaluation/sampled_problems.hpp"
#include "rlcore/train/evaluation/stored_responses.hpp"
#include "rlcore/train/evaluation/summary.hpp"
#include "rlcore/train/evaluation/validation_metrics.hpp"
#include "rlcore/train/files/model_merger.hpp"
#include "rlcore/train/policy/algorithm/estimate_advantages.hpp"
#include "rlcore/train/policy/algorithm/named_algorithm.hpp"
#include "rlcore/train/policy/check_memory.hpp"
#include "rlcore/train/policy/collect.hpp"
#include "rlcore/train/policy/critic.hpp"
#include "rlcore/train/policy/dynamic_sampling.hpp"
#include "rlcore/train/policy/final_report.hpp"
#include "rlcore/train/policy/inputs.hpp"
#include "rlcore/train/policy/reward/command_rewards.hpp"
#include "rlcore/train/policy/reward/reward_settings.hpp"
#include "rlcore/train/policy/reward/reward_source.hpp"
#include "rlcore/train/policy/rollout_rejection.hpp"
#include "rlcore/train/policy/rollout_weights.hpp"
#include "rlcore/train/policy/settings.hpp"
#include "rlcore/train/policy/step_metrics.hpp"
#include "rlcore/train/policy/tools.hpp"
#include "rlcore/train/policy/trajectory/replay.hpp"
#include "rlcore/train/policy/trajectory/stored_response.hpp"
#include "rlcore/train/policy/trajectory/surplus_file.hpp"
#include "rlcore/train/policy/update.hpp"
#include "rlcore/train/policy/validate.hpp"
#include "rlcore/train/preference/read_rows.hpp"
#include "rlcore/train/preference/row_text.hpp"
#include "rlcore/train/preference/run.hpp"
#include "rlcore/train/preference/settings.hpp"
#include "rlcore/train/run/trainer_main_on_ranks.hpp"
#include "rlcore/train/supervised/plan.hpp"
#include "rlcore/train/supervised/sft_work.hpp"

RLCORE_BEGIN
namespace train {
// train/policy/algorithm/any_algorithm.hpp
template class composed_loss<sum<dual_clip>, any_aggregation>;
template class composed_loss<sum<dual_clip, scaled<any_divergence>>, any_aggregation>;
template class composed_loss<sum<dual_clip, scaled<token_entropy>>, any_aggregation>;
template class composed_loss<sum<dual_clip, scaled<any_divergence>, scaled<token_entropy>>, any_aggregation>;
}  // namespace train
RLCORE_END
