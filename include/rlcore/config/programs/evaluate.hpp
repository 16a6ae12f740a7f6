// The keys of evaluate.
#pragma once

#include "rlcore/config/keys/rlcore_keys.hpp"
#include "rlcore/config/options.hpp"
#include "rlcore/config/registry.hpp"
#include "rlcore/config/settings/image_options.hpp"
#include "rlcore/config/settings/rank_options.hpp"

RLCORE_BEGIN
namespace train {

namespace keys {

inline constexpr key evaluation[] = {
    {"model.path", text, "null", honoured, "folder or hub id of the model"},
    {"data.enable_thinking", boolean, "null", honoured,
     "of chat templates that have it (Qwen3); null: as they do by default"},
    {"server", text, "null", honoured,
     "ask the openai_server at this URL, http://host:port; the responses are those of its model here, to the bit",
     not_empty},
    {"responses", texts, "null", honoured, "score these stored responses (JSON Lines) and sample nothing"},
    {"data.files", texts, "null", honoured, "problems: one path or a list"},
    {"data.form", text, "dataset", honoured,
     "dataset: verl's columns and the set's own chat prompts; aime2024: origin_prompt and gold_answer; gsm8k: question "
     "and answer after data.shots examples",
     words("dataset|aime2024|gsm8k")},
    {"data.shots", text, "null", honoured, "data.form=gsm8k: file whose first four rows are the worked examples"},
    {"data.chat_template", boolean, "null", honoured,
     "put prompts into the model's chat template; null: for data.form=dataset only"},
    {"data.limit", integer, "null", honoured, "only the first so many problems", at_least(1)},
    {"data.prompt_key", text, "prompt", honoured, "column with the message list"},
    {"data.reward_fn_key", text, "data_source", honoured, "column that chooses the rule"},
    {"data.max_prompt_length", integer, "2048", honoured, "longest prompt in tokens", at_least(1)},
    {"data.max_response_length", integer, "2048", honoured, "longest response in tokens", at_least(1)},
    {"data.filter_overlong_prompts", boolean, "False", honoured, "drop rows whose prompt is too long"},
    {"data.truncation", text, "error", honoured, "what happens to a prompt that is still too long",
     words("error|left|right|middle")},
    {"rule", text, "auto", honoured,
     "how answers are judged; auto: by the rows' data_source, math for data.form=aime2024, last_number for gsm8k",
     words("auto|gsm8k|math|math_dapo|last_number")},
    {"rule_box", text, "null", honoured,
     "math_dapo: strict takes only the last box, fallback takes it where there is no \"Answer:\"; null: as the version "
     "of verl does",
     words("none|strict|fallback")},
    {"rollout.n", integer, "1", honoured, "responses per problem", at_least(1)},
    {"rollout.temperature", real, "0", honoured, "0 is greedy", at_least(0)},
    {"rollout.top_k", integer, "-1", honoured, "most likely tokens to draw from; -1: all"},
    {"rollout.top_p", real, "1.0", honoured, "probability mass to draw from", between(0, 1)},
    {"rollout.min_p", real, "0", honoured, "draw from tokens at least this share as likely as the most likely one",
     between(0, 1)},
    {"rollout.repetition_penalty", real, "1.0", honoured,
     "divides positive logits of tokens in prompt and response, multiplies negative ones", at_least(0)},
    {"rollout.frequency_penalty", real, "0", honoured, "subtracted from a logit for each time that its token came",
     between(-2, 2)},
    {"rollout.presence_penalty", real, "0", honoured, "subtracted from the logits of tokens of the response",
     between(-2, 2)},
    {"rollout.max_num_seqs", integer, "64", honoured, "sequences decoded together; no result depends on it",
     at_least(1)},
    {"rollout.max_num_batched_tokens", integer, "2048", honoured, "tokens of one forward pass; no result depends on it",
     at_least(1)},
    {"rollout.gpu_memory_utilization", real, "0.5", honoured, "share of the free memory for keys and values",
     between(0.01, 1)},
    {"output_dir", text, "evaluation", honoured,
     "folder of generations.jsonl and result.json; responses= writes none unless this is set"},
};

inline constexpr key evaluation_own[] = {
    verl_version_key,
    {"rlcore.chat_template", text, "null", honoured,
     "another chat template than the model's: a file, Jinja text, or a family such as qwen2.5"},
    {"rlcore.seed", integer, "1", honoured, "seed of sampling", at_least(0)},
    {"rlcore.logits_memory_mb", integer, "256", honoured, "memory for logits, in MiB", at_least(1)},
    {"rlcore.rollout_weights", text, "same", honoured, "multiply by the model's weights, or by int8 copies",
     words("same|int8")},
};

inline constexpr flag evaluation_flags[] = {{"server", "server"}};

}  // namespace keys

/// The model or the stored responses, the problems, the rule, sampling, and the device.
inline registry evaluate_registry() {
  registry known;
  known.program = "evaluate";
  known.summary = "accuracy of a model, or of stored responses, on problems with known answers";
  known.topics = keys::verl_topics;
  known.check = [](options& opt) {
    check_device_options(opt);
    check_image_options(opt);
  };
  return known.add(keys::evaluation)
      .add(keys::ranks)
      .add(keys::device)
      .add(keys::evaluation_own)
      .add(keys::images)
      .add(keys::image_pixels)
      .add_flags(keys::evaluation_flags);
}

}  // namespace train
RLCORE_END
