// The reward of a policy run, read from the command line.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "rlcore/config/algorithm/verl_version.hpp"
#include "rlcore/config/options.hpp"
#include "rlcore/objective/reward_shaping.hpp"

RLCORE_BEGIN
namespace train {

/// A program that scores: custom_reward_function.path or rlcore.reward_command.
struct external_reward {
  std::string path = {}, command = {};  ///< one of them
  std::string function = {};            ///< of a .py file
  value arguments = {};                 ///< of that function, beside verl's four
  bool whole_batch = false;             ///< the function takes lists (reward_manager=batch)
  double timeout = 60;                  ///< seconds for one answer
  bool zero_on_failure = false;
};

/// A reward model: reward_model.model.path.
struct model_reward {
  std::string path = {};
  bool own_tokens = true;                                     ///< it reads the policy's tokens (input_tokenizer=null)
  std::int64_t max_length = 0, max_rows = 0, max_tokens = 0;  ///< 0: no limit
  bool normalize = false;                                     ///< (score - mean) / std of its config.json
};

/// The reward source of a run: the external program, the reward model, the agent, or the rules if none is set; and the
/// manager's additions.
struct reward_settings {
  bool dapo_manager = false;
  verl::version version = verl::newest;  ///< of the rules
  bool log_overlong = false;             ///< the penalty goes into the dump of responses, too
  std::optional<soft_overlong> overlong;
  std::optional<external_reward> external;
  std::optional<model_reward> model;
  bool stored = false;        ///< the scores of rlcore.replay
  bool agent = false;         ///< the agent of rlcore.agent_func_path
  bool turn_rewards = false;  ///< its rewards are at the ends of turns
};

/// After check_reward_options().
reward_settings read_reward_settings(const options& opt);

}  // namespace train
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TRAIN_PARTS)
RLCORE_BEGIN
namespace train {

RLCORE_INLINE reward_settings read_reward_settings(const options& opt) {
  reward_settings s;
  const std::string manager = opt.get<std::string>("reward_model.reward_manager"),
                    overlong = "reward_model.overlong_buffer.";
  s.dapo_manager = manager == "dapo";
  s.version = read_verl_version(opt);
  if (s.dapo_manager && opt.get<bool>(overlong + "enable"))
    s.overlong = soft_overlong{.max_length = opt.find<std::int64_t>("reward_model.max_resp_len")
                                                 .value_or(opt.get<std::int64_t>("data.max_response_length")),
                               .buffer = opt.get<std::int64_t>(overlong + "len"),
                               .factor = opt.get<double>(overlong + "penalty_factor"),
                               .limit = std::numeric_limits<double>::infinity()};
  s.log_overlong = s.overlong && opt.get<bool>(overlong + "log");
  const auto path = opt.find<std::string>("custom_reward_function.path"),
             command = opt.find<std::string>("rlcore.reward_command");
  if (path || command)
    s.external = external_reward{path.value_or(""),
                                 command.value_or(""),
                                 opt.get<std::string>("custom_reward_function.name"),
                                 opt.at("custom_reward_function.reward_kwargs"),
                                 manager == "batch",
                                 opt.get<double>("rlcore.reward_timeout"),
                                 opt.get<std::string>("rlcore.reward_on_failure") == "zero"};
  s.stored = opt.get<bool>("rlcore.replay_scores");
  s.agent = opt.find<std::string>("rlcore.agent_func_path").has_value();
  s.turn_rewards = opt.get<bool>("rlcore.turn_rewards");
  if (s.stored && (s.external || s.agent || opt.get<bool>("reward_model.enable")))
    throw config_error("rlcore.replay_scores=True takes the scores of the stored lines; leave out " +
                       std::string(path      ? "custom_reward_function.path"
                                   : command ? "rlcore.reward_command"
                                   : s.agent ? "rlcore.agent_func_path"
                                             : "reward_model.enable=True"));
  if (s.stored) s.overlong.reset();  // the stored scores have had it
  if (s.turn_rewards && !s.agent)
    throw config_error("rlcore.turn_rewards=True: only an agent (rlcore.agent_func_path) rewards turns");
  if (s.turn_rewards && opt.get<std::string>("rlcore.advantages") == "openrlhf")
    throw config_error("rlcore.turn_rewards=True: rlcore.advantages=openrlhf rewards the last token alone");
  if (s.agent && (s.external || opt.get<bool>("reward_model.enable")))
    throw config_error("rlcore.agent_func_path: the agent gives the rewards; leave out " +
                       std::string(path      ? "custom_reward_function.path"
                                   : command ? "rlcore.reward_command"
                                             : "reward_model.enable=True"));
  if (opt.get<bool>("reward_model.enable")) {
    model_reward& m = s.model.emplace();
    m.path = opt.get<std::string>("reward_model.model.path");
    if (m.path == "~/models/FsfairX-LLaMA3-RM-v0.1")  // verl's default, never intended
      throw config_error(
          "reward_model.enable=True: reward_model.model.path is not given; expected a model folder or id");
    m.own_tokens = !opt.find<std::string>("reward_model.model.input_tokenizer");
    m.normalize = opt.get<bool>("rlcore.normalize_reward");
    m.max_length = opt.find<std::int64_t>("reward_model.max_length").value_or(0);
    if (opt.find<bool>("reward_model.use_dynamic_bsz").value_or(false))
      m.max_tokens = opt.get<std::int64_t>("reward_model.forward_max_token_len_per_gpu");
    else
      m.max_rows = opt.find<std::int64_t>("reward_model.micro_batch_size_per_gpu")
                       .value_or(opt.find<std::int64_t>("reward_model.micro_batch_size").value_or(0));
  }
  return s;
}

}  // namespace train
RLCORE_END
#endif
