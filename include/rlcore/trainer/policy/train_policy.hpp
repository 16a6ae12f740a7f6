// A whole policy run from a command line: open and check everything, say what will happen, train, report.
// trainers.hpp declares it.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "rlcore/checkpoint/hugging_face.hpp"
#include "rlcore/checkpoint/resolve_model.hpp"
#include "rlcore/config/settings/batch_plan.hpp"
#include "rlcore/config/settings/rollout_ranks.hpp"
#include "rlcore/core/version.hpp"
#include "rlcore/data/prompt_dataset.hpp"
#include "rlcore/data/table.hpp"
#include "rlcore/device/any_device.hpp"
#include "rlcore/telemetry/console.hpp"
#include "rlcore/telemetry/report/report.hpp"
#include "rlcore/text/chat_template.hpp"
#include "rlcore/text/tokenizer.hpp"
#include "rlcore/trainer/policy/algorithm/any_algorithm.hpp"
#include "rlcore/trainer/policy/check_memory.hpp"
#include "rlcore/trainer/policy/loop.hpp"
#include "rlcore/trainer/policy/reward/open_rewards.hpp"
#include "rlcore/trainer/policy/rollout_model.hpp"
#include "rlcore/trainer/trainers.hpp"
#include "rlcore/training/earlier_run.hpp"
#include "rlcore/training/files/data_files.hpp"
#include "rlcore/training/frozen_model.hpp"
#include "rlcore/training/parameters_text.hpp"
#include "rlcore/training/ranks/available_memory.hpp"
#include "rlcore/training/ranks/team.hpp"

RLCORE_BEGIN
namespace trainer {

/// Reads the prompts of all files, or of their first `most` rows; unless `quiet`, says how many there are and how many
/// were left out as too long.
inline data::prompt_dataset open_prompts(const std::vector<std::string>& files, const policy_settings& s,
                                         const text::tokenizer& tokenizer, const text::chat_template& chat,
                                         const reward_source& rewards, const char* name, bool quiet = false,
                                         std::int64_t most = -1) {
  std::vector<data::table> tables;
  for (const std::string& file : files) {
    tables.push_back(data::read_table(checkpoint::expand_home(file)));
    auto& rows = tables.back().rows;
    if (most > 0 && std::ssize(rows) >= most) {
      rows.resize(static_cast<std::size_t>(most));
      break;
    }
    if (most > 0) most -= std::ssize(rows);
  }
  const data::prompt_settings settings{.prompt_key = s.prompt_key,
                                       .source_key = s.source_key,
                                       .max_prompt_length = static_cast<std::size_t>(s.max_prompt_length),
                                       .filter_overlong_prompts = s.filter_overlong_prompts,
                                       .truncation = data::parse_truncation(s.truncation),
                                       .label_key = s.label_key,
                                       .default_source = s.default_source,
                                       .needs_truth = rewards.reads_truth()};
  data::prompt_dataset prompts = data::make_prompts(
      tables, settings,
      [&](const std::vector<text::message>& m) {
        return tokenizer.encode(chat.render(m, {.add_generation_prompt = true, .enable_thinking = s.enable_thinking}));
      },
      [&](const std::string& source) { rewards.check(source); });
  if (quiet) return prompts;
  say("%-6s %zu prompts", name, prompts.size());
  if (prompts.size() != prompts.rows_read) say(" (%zu longer ones left out)", prompts.rows_read - prompts.size());
  say(" from %s\n", files.front().c_str());
  return prompts;
}

/// The same for rows that rules score.
inline data::prompt_dataset open_prompts(const std::vector<std::string>& files, const policy_settings& s,
                                         const text::tokenizer& tokenizer, const text::chat_template& chat,
                                         const char* name, bool quiet = false) {
  return open_prompts(files, s, tokenizer, chat, rule_rewards(), name, quiet);
}

/// How many prompts are equal to an earlier one: published sets hold some problems dozens of times.
inline std::size_t count_copies(const data::prompt_dataset& prompts) {
  std::vector<const std::vector<std::int32_t>*> ids;
  for (const data::prompt& p : prompts.prompts) ids.push_back(&p.ids);
  std::sort(ids.begin(), ids.end(), [](const auto* a, const auto* b) { return *a < *b; });
  std::size_t copies = 0;
  for (std::size_t i = 1; i < ids.size(); ++i) copies += *ids[i] == *ids[i - 1];
  return copies;
}

/// Bytes of keys and values that sampling may take: gpu_memory_utilization of the device's memory that is available
/// now, or of this rank's share where the memory is that of `ranks`; `part` of the heads is this rank's. Throws
/// config_error if that does not hold one sequence of the longest kind.
template <class Device>
std::size_t rollout_cache_bytes(const Device& device, const policy_settings& s, const nn::config& c, int ranks = 1,
                                const nn::partition& part = {}) {
  const auto available = available_memory_of(device, ranks);
  if (!available) return s.max_cache_bytes;
  const auto bytes = static_cast<std::size_t>(s.cache_share * static_cast<double>(*available));
  const std::size_t needed = nn::kv_cache<Device>::page_bytes(c, part) *
                             static_cast<std::size_t>(kv_pages(s.max_prompt_length + s.max_response_length - 1));
  if (needed > bytes)
    throw config_error(fmt::format(
        "actor_rollout_ref.rollout.gpu_memory_utilization={:g} allows {} of {} available bytes; the keys and values of "
        "one sequence of data.max_prompt_length + data.max_response_length = {} tokens need {}",
        s.cache_share, bytes, *available, s.max_prompt_length + s.max_response_length, needed));
  return bytes;
}

/// The policy as groups of ranks sample from it. Throws config_error, naming the key, unless it can be cut so.
template <class Device>
void open_rollout(std::optional<rollout_model<Device>>& to, actor<Device>& policy, const detail::asked_size& asked,
                  std::int64_t bucket_megabytes) {
  nn::partition part;
  part.tensor_size = static_cast<int>(asked.ranks);
  try {
    nn::check_partition(policy.model.settings(), part);
  } catch (const config_error& e) {
    throw config_error(asked.text() + ": " + e.what());
  }
  to.emplace(policy, part.tensor_size, (static_cast<std::size_t>(bucket_megabytes) << 20) / sizeof(float));
}

/// "replay  24 responses from runs/a/rollouts ...".
inline std::string replay_text(const policy_settings& s, const replay& stored) {
  const std::filesystem::path from = checkpoint::expand_home(s.replay), to = checkpoint::expand_home(s.rollout_dir);
  std::error_code absent;
  if (!s.rollout_dir.empty() && (from == to || std::filesystem::equivalent(from, to, absent) ||
                                 std::filesystem::equivalent(from.parent_path(), to, absent)))
    throw config_error("trainer.rollout_data_dir=" + s.rollout_dir + " is where rlcore.replay=" + s.replay +
                       " reads: name another folder");
  std::string text = "replay " + std::to_string(stored.size()) + " responses from " + from.string();
  if (stored.text_only() > 0)
    text += "\nnote: " + std::to_string(stored.text_only()) +
            " of them are text alone and are tokenized again: tokens may be cut otherwise than they were sampled, and "
            "those shorter than data.max_response_length get an end token";
  return text;
}

/// Throws config_error where groups that a checkpoint holds belong to other data.
inline void check_surplus(std::span<const trajectory> surplus, const data::prompt_dataset& train,
                          const std::filesystem::path& folder) {
  for (const trajectory& t : surplus)
    if (t.row >= train.size() || t.prompt_length != std::ssize(train[t.row].ids) ||
        !std::equal(train[t.row].ids.begin(), train[t.row].ids.end(), t.tokens.begin()))
      throw config_error((folder / surplus_file_name).string() +
                         ": holds answers to other prompts than data.train_files has now; train on the same files, or "
                         "pass trainer.resume_mode=disable");
}

/// The config of the critic in `folder`; it has to take every sequence of the actor. Throws config_error.
inline nn::config critic_config(const std::filesystem::path& folder, const nn::config& actor,
                                const policy_settings& s) {
  nn::config config = checkpoint::read_config(folder);
  const std::string where = "critic.model.path=" + folder.string() + ": ";
  if (config.vocab_size < actor.vocab_size)
    throw config_error(where + "its " + std::to_string(config.vocab_size) + " tokens are fewer than the actor's " +
                       std::to_string(actor.vocab_size));
  if (config.max_position_embeddings < s.max_prompt_length + s.max_response_length)
    throw config_error(where + "its " + std::to_string(config.max_position_embeddings) +
                       " positions are fewer than data.max_prompt_length + data.max_response_length");
  return config;
}

/// What the report says about the run besides its metrics.
inline run_info describe_run(const options& opt, const batch_plan& plan, const std::string& device,
                             const std::string& model) {
  run_info info{opt.get<std::string>("trainer.project_name") + "/" + opt.get<std::string>("trainer.experiment_name"),
                model,
                device,
                {},
                {}};
  for (const std::string& line : opt.overrides()) {
    const std::size_t equal = line.find('=');
    info.settings.emplace_back(line.substr(0, equal), line.substr(equal + 1));
  }
  for (const auto& [name, number] :
       {std::pair{"training prompts", plan.dataset_prompts},
        std::pair{"trajectories per step", plan.trajectories_per_step},
        std::pair{"updates per step", plan.updates_per_step},
        std::pair{"trajectories per update", plan.trajectories_per_update},
        std::pair{"steps per epoch", plan.steps_per_epoch}, std::pair{"total steps", plan.total_steps},
        std::pair{"warm-up steps", plan.warmup_steps}})
    info.derived.emplace_back(name, std::to_string(number));
  return info;
}

/// "validation  openai/gsm8k/reward/mean@1  0.160 -> 0.970": the first and the last of each core metric.
inline void print_validation(std::span<const metric_row> rows) {
  std::vector<std::pair<std::string, std::pair<double, double>>> curves;
  for (const metric_row& row : rows)
    for (const auto& [name, number] : row.values) {
      if (!name.starts_with("val-core/") || name.find("/mean@") == std::string::npos) continue;
      const auto known =
          std::find_if(curves.begin(), curves.end(), [&key = name](const auto& c) { return c.first == key; });
      const double x = row.values.get(name);
      if (known != curves.end())
        known->second.second = x;
      else
        curves.emplace_back(name, std::pair(x, x));
    }
  for (const auto& [name, ends] : curves)
    say("validation  %s  %.3f -> %.3f\n", name.substr(9).c_str(), ends.first, ends.second);
}

/// Opens and checks everything, says what will happen, trains, and writes the report.
template <class Device>
std::optional<double> train_policy(Device& device, const options& opt, const any_algorithm& algorithm, bool quiet,
                                   reward_source* custom_rewards, parallel::any_communicator* world) {
  const policy_settings s = read_settings(opt);
  const team ranks(opt, world);
  quiet = quiet || !ranks.first();
  const silence others(quiet);
  const auto say = [](const std::string& line) { trainer::say("%s\n", line.c_str()); };
  for (const std::string& note : opt.notes()) say("note: " + note);

  if (s.model_path == "~/models/deepseek-llm-7b-chat")  // verl's default, which nobody means
    throw config_error(
        "actor_rollout_ref.model.path is not given; expected a model folder or id (--help lists all keys)");
  if (s.train_files.empty()) throw config_error("data.train_files is empty; expected a file with training rows");
  if (s.val_files.empty() && s.val_only)
    throw config_error("trainer.val_only=True: data.val_files is empty; expected a file with validation rows");
  check_data_files(opt, "data.train_files", data::check_table, "prompt_data");
  check_data_files(opt, "data.val_files", data::check_table, "eval_dataset");
  const std::filesystem::path folder = checkpoint::resolve_model(s.model_path);
  nn::config config = checkpoint::read_config(folder);
  if (config.output != nn::model_output::logits)
    throw format_error((folder / "config.json").string() +
                       ": a score model cannot be a policy; expected a ...ForCausalLM");
  const text::tokenizer tokenizer = text::tokenizer::load(folder);
  const text::chat_template chat = text::chat_template::detect(folder);
  if (static_cast<std::int64_t>(tokenizer.vocab_size()) > config.vocab_size)
    throw format_error(folder.string() + ": the tokenizer has " + std::to_string(tokenizer.vocab_size()) +
                       " tokens, the model only " + std::to_string(config.vocab_size));
  if (config.max_position_embeddings < s.max_prompt_length + s.max_response_length)
    throw config_error("data.max_prompt_length + data.max_response_length = " +
                       std::to_string(s.max_prompt_length + s.max_response_length) + " is more than the model's " +
                       std::to_string(config.max_position_embeddings) + " positions (max_position_embeddings)");
  std::vector<std::int32_t> eos = config.eos_token_ids;
  if (eos.empty() && tokenizer.eos_id()) eos.push_back(*tokenizer.eos_id());
  if (eos.empty()) throw format_error(folder.string() + ": neither config.json nor the tokenizer names an EOS token");

  const opened_rewards rewards(device, s.reward, folder, s.logits_bytes, custom_rewards);
  const data::prompt_dataset train =
      open_prompts(s.train_files, s, tokenizer, chat, *rewards, "train", false, s.train_rows);
  data::prompt_dataset val;
  if (!s.val_files.empty())
    val = open_prompts(s.val_files, s, tokenizer, chat, *rewards, "val", false, s.val_rows);
  else
    say("val    none: data.val_files is empty, so that nothing is validated");
  if (const std::size_t copies = count_copies(train); copies > 0)
    say(fmt::format("note: {} of {} training prompts are copies of earlier ones", copies, train.size()));
  batch_plan plan = make_batch_plan(opt, std::ssize(train.prompts), ranks.size());
  check_memory(plan, s, train, val, ranks);
  policy_settings settings = s;
  settings.schedule.total_steps = plan.scheduled_steps;
  settings.schedule.warmup_steps = plan.warmup_steps;
  if (!device.batch_invariant()) {
    settings.recompute_old_log_prob = true;
    say("note: sums of this device depend on the batch in their last places: old log-probs are computed again");
  }

  const auto value_settings = read_critic_settings(opt, plan, inputs_of(algorithm).values);
  check_rollout_ranks(opt, ranks.size());
  const auto rollout_group = rollout_ranks(opt, ranks.size());
  if (rollout_group && ranks.world().settings().tp_reduce_chunks == 0 && !settings.recompute_old_log_prob) {
    settings.recompute_old_log_prob = true;
    say("note: " + rollout_group->text() +
        " adds up in another order than training without rlcore.row_chunks: old log-probs are computed again");
  }

  actor<Device> policy(device, config, settings, &ranks.world());
  std::optional<rollout_model<Device>> rollout;
  if (rollout_group)
    open_rollout(rollout, policy, *rollout_group,
                 opt.get<std::int64_t>("actor_rollout_ref.rollout.update_weights_bucket_megabytes"));
  std::string model_text = fmt::format("{}: {}, {} layers, hidden {}, {}", folder.string(), nn::name_of(config.model),
                                       config.num_hidden_layers, config.hidden_size, parameters_text(policy));
  if (s.lora)
    model_text += fmt::format(", {:.3g} M of them trained (LoRA, rank {}, alpha {:g})",
                              static_cast<double>(policy.trained_size()) * 1e-6, s.lora->rank, s.lora->alpha);
  const std::string device_text = describe(device) + ranks.describe();
  say("model  " + model_text + "\ndevice " + device_text + "\n\n" + plan.table());
  if (rollout)
    say(fmt::format(
        "rollout {} groups of {} ranks: {:.3g} M parameters each while sampling, {:.3g} M of them from others",
        rollout->groups(), rollout->size(), static_cast<double>(rollout->model().size()) * 1e-6,
        static_cast<double>(rollout->plan().received()) * 1e-6));
  for (const std::string& warning : plan.warnings) say("warning: " + warning);
  std::fflush(stdout);

  const std::filesystem::path root = checkpoint::expand_home(s.root);
  const checkpoint::resume_point from =
      checkpoint::find_resume(s.resume_mode, checkpoint::expand_home(s.resume_path).string(), root);
  ranks.agree(from.step, "checkpoint", root);
  if (!from.notice.empty()) say("note: " + from.notice);
  std::optional<frozen_model<Device>> reference;
  const bool needs_reference = s.reward_kl.enabled || contains(algorithm.reads(), field::ref_logp);
  if (needs_reference && !s.lora) reference.emplace(device, config, &ranks.world()).load(folder);
  std::optional<critic<Device>> value_model;
  std::filesystem::path value_folder = folder;
  if (value_settings) {
    if (!value_settings->model_path.empty()) value_folder = checkpoint::resolve_model(value_settings->model_path);
    value_model.emplace(device, critic_config(value_folder, config, s), *value_settings, s.logits_bytes, s.seed,
                        &ranks.world());
    say("critic " + value_folder.string() +
        (value_settings->model_path.empty() ? ": the actor's model, since critic.model.path is not given" : ""));
  }
  std::optional<replay> stored;
  if (!s.replay.empty()) {
    stored.emplace(checkpoint::expand_home(s.replay),
                   replay::run{train, tokenizer, eos, s.max_response_length, plan.trajectories_per_step, s.samples});
    stored->require((from ? from.step : 0) + 1, plan.total_steps);
    say(replay_text(s, *stored));
  }
  run_state state;
  if (!from || s.lora) policy.load(folder);
  if (value_model && (!from || value_settings->lora)) value_model->load(value_folder);
  if (from) {
    state = load_state(from.folder, policy, value_model ? &*value_model : nullptr, s.seed);
    say("resumed after step " + std::to_string(state.step) + " from " + from.folder.string());
    if (!policy.notice().empty()) say("note: " + policy.notice());
  }

  settings.max_cache_bytes =
      ranks.least(rollout_cache_bytes(device, settings, policy.model.settings(), ranks.of_this_machine(),
                                      rollout ? rollout->model().part() : policy.model.part()));
  say(fmt::format("cache  at most {:.3g} GiB of keys and values while sampling",
                  static_cast<double>(settings.max_cache_bytes) / (1024.0 * 1024 * 1024)));

  settings.root = root.string();
  logger log = ranks.first()
                   ? logger(s.loggers, root, from ? from.step : -1, checkpoint::expand_home(s.events_dir).string())
                   : logger({"file"}, {});  // which keeps the rows and writes nothing
  if (const std::string note = earlier_run_note(opt, log, root); !note.empty()) say(note);
  progress bar(stderr, ranks.first() && isatty(fileno(stderr)) != 0);
  nn::causal_lm<Device>* const against = reference ? &reference->model : needs_reference ? &policy.model : nullptr;
  policy_loop<Device, any_algorithm> loop(
      {settings, algorithm, plan, tokenizer, folder, train, s.val_files.empty() ? nullptr : &val, policy, *rewards,
       against, eos, value_model ? &*value_model : nullptr, stored ? &*stored : nullptr, &ranks.world(),
       rollout ? &*rollout : nullptr},
      log, bar);
  if (from) {
    check_surplus(state.surplus, train, from.folder);
    loop.resume(state);
  }
  const std::optional<double> result = loop.run();
  if (!loop.stopped().empty()) say("stopped     " + loop.stopped());
  if (!ranks.first()) return result;
  if (s.report) {
    const std::filesystem::path report = root / "report.html";
    write_report(report, describe_run(opt, plan, device_text, model_text), log.rows());
    say("report      " + report.string());
  }
  say("metrics     " + log.path().string());
  print_validation(log.rows());
  if (const auto last = checkpoint::read_tracker(root))
    say("checkpoint  " + (checkpoint::step_folder(root, *last) / "actor" / "huggingface").string());
  return result;
}

/// With read_algorithm().
template <class Device>
std::optional<double> train_policy(Device& device, const options& opt, parallel::any_communicator* world) {
  return train_policy(device, opt, read_algorithm(opt), false, nullptr, world);
}

/// train_policy() with a reward function of your own: f(answer) gives a number or a verify::verdict.
template <class Device, reward_function F>
std::optional<double> train_policy(Device& device, const options& opt, F function,
                                   parallel::any_communicator* world = nullptr) {
  const policy_settings s = read_settings(opt);
  function_rewards<F> custom_rewards(std::move(function), s.reward.dapo_manager);
  return train_policy(device, opt, s.algorithm, false, &custom_rewards, world);
}

}  // namespace trainer
RLCORE_END
