// A stored response: a line of trainer.rollout_data_dir, or of what another engine has sampled.
#pragma once

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "rlcore/data/jsonl.hpp"
#include "rlcore/data/prompt_dataset.hpp"
#include "rlcore/nn/config.hpp"
#include "rlcore/nn/moe/routing.hpp"
#include "rlcore/text/base64.hpp"
#include "rlcore/text/parse_json.hpp"
#include "rlcore/text/tokenizer.hpp"
#include "rlcore/train/policy/reward/reward_source.hpp"
#include "rlcore/train/policy/trajectory/trajectory.hpp"

RLCORE_BEGIN
namespace train {

/// The run that stored responses have to fit.
struct stored_run {
  const data::prompt_dataset& prompts;
  const text::tokenizer& tokenizer;
  std::span<const std::int32_t> eos_ids;
  std::int64_t max_response_length = 0, trajectories_per_step = 0, samples = 1;
  std::vector<std::int32_t> never_sampled = {};  ///< tokens that stand for images
  bool other_prompts = false;                    ///< an agent may have changed the prompts
  bool scores = false;                           ///< take the lines' scores
  double wait_s = 0;                             ///< wait so long for <step>.jsonl of each step; 0: all are there
  bool by_training_step = false;                 ///< old log-probs are not those of the step that sampled
  bool alone = true;                             ///< one rank: a signal ends the waiting
  bool sampling_mask = false;                    ///< every line has to have one
  bool log_probs = false;                        ///< every line has to have them
  const nn::config* routes = nullptr;            ///< every line has to have the experts of this model's tokens
};

/// routed_experts in a line: little-endian integers of 32 bits, in base64.
std::string base64_of(std::span<const std::int16_t> ids);

/// Reads lines.
class response_reader {
 public:
  /// `fits` must outlive this object.
  explicit response_reader(const stored_run& fits) : run_(fits) {}
  /// Throws data_error with `where` for a line that does not fit the run.
  trajectory operator()(const data::row& r, const std::string& where) const;

 private:
  static std::vector<std::int32_t> ids(const data::row& r, const char* name, const std::string& where);
  /// Whose the tokens of a response of this length are, and what tools and environments gave.
  static void read_turns(const data::row& r, const std::string& where, std::int64_t length, trajectory& t);
  /// The tokens that could be drawn in place of each token of the policy.
  void read_mask(const data::row& r, const std::string& where, trajectory& t) const;
  /// The experts of each token but the last: lists, as vLLM has them, or SGLang's base64 of 32-bit integers.
  void read_experts(const data::row& r, const std::string& where, trajectory& t) const;
  /// The inverse of base64_of().
  static std::vector<std::int32_t> integers_of(const std::string& base64);
  /// The row whose prompt reads as "input" does, with or without special tokens.
  std::uint32_t row_of(const data::row& r, const std::string& where) const;

  const stored_run& run_;
  mutable std::unordered_map<std::string, std::uint32_t> rows_;  ///< prompt text [NUL ground truth] -> row
};

}  // namespace train
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TRAIN_PARTS)
RLCORE_BEGIN
namespace train {

RLCORE_INLINE std::vector<std::int32_t> response_reader::ids(const data::row& r, const char* name,
                                                             const std::string& where) {
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

RLCORE_INLINE void response_reader::read_turns(const data::row& r, const std::string& where, std::int64_t length,
                                               trajectory& t) {
  if (r.contains("mask")) {
    const auto context = context_of(ids(r, "mask", where), length);
    if (!context)
      throw data_error(where + ": \"mask\" is " + data::printable(text::json_text(r["mask"])) +
                       "; expected the lengths of runs, the policy's and others in turn, an odd number of them, " +
                       std::to_string(length) + " tokens in all");
    t.context = *context;
  }
  const auto count = [&](const char* name, std::int32_t& to) {
    if (r.contains(name) && r[name].is_number_unsigned() && r[name].get<std::uint64_t>() <= INT32_MAX)
      to = r[name].get<std::int32_t>();
  };
  count("num_turns", t.talk.turns), count("tool_calls", t.talk.calls);
  const auto real = [&](const char* name, double& to) {
    if (r.contains(name) && r[name].is_number()) to = r[name].get<double>();
  };
  real("turn_score", t.talk.score);
  if (r.contains("turn_rewards")) {
    for (const data::row& x : r["turn_rewards"]) {
      if (!x.is_number()) throw data_error(where + ": \"turn_rewards\" has " + data::printable(text::json_text(x)));
      t.turn_rewards.push_back(x.get<double>());
    }
    if (t.turn_rewards.size() != t.context.size() + 1)
      throw data_error(where + ": " + std::to_string(t.turn_rewards.size()) + " turn_rewards of " +
                       std::to_string(t.context.size() + 1) + " turns");
    for (const double x : t.turn_rewards) t.talk.reward += x;
  }
  if (r.contains("extra_logs")) {
    nlohmann::json logs = nlohmann::json::object();
    for (const auto& [name, x] : r["extra_logs"].items())
      if (x.is_number()) logs[name] = x.get<double>();
    t.agent_logs = logs.dump();
  }
}

RLCORE_INLINE void response_reader::read_mask(const data::row& r, const std::string& where, trajectory& t) const {
  if (!r.contains("sampling_mask"))
    throw data_error(where +
                     ": no \"sampling_mask\" of the engine that sampled (for each token the ids that top_k, top_p and "
                     "min_p left); rlcore.keep_sampling_mask=False takes log-probs over all tokens");
  const data::row& rows = r["sampling_mask"];
  try {
    for (const data::row& ids : rows) t.sampling_mask.push_back(text::get_exactly<std::vector<std::int32_t>>(ids));
  } catch (const nlohmann::json::exception&) {
    t.sampling_mask.clear();
  }
  if (t.sampling_mask.empty() || !t.mask_fits())
    throw data_error(where + ": \"sampling_mask\" is not a list of ascending ids, or of none, for each of the " +
                     std::to_string(t.policy_length()) + " tokens of the policy that has the token");
  for (const std::int32_t id : t.sampling_mask.values)
    if (static_cast<std::size_t>(id) >= run_.tokenizer.vocab_size())
      throw data_error(where + ": token " + std::to_string(id) + " of \"sampling_mask\" is not in the vocabulary of " +
                       std::to_string(run_.tokenizer.vocab_size()));
}

RLCORE_INLINE std::string base64_of(std::span<const std::int16_t> ids) {
  std::vector<unsigned char> bytes;
  for (const std::int32_t id : ids)
    for (int shift = 0; shift < 32; shift += 8)
      bytes.push_back(static_cast<unsigned char>(static_cast<std::uint32_t>(id) >> shift & 255));
  return text::to_base64(bytes);
}

RLCORE_INLINE std::vector<std::int32_t> response_reader::integers_of(const std::string& base64) {
  const std::vector<unsigned char> bytes = text::from_base64(base64).value_or(std::vector<unsigned char>());
  std::vector<std::int32_t> integers;
  for (std::size_t i = 0; i < bytes.size() && bytes.size() % 4 == 0; i += 4) {
    std::uint32_t x = 0;
    for (std::size_t k = 4; k-- > 0;) x = x << 8 | bytes[i + k];
    integers.push_back(static_cast<std::int32_t>(x));
  }
  return integers;
}

RLCORE_INLINE void response_reader::read_experts(const data::row& r, const std::string& where, trajectory& t) const {
  if (!r.contains("routed_experts") || !r.contains("response_ids"))
    throw data_error(where +
                     ": no \"routed_experts\" beside the \"response_ids\" of the engine that sampled; "
                     "actor_rollout_ref.actor.router_replay.mode=R2 keeps those that the policy of this run chooses");
  const nn::config& c = *run_.routes;
  const std::size_t tokens = t.tokens.size(), chosen = static_cast<std::size_t>(c.num_experts_per_tok),
                    sparse = static_cast<std::size_t>(c.sparse_layers()),
                    all = static_cast<std::size_t>(c.num_hidden_layers);
  const auto refuse = [&](const std::string& what) {
    throw data_error(where + ": \"routed_experts\" " + what + "; expected for each of the " + std::to_string(tokens) +
                     " tokens, or all but the last, null or a list of " + std::to_string(sparse) + " layers" +
                     (sparse == all ? "" : " with experts or of all " + std::to_string(all)) + ", each of " +
                     std::to_string(chosen) + " different ids below " + std::to_string(c.num_experts));
  };
  using layers = std::vector<std::vector<std::int32_t>>;
  std::vector<layers> rows;  // of each token; without layers: the model routes it
  if (const data::row& given = r["routed_experts"]; given.is_string()) {
    const std::vector<std::int32_t> ids = integers_of(given.get_ref<const std::string&>());
    std::size_t count = 0;  // of layers; engines leave the last token out
    for (const std::size_t n : {tokens, tokens - 1})
      for (const std::size_t l : {sparse, all})
        if (ids.size() == n * l * chosen) count = l;
    if (count == 0) refuse("has " + std::to_string(ids.size()) + " 32-bit integers in base64");
    for (auto from = ids.begin(); from != ids.end();) {
      layers& row = rows.emplace_back();
      for (std::size_t l = 0; l < count; ++l, from += static_cast<std::ptrdiff_t>(chosen))
        row.emplace_back(from, from + static_cast<std::ptrdiff_t>(chosen));
      if (row == layers(count, std::vector<std::int32_t>(chosen, nn::expert_choices::no_expert))) row.clear();
    }
  } else {
    if (!given.is_array()) refuse("is " + data::printable(text::json_text(given)));
    for (const data::row& token : given) {
      layers row;
      try {
        if (!token.is_null()) row = text::get_exactly<layers>(token);
      } catch (const nlohmann::json::exception&) {
      }
      if (row.empty() && !token.is_null()) refuse("of token " + std::to_string(rows.size()) + " do not fit");
      rows.push_back(std::move(row));
    }
  }
  if (rows.size() != tokens && rows.size() + 1 != tokens) refuse("has " + std::to_string(rows.size()) + " tokens");
  for (std::size_t i = 0; i + 1 < tokens; ++i) {  // nothing comes of the last one
    bool fits = rows[i].empty() || rows[i].size() == sparse || rows[i].size() == all;
    auto next = rows[i].begin();
    for (std::int64_t l = 0; l < c.num_hidden_layers && fits; ++l) {
      if (!c.sparse(l)) {
        next += rows[i].size() == all;
      } else if (rows[i].empty()) {
        t.routed_experts.insert(t.routed_experts.end(), chosen, nn::expert_choices::no_expert);
      } else {
        const std::span<const std::int32_t> ids(*next++);
        fits = ids.size() == chosen && nn::are_different(ids, c.num_experts);
        t.routed_experts.insert(t.routed_experts.end(), ids.begin(), ids.end());
      }
    }
    if (!fits) refuse("of token " + std::to_string(i) + " do not fit");
  }
}

RLCORE_INLINE trajectory response_reader::operator()(const data::row& r, const std::string& where) const {
  trajectory t;
  std::vector<std::int32_t> response;
  if (r.contains("response_ids")) {
    const data::row& row = data::column(r, "row", where);
    if (!row.is_number_unsigned() || row.get<std::uint64_t>() >= run_.prompts.size())
      throw data_error(where + ": row " + data::printable(text::json_text(row)) + " of " +
                       std::to_string(run_.prompts.size()) + " in data.train_files: other data?");
    t.row = row.get<std::uint32_t>();
    t.tokens = ids(r, "prompt_ids", where);
    if (t.tokens != run_.prompts[t.row].ids && !run_.other_prompts)
      throw data_error(where + ": \"prompt_ids\" are not the tokens of row " + std::to_string(t.row) +
                       " of data.train_files: other data, tokenizer or chat template");
    if (r.contains("sample") && r["sample"].is_number_unsigned()) t.sample = r["sample"].get<std::uint32_t>();
    response = ids(r, "response_ids", where);
    for (const std::vector<std::int32_t>* list : {&t.tokens, &response})
      for (const std::int32_t id : *list)
        if (id < 0 || static_cast<std::size_t>(id) >= run_.tokenizer.vocab_size())
          throw data_error(where + ": token " + std::to_string(id) + " is not in the vocabulary of " +
                           std::to_string(run_.tokenizer.vocab_size()));
    read_turns(r, where, std::ssize(response), t);
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
  if (run_.other_prompts && !run_.scores && t.turn_rewards.empty())
    throw data_error(where + ": no \"turn_rewards\" of the agent; rlcore.replay_scores=True takes \"score\" instead");
  if (run_.scores) {
    const data::row& score = data::column(r, "score", where);
    if (!score.is_number())
      throw data_error(where + ": \"score\" is " + data::printable(text::json_text(score)) + "; expected a number");
    t.verdict = judged(score.get<double>()).verdict;
    if (r.contains("acc") && r["acc"].is_number()) t.accuracy = r["acc"].get<double>();
  }
  t.prompt_length = static_cast<std::int32_t>(t.tokens.size());
  t.tokens.insert(t.tokens.end(), response.begin(), response.end());
  t.sampled_ids = t.ids_hash();
  if (run_.sampling_mask) read_mask(r, where, t);
  if (run_.routes != nullptr) read_experts(r, where, t);
  if (run_.log_probs && t.rollout_logp.empty())
    throw data_error(where +
                     ": no \"log_probs\" of the engine that sampled, which are the old log-probs of this run; "
                     "algorithm.rollout_correction.bypass_mode=False computes them");
  const bool ended = std::find(run_.eos_ids.begin(), run_.eos_ids.end(), response.back()) != run_.eos_ids.end();
  t.reason = ended ? rollout::finish::eos : rollout::finish::length;
  return t;
}

RLCORE_INLINE std::uint32_t response_reader::row_of(const data::row& r, const std::string& where) const {
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

}  // namespace train
RLCORE_END
#endif
