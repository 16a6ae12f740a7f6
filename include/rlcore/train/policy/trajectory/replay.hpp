// Rollout log (trainer.rollout_data_dir), and replay (rlcore.replay): stored responses instead of sampled ones, to
// compare devices, precisions or algorithms on the same data, or those of another engine that samples while the run
// waits.
#pragma once

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "rlcore/checkpoint/atomic_file.hpp"
#include "rlcore/checkpoint/hugging_face.hpp"
#include "rlcore/data/jsonl.hpp"
#include "rlcore/data/prompt_dataset.hpp"
#include "rlcore/telemetry/console.hpp"
#include "rlcore/telemetry/tensorboard.hpp"
#include "rlcore/text/parse_json.hpp"
#include "rlcore/text/text_file.hpp"
#include "rlcore/text/tokenizer.hpp"
#include "rlcore/train/policy/inputs.hpp"
#include "rlcore/train/policy/trajectory/stored_response.hpp"
#include "rlcore/train/policy/trajectory/trajectory.hpp"
#include "rlcore/train/run/interrupt.hpp"

RLCORE_BEGIN
namespace train {

/// The rollouts of a run as trainer.rollout_data_dir has them: a folder of <step>.jsonl, or one file of such lines.
/// Lines with "row", "prompt_ids" and "response_ids" (ours) are taken as they are, in their order, with "log_probs" if
/// they are there. Lines of text alone (verl's: input, output) are tokenized again, their end token is put back where
/// the response is shorter than the limit, and equal prompts are put beside each other; their tokens may be cut
/// otherwise than they were sampled. Only the places of the lines are kept in memory.
class replay {
 public:
  using run = stored_run;

  /// Reads and checks every line, unless the run waits for them. Throws file_error, data_error (file and line), before
  /// anything is trained.
  replay(const std::filesystem::path& path, const run& fits);
  replay(const replay&) = delete;
  replay& operator=(const replay&) = delete;

  /// Throws data_error unless every step from `first` to `last` exists.
  void require(std::int64_t first, std::int64_t last) const;

  /// What was sampled in a step, prompt by prompt, the groups that were kept for a later step last; `rollout_logp`
  /// holds the recorded log-probs, if they were. Where the run waits: the lines of <step>.jsonl, once it is there;
  /// throws data_error if it does not come, sampling_interrupted if the run is asked to stop.
  std::vector<trajectory> operator()(std::int64_t step);
  /// Whether the run waits for files.
  bool waits() const noexcept { return run_.wait_s > 0; }

  /// How many responses there are, and how many of them are text alone.
  std::size_t size() const noexcept { return size_; }
  std::size_t text_only() const noexcept { return text_only_; }
  /// How many have routed_experts that are not read.
  std::size_t unread_routes() const noexcept { return unread_routes_; }

 private:
  struct place {
    std::size_t file = 0, line = 0;
    std::uint64_t offset = 0;
    std::uint32_t row = 0, sample = 0;
    bool has_sample = false;
    std::int64_t sampled = 0;  ///< in which step
    bool text = false;
  };

  std::string where(const place& p) const { return files_[p.file].string() + ": line " + std::to_string(p.line); }

  void index(std::size_t file);
  /// Waits for the file of a step, and indexes it.
  void await(std::int64_t step);

  /// Whole groups, as many as the run trains on; lines of text are put together by prompt first.
  void check(std::int64_t step, std::vector<place>& lines) const;

  trajectory read(const place& p) const;

  std::filesystem::path path_;
  run run_;
  std::vector<std::int32_t> eos_;  ///< that run_ reads
  response_reader read_;
  std::vector<std::filesystem::path> files_;
  std::map<std::int64_t, std::vector<place>> steps_;    ///< by the step that trained on them
  std::map<std::int64_t, std::vector<place>> sampled_;  ///< by the step that sampled them, in the order of their use
  std::size_t size_ = 0, text_only_ = 0, unread_routes_ = 0;
};

/// "replay  24 responses from runs/a/rollouts ...".
std::string replay_text(const policy_settings& s, const replay& stored);

/// The responses set on the command line, from step `first` on; nullptr if unset. Throws config_error or data_error if
/// they do not fit the run. The tokenizer and the prompts of `in` must outlive it.
std::unique_ptr<replay> open_replay(const policy_inputs& in, std::int64_t first, bool alone = true);

/// A log-prob with the few digits that tell floats apart.
double short_decimal(float x);

/// Moves <folder>/<step>.jsonl of steps after `last_step` out of the way, as set_aside() does.
std::filesystem::path set_aside_rollouts(const std::filesystem::path& folder, std::int64_t last_step);

/// Writes <folder>/<step>.jsonl with verl's keys: input, output, gts, score, step; and what rlcore.replay needs to get
/// the same bits: row of the data set, sample, prompt_ids, response_ids, log_probs, as recorded while sampling, and
/// sampled_step, where an earlier step sampled the response; sampled_by, [step, tokens] of each step that drew of it,
/// where there are several; in runs of several turns: num_turns,
/// tool_calls, turn_rewards, turn_score and extra_logs where an environment gave them, and mask, the lengths of the
/// runs of tokens that the policy wrote and did not write in turn, if there are such; log_probs are those of the
/// policy's tokens; with rlcore.keep_sampling_mask sampling_mask, for each of them the ids that could be drawn,
/// ascending (none: all); the routed_experts that were replayed. `with_overlong` adds overlong_reward, the penalty that
/// is part of the score, and overlong, whether there is one. Throws file_error.
void write_rollouts(const std::filesystem::path& folder, std::int64_t step, std::span<const trajectory> batch,
                    const data::prompt_dataset& prompts, const text::tokenizer& tokenizer, bool with_overlong = false);

}  // namespace train
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TRAIN_PARTS)
RLCORE_BEGIN
namespace train {

RLCORE_INLINE replay::replay(const std::filesystem::path& path, const run& fits)
    : path_(path), run_(fits), eos_(fits.eos_ids.begin(), fits.eos_ids.end()), read_(run_) {
  run_.eos_ids = eos_;
  if (waits()) {
    if (!std::filesystem::is_directory(path))
      throw config_error("rlcore.replay=" + path.string() +
                         ": with rlcore.replay_wait_s, expected a folder in which <step>.jsonl will appear");
    return;
  }
  if (std::filesystem::is_directory(path)) {
    for (const auto& entry : std::filesystem::directory_iterator(path))
      if (entry.path().extension() == ".jsonl") files_.push_back(entry.path());
    std::sort(files_.begin(), files_.end());
    if (files_.empty()) throw file_error(path.string() + ": no *.jsonl in this folder; expected <step>.jsonl");
  } else {
    files_.push_back(path);
  }
  for (std::size_t file = 0; file < files_.size(); ++file) index(file);
  for (auto& [step, lines] : steps_) {
    check(step, lines);
    for (const place& p : lines) sampled_[p.sampled].push_back(p);
  }
}

RLCORE_INLINE void replay::require(std::int64_t first, std::int64_t last) const {
  if (waits()) return;
  for (std::int64_t step = first; step <= last; ++step)
    if (!steps_.contains(step))
      throw data_error(path_.string() + ": no responses of step " + std::to_string(step) + "; the run needs steps " +
                       std::to_string(first) + " to " + std::to_string(last) + ", stored are " +
                       (steps_.empty()
                            ? "none"
                            : std::to_string(steps_.begin()->first) + " to " + std::to_string(steps_.rbegin()->first)));
}

RLCORE_INLINE void replay::await(std::int64_t step) {
  const std::filesystem::path file = path_ / (std::to_string(step) + ".jsonl");
  const auto begin = std::chrono::steady_clock::now();
  while (!std::filesystem::exists(file)) {
    if (run_.alone && asked_to_stop() != 0) throw sampling_interrupted();  // several ranks finish the step together
    if (std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() > run_.wait_s)
      throw data_error(file.string() + " has not come (rlcore.replay_wait_s)");
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  files_.push_back(file);
  index(files_.size() - 1);
  if (steps_.empty()) throw data_error(file.string() + " has no responses");
  if (steps_.size() != 1 || steps_.begin()->first != step)
    throw data_error(file.string() + ": \"step\" of every line has to be " + std::to_string(step));
  check(step, steps_[step]);
}

RLCORE_INLINE std::vector<trajectory> replay::operator()(std::int64_t step) {
  std::vector<trajectory> batch;
  if (waits() || run_.by_training_step) {
    if (waits()) steps_.clear(), await(step);
    for (const place& p : steps_[step]) batch.push_back(read(p)), batch.back().sampled_step = p.sampled;
    return batch;
  }
  const auto known = sampled_.find(step);
  if (known == sampled_.end()) return batch;  // the step before left enough
  for (const place& p : known->second) batch.push_back(read(p));
  return batch;
}

RLCORE_INLINE trajectory replay::read(const place& p) const {
  std::ifstream file(files_[p.file], std::ios::binary);
  file.seekg(static_cast<std::streamoff>(p.offset));
  std::string line;
  if (!std::getline(file, line)) throw file_error(files_[p.file].string() + ": cannot read; it has changed");
  trajectory t = read_(data::parse_row(line, where(p)), where(p));
  t.sample = p.sample;
  return t;
}

RLCORE_INLINE void replay::index(std::size_t file) {
  text::check_input_kind(files_[file]);
  std::ifstream in(files_[file], std::ios::binary);
  if (!in) data::throw_file_error(files_[file], "open");
  std::int64_t of_name = 0;
  const std::string stem = files_[file].stem().string();
  std::from_chars(stem.data(), stem.data() + stem.size(), of_name);
  std::string line;
  place p{.file = file};
  for (p.line = 1; std::getline(in, line); ++p.line, p.offset = static_cast<std::uint64_t>(in.tellg())) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) {
      if (in.eof()) break;
      continue;
    }
    const data::row r = data::parse_row(line, where(p));
    const trajectory t = read_(r, where(p));
    p.row = t.row, p.sample = t.sample, p.has_sample = r.contains("sample");
    p.text = !r.contains("response_ids");
    ++size_, text_only_ += p.text;
    unread_routes_ += run_.routes == nullptr && r.contains("routed_experts");
    const bool numbered = r.contains("step") && r["step"].is_number_integer();
    if (!numbered && of_name <= 0)
      throw data_error(where(p) + ": no integer \"step\", and the file is not called <step>.jsonl");
    const std::int64_t step = numbered ? r["step"].get<std::int64_t>() : of_name;
    p.sampled = step;
    if (r.contains("sampled_step")) {
      const data::row& sampled = r["sampled_step"];
      p.sampled = sampled.is_number_integer() ? sampled.get<std::int64_t>() : 0;
      if (p.sampled < 1 || p.sampled > step)
        throw data_error(where(p) + ": \"sampled_step\" is " + data::printable(text::json_text(sampled)) +
                         "; expected a step from 1 to " + std::to_string(step));
    }
    steps_[step].push_back(p);
    if (in.eof()) break;
  }
}

RLCORE_INLINE void replay::check(std::int64_t step, std::vector<place>& lines) const {
  const std::string at = path_.string() + ": step " + std::to_string(step);
  if (std::ssize(lines) != run_.trajectories_per_step)
    throw data_error(at + " has " + std::to_string(lines.size()) + " responses; this run trains on " +
                     std::to_string(run_.trajectories_per_step) + " a step (data.train_batch_size x rollout.n)");
  if (std::any_of(lines.begin(), lines.end(), [](const place& p) { return p.text; })) {
    std::map<std::uint32_t, std::size_t> first;  // row -> where it came up
    for (std::size_t i = 0; i < lines.size(); ++i) first.emplace(lines[i].row, i);
    std::stable_sort(lines.begin(), lines.end(),
                     [&](const place& a, const place& b) { return first[a.row] < first[b.row]; });
  }
  const auto n = static_cast<std::size_t>(run_.samples);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (!lines[i].has_sample) lines[i].sample = static_cast<std::uint32_t>(i % n);
    if (lines[i].row != lines[i / n * n].row)
      throw data_error(where(lines[i]) + ": a response to row " + std::to_string(lines[i].row) + " in a group of row " +
                       std::to_string(lines[i / n * n].row) +
                       "; expected groups of rollout.n=" + std::to_string(run_.samples) + " responses");
    for (std::size_t k = i / n * n; k < i; ++k)
      if (!lines[i].text && lines[k].sample == lines[i].sample)
        throw data_error(where(lines[i]) + ": sample " + std::to_string(lines[i].sample) + " of row " +
                         std::to_string(lines[i].row) + " is there twice");
  }
}

RLCORE_INLINE std::string replay_text(const policy_settings& s, const replay& stored) {
  const std::filesystem::path from = checkpoint::expand_home(s.replay), to = checkpoint::expand_home(s.rollout_dir);
  std::error_code absent;
  if (!s.rollout_dir.empty() && (from == to || std::filesystem::equivalent(from, to, absent) ||
                                 std::filesystem::equivalent(from.parent_path(), to, absent)))
    throw config_error("trainer.rollout_data_dir=" + s.rollout_dir + " is where rlcore.replay=" + s.replay +
                       " reads: name another folder");
  if (stored.waits()) return "replay the responses of each step, as they come in " + from.string();
  std::string text = "replay " + std::to_string(stored.size()) + " responses from " + from.string();
  if (stored.text_only() > 0)
    text += "\nnote: " + std::to_string(stored.text_only()) +
            " of them are text alone and are tokenized again: tokens may be cut otherwise than they were sampled, and "
            "those shorter than data.max_response_length get an end token";
  if (stored.unread_routes() > 0 && !s.stored_routes)
    text += "\nnote: routed_experts of " + std::to_string(stored.unread_routes()) +
            " of them are not read; actor_rollout_ref.actor.router_replay.mode=R3 trains with these experts";
  return text;
}

RLCORE_INLINE std::unique_ptr<replay> open_replay(const policy_inputs& in, std::int64_t first, bool alone) {
  const policy_settings& s = in.settings;
  if (s.replay.empty()) return nullptr;
  auto stored = std::make_unique<replay>(
      checkpoint::expand_home(s.replay),
      replay::run{in.train, in.tokenizer, in.eos_ids, s.max_response_length, in.plan.trajectories_per_step, s.samples,
                  in.config.never_sampled(), !s.tools.agent_file.empty(), s.reward.stored, s.replay_wait_s,
                  s.recorded_old_log_prob || (s.recompute_old_log_prob && (s.samples_ahead || s.async.enabled)), alone,
                  s.keep_sampling_mask, s.recorded_old_log_prob,
                  s.stored_routes && in.config.has_experts() ? &in.config : nullptr});
  stored->require(first, in.plan.total_steps);
  say("%s\n", replay_text(s, *stored).c_str());
  return stored;
}

RLCORE_INLINE double short_decimal(float x) {
  char text[32];
  double out = static_cast<double>(x);
  const auto end = std::to_chars(text, text + sizeof text, x).ptr;
  double close = 0;
  if (std::from_chars(text, end, close).ec == std::errc() && static_cast<float>(close) == x) out = close;
  return out;
}

RLCORE_INLINE std::filesystem::path set_aside_rollouts(const std::filesystem::path& folder, std::int64_t last_step) {
  return set_aside(folder, [&](const std::string& name) {
    std::int64_t step = 0;
    const auto number = std::from_chars(name.data(), name.data() + name.size(), step);
    return number.ec == std::errc() && std::string_view(number.ptr) == ".jsonl" && step > last_step;
  });
}

RLCORE_INLINE void write_rollouts(const std::filesystem::path& folder, std::int64_t step,
                                  std::span<const trajectory> batch, const data::prompt_dataset& prompts,
                                  const text::tokenizer& tokenizer, bool with_overlong) {
  std::string lines;
  for (const trajectory& t : batch) {
    std::vector<double> logp;
    for (const float x : t.rollout_logp.empty() ? t.old_logp : t.rollout_logp) logp.push_back(short_decimal(x));
    nlohmann::ordered_json line{
        {"input", tokenizer.decode(std::span(t.tokens).first(static_cast<std::size_t>(t.prompt_length)))},
        {"output", tokenizer.decode(t.response(), true)},
        {"gts", prompts[t.row].ground_truth},
        {"score", t.score()},
        {"step", step},
        {"row", t.row},
        {"sample", t.sample},
        {"prompt_ids", std::span(t.tokens).first(static_cast<std::size_t>(t.prompt_length))},
        {"response_ids", t.response()},
        {"log_probs", std::move(logp)}};
    if (with_overlong) line["overlong_reward"] = t.length_penalty, line["overlong"] = t.length_penalty < 0;
    if (t.sampled_step != 0 && t.sampled_step != step) line["sampled_step"] = t.sampled_step;
    for (const step_run& run : t.sampled_by) line["sampled_by"].push_back({run.step, run.count});
    if (t.talk.turns > 0) line["num_turns"] = t.talk.turns, line["tool_calls"] = t.talk.calls;
    if (!t.turn_rewards.empty()) line["turn_rewards"] = t.turn_rewards, line["turn_score"] = t.talk.score;
    if (!t.agent_logs.empty()) line["extra_logs"] = nlohmann::json::parse(t.agent_logs);
    if (!t.context.empty()) line["mask"] = mask_runs(t.context, t.response_length());
    if (!t.sampling_mask.empty()) {
      nlohmann::ordered_json& rows = line["sampling_mask"] = nlohmann::ordered_json::array();
      for (std::size_t i = 0; i < t.sampling_mask.rows(); ++i) rows.push_back(t.sampling_mask.row(i));
    }
    if (!t.routed_experts.empty()) line["routed_experts"] = base64_of(t.routed_experts);
    lines += text::json_text(line) + "\n";
  }
  std::error_code failure;
  std::filesystem::create_directories(folder, failure);
  if (failure) throw file_error(folder.string() + ": cannot create the folder: " + failure.message());
  checkpoint::write_file_atomically(folder / (std::to_string(step) + ".jsonl"), lines);
}

}  // namespace train
RLCORE_END
#endif
