// What rlcore/trainer declares (the target rlcore::trainer).
#define RLCORE_SOURCE_TRAINER
#include "rlcore/trainer/evaluation/problems.hpp"
#include "rlcore/trainer/evaluation/sampled_problems.hpp"
#include "rlcore/trainer/evaluation/stored_responses.hpp"
#include "rlcore/trainer/evaluation/summary.hpp"
#include "rlcore/trainer/evaluation/validation_metrics.hpp"
#include "rlcore/trainer/model_merger.hpp"
#include "rlcore/trainer/policy/algorithm/estimate_advantages.hpp"
#include "rlcore/trainer/policy/algorithm/named_algorithm.hpp"
#include "rlcore/trainer/policy/check_memory.hpp"
#include "rlcore/trainer/policy/collect.hpp"
#include "rlcore/trainer/policy/critic.hpp"
#include "rlcore/trainer/policy/dynamic_sampling.hpp"
#include "rlcore/trainer/policy/final_report.hpp"
#include "rlcore/trainer/policy/inputs.hpp"
#include "rlcore/trainer/policy/prompts.hpp"
#include "rlcore/trainer/policy/reward/command_rewards.hpp"
#include "rlcore/trainer/policy/reward/line_process.hpp"
#include "rlcore/trainer/policy/reward/reward_settings.hpp"
#include "rlcore/trainer/policy/reward/reward_source.hpp"
#include "rlcore/trainer/policy/settings.hpp"
#include "rlcore/trainer/policy/step_metrics.hpp"
#include "rlcore/trainer/policy/trajectory/replay.hpp"
#include "rlcore/trainer/policy/trajectory/rollout_log.hpp"
#include "rlcore/trainer/policy/trajectory/surplus_file.hpp"
#include "rlcore/trainer/policy/update.hpp"
#include "rlcore/trainer/policy/validate.hpp"
#include "rlcore/trainer/preference/read_rows.hpp"
#include "rlcore/trainer/preference/row_text.hpp"
#include "rlcore/trainer/preference/run.hpp"
#include "rlcore/trainer/preference/settings.hpp"
#include "rlcore/trainer/supervised/plan.hpp"
#include "rlcore/trainer/supervised/sft_work.hpp"
#include "rlcore/trainer/trainer_main_on_ranks.hpp"

RLCORE_BEGIN
namespace trainer {
// trainer/policy/algorithm/any_algorithm.hpp
template class composed_loss<sum<dual_clip>, any_aggregation>;
template class composed_loss<sum<dual_clip, scaled<any_divergence>>, any_aggregation>;
template class composed_loss<sum<dual_clip, scaled<token_entropy>>, any_aggregation>;
template class composed_loss<sum<dual_clip, scaled<any_divergence>, scaled<token_entropy>>, any_aggregation>;
}  // namespace trainer
RLCORE_END
