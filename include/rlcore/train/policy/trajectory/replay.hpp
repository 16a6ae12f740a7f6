// Replay (rlcore.replay): stored responses instead of sampled ones, to compare devices, precisions or algorithms on the
// same data.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "rlcore/checkpoint/hugging_face.hpp"
#include "rlcore/data/jsonl.hpp"
#include "rlcore/data/prompt_dataset.hpp"
#include "rlcore/telemetry/console.hpp"
#include "rlcore/text/parse_json.hpp"
#include "rlcore/text/text_file.hpp"
#include "rlcore/text/tokenizer.hpp"
#include "rlcore/train/policy/inputs.hpp"
#include "rlcore/train/policy/trajectory/trajectory.hpp"

RLCORE_BEGIN
namespace train {

/// The rollouts of a run as trainer.rollout_data_dir has them: a folder of <step>.jsonl, or one file of such lines.
/// Lines with "row", "prompt_ids" and "response_ids" (ours) are taken as they are, in their order, with "log_probs" if
/// they are there. Lines of text alone (verl's: input, output) are tokenized again, their end token is put back where
/// the response is shorter than the limit, and equal prompts are put beside each other; their tokens may be cut
/// otherwise than they were sampled. Only the places of the lines are kept in memory.
class replay {
 public:
  /// Requirements on the stored responses.
  struct run {
    const data::prompt_dataset& prompts;
    const text::tokenizer& tokenizer;
    std::span<const std::int32_t> eos_ids;
    std::int64_t max_response_length = 0, trajectories_per_step = 0, samples = 1;
    std::vector<std::int32_t> never_sampled = {};  ///< tokens that stand for images
  };

  /// Reads and checks every line. Throws file_error, data_error (file and line), before anything is trained.
  replay(const std::filesystem::path& path, const run& fits);
  replay(const replay&) = delete;
  replay& operator=(const replay&) = delete;

  /// Throws data_error unless every step from `first` to `last` exists.
  void require(std::int64_t first, std::int64_t last) const;

  /// What was sampled in a step, prompt by prompt, the groups that were kept for a later step last; `rollout_logp`
  /// holds the recorded log-probs, if they were.
  std::vector<trajectory> operator()(std::int64_t step) const;

  /// How many responses there are, and how many of them are text alone.
  std::size_t size() const noexcept { return size_; }
  std::size_t text_only() const noexcept { return text_only_; }

 private:
  struct place {
    std::size_t file = 0, line = 0;
    std::uint64_t offset = 0;
    std::uint32_t row = 0, sample = 0;
    std::int64_t sampled = 0;  ///< in which step
    bool text = false;
  };

  std::string where(const place& p) const { return files_[p.file].string() + ": line " + std::to_string(p.line); }

  void index(std::size_t file);

  /// Whole groups, as many as the run trains on; lines of text are put together by prompt first.
  void check(std::int64_t step, std::vector<place>& lines) const;

  static std::vector<std::int32_t> ids(const data::row& r, const char* name, const std::string& where);

  trajectory read(const data::row& r, const std::string& where) const;

  /// The row whose prompt reads as "input" does, with or without special tokens.
  std::uint32_t row_of(const data::row& r, const std::string& where) const;

  std::filesystem::path path_;
  run run_;
  std::vector<std::int32_t> eos_;
  std::vector<std::filesystem::path> files_;
  std::map<std::int64_t, std::vector<place>> steps_;    ///< by the step that trained on them
  std::map<std::int64_t, std::vector<place>> sampled_;  ///< by the step that sampled them, in the order of their use
  mutable std::unordered_map<std::string, std::uint32_t> rows_;  ///< prompt text [NUL ground truth] -> row
  std::size_t size_ = 0, text_only_ = 0;
};

/// "replay  24 responses from runs/a/rollouts ...".
std::string replay_text(const policy_settings& s, const replay& stored);

/// The responses set on the command line, from step `first` on; nullptr if unset. Throws config_error or data_error if
/// they do not fit the run. The tokenizer and the prompts of `in` must outlive it.
std::unique_ptr<replay> open_replay(const policy_inputs& in, std::int64_t first);

}  // namespace train

RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TRAIN_PARTS)
RLCORE_BEGIN
namespace train {

RLCORE_INLINE replay::replay(const std::filesystem::path& path, const run& fits) : path_(path), run_(fits) {
  eos_.assign(run_.eos_ids.begin(), run_.eos_ids.end());
  run_.eos_ids = eos_;
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
  for (std::int64_t step = first; step <= last; ++step)
    if (!steps_.contains(step))
      throw data_error(path_.string() + ": no responses of step " + std::to_string(step) + "; the run needs steps " +
                       std::to_string(first) + " to " + std::to_string(last) + ", stored are " +
                       (steps_.empty()
                            ? "none"
                            : std::to_string(steps_.begin()->first) + " to " + std::to_string(steps_.rbegin()->first)));
}

RLCORE_INLINE std::vector<trajectory> replay::operator()(std::int64_t step) const {
  std::vector<trajectory> batch;
  const auto known = sampled_.find(step);
  if (known == sampled_.end()) return batch;  // the step before left enough
  for (const place& p : known->second) {
    std::ifstream file(files_[p.file], std::ios::binary);
    file.seekg(static_cast<std::streamoff>(p.offset));
    std::string line;
    if (!std::getline(file, line)) throw file_error(files_[p.file].string() + ": cannot read; it has changed");
    batch.push_back(read(data::parse_row(line, where(p)), where(p)));
  }
  return batch;
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
    const trajectory t = read(r, where(p));
    p.row = t.row, p.sample = t.sample;
    p.text = !r.contains("response_ids");
    ++size_, text_only_ += p.text;
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

RLCORE_INLINE std::vector<std::int32_t> replay::ids(const data::row& r, const char* name, const std::string& where) {
  const data::row& list = data::column(r, name, where);
  std::vector<std::int32_t> out;
  if (list.is_array())
    for (const data::row& id : list) {
      if (!id.is_number_integer() || id.get<std::int64_t>() < 0 || id.get<std::int64_t>() > INT32_MAX) break;
      out.push_back(id.get<std::int32_t>());
    }
  if (!list.is_array() || out.empty() || out.size() != list.size())
    throw data_error(where + ": \"" + name + "\" is no list of token ids");
  return out;
}

RLCORE_INLINE trajectory replay::read(const data::row& r, const std::string& where) const {
  trajectory t;
  std::vector<std::int32_t> response;
  if (r.contains("response_ids")) {
    const data::row& row = data::column(r, "row", where);
    if (!row.is_number_unsigned() || row.get<std::uint64_t>() >= run_.prompts.size())
      throw data_error(where + ": row " + data::printable(text::json_text(row)) + " of " +
                       std::to_string(run_.prompts.size()) + " in data.train_files: other data?");
    t.row = row.get<std::uint32_t>();
    t.tokens = ids(r, "prompt_ids", where);
    if (t.tokens != run_.prompts[t.row].ids)
      throw data_error(where + ": \"prompt_ids\" are not the tokens of row " + std::to_string(t.row) +
                       " of data.train_files: other data, tokenizer or chat template");
    if (r.contains("sample") && r["sample"].is_number_unsigned()) t.sample = r["sample"].get<std::uint32_t>();
    response = ids(r, "response_ids", where);
    for (const std::int32_t id : response)
      if (id < 0 || static_cast<std::size_t>(id) >= run_.tokenizer.vocab_size())
        throw data_error(where + ": token " + std::to_string(id) + " is not in the vocabulary of " +
                         std::to_string(run_.tokenizer.vocab_size()));
    if (r.contains("mask")) {
      const auto context = context_of(ids(r, "mask", where), std::ssize(response));
      if (!context)
        throw data_error(where + ": \"mask\" is " + data::printable(text::json_text(r["mask"])) +
                         "; expected the lengths of runs, the policy's and others in turn, an odd number of them, " +
                         std::to_string(response.size()) + " tokens in all");
      t.context = *context;
    }
    const auto count = [&](const char* name, std::int32_t& to) {
      if (r.contains(name) && r[name].is_number_unsigned() && r[name].get<std::uint64_t>() <= INT32_MAX)
        to = r[name].get<std::int32_t>();
    };
    count("num_turns", t.talk.turns), count("tool_calls", t.talk.calls);
    if (r.contains("log_probs")) {
      for (const data::row& x : r["log_probs"]) t.rollout_logp.push_back(x.is_number() ? x.get<float>() : 0.0f);
      std::size_t written = response.size();
      for (const rollout::context_run& c : t.context) written -= static_cast<std::size_t>(c.count);
      if (t.rollout_logp.size() != written)
        throw data_error(where + ": " + std::to_string(t.rollout_logp.size()) + " log_probs of " +
                         std::to_string(written) + " tokens");
    }
  } else {
    t.row = row_of(r, where);
    if (!run_.prompts[t.row].images.empty())
      throw data_error(where +
                       ": text alone does not say which images were shown; expected a line with \"row\", "
                       "\"prompt_ids\" and \"response_ids\" (trainer.rollout_data_dir writes them)");
    t.tokens = run_.prompts[t.row].ids;
    response = run_.tokenizer.encode(data::string_column(r, "output", where), false);
    if (std::ssize(response) < run_.max_response_length) response.push_back(run_.eos_ids.front());
  }
  for (const std::int32_t id : response)
    if (std::find(run_.never_sampled.begin(), run_.never_sampled.end(), id) != run_.never_sampled.end())
      throw data_error(where + ": the response has token " + std::to_string(id) + ", " + run_.tokenizer.token_of(id) +
                       ", which stands for an image; no response can have it");
  if (std::ssize(response) > run_.max_response_length)
    throw data_error(where + ": a response of " + std::to_string(response.size()) +
                     " tokens; data.max_response_length=" + std::to_string(run_.max_response_length));
  if (r.contains("gts") && r["gts"].is_string() && r["gts"] != run_.prompts[t.row].ground_truth)
    throw data_error(where + ": \"gts\" is " + data::printable(text::json_text(r["gts"])) + ", row " +
                     std::to_string(t.row) + " of data.train_files has '" +
                     data::printable(run_.prompts[t.row].ground_truth) + "'");
  t.prompt_length = static_cast<std::int32_t>(t.tokens.size());
  t.tokens.insert(t.tokens.end(), response.begin(), response.end());
  const bool ended = std::find(run_.eos_ids.begin(), run_.eos_ids.end(), response.back()) != run_.eos_ids.end();
  t.reason = ended ? rollout::finish::eos : rollout::finish::length;
  return t;
}

RLCORE_INLINE std::uint32_t replay::row_of(const data::row& r, const std::string& where) const {
  if (rows_.empty())
    for (std::uint32_t row = 0; row < run_.prompts.size(); ++row)
      for (const bool skip : {true, false}) {
        std::string text = run_.tokenizer.decode(run_.prompts[row].ids, skip);
        rows_.emplace(text + '\0' + run_.prompts[row].ground_truth, row);
        rows_.emplace(std::move(text), row);
      }
  const std::string input = data::string_column(r, "input", where);
  if (r.contains("gts") && r["gts"].is_string())
    if (const auto found = rows_.find(input + '\0' + r["gts"].get<std::string>()); found != rows_.end())
      return found->second;
  const auto found = rows_.find(input);
  if (found == rows_.end())
    throw data_error(where + ": \"input\" is no prompt of data.train_files: '" + data::printable(input) + "'");
  return found->second;
}

RLCORE_INLINE std::string replay_text(const policy_settings& s, const replay& stored) {
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

RLCORE_INLINE std::unique_ptr<replay> open_replay(const policy_inputs& in, std::int64_t first) {
  const policy_settings& s = in.settings;
  if (s.replay.empty()) return nullptr;
  auto stored =
      std::make_unique<replay>(checkpoint::expand_home(s.replay),
                               replay::run{in.train, in.tokenizer, in.eos_ids, s.max_response_length,
                                           in.plan.trajectories_per_step, s.samples, in.config.never_sampled()});
  stored->require(first, in.plan.total_steps);
  say("%s\n", replay_text(s, *stored).c_str());
  return stored;
}

}  // namespace train
RLCORE_END
#endif
