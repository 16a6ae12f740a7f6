// Reads the model and the options of a plan.
#pragma once

#include <charconv>
#include <cstdint>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "rlcore/checkpoint/hugging_face.hpp"
#include "rlcore/checkpoint/json_file.hpp"
#include "rlcore/checkpoint/vision_config_json.hpp"
#include "rlcore/config/options.hpp"
#include "rlcore/config/programs/plan.hpp"
#include "rlcore/nn/config.hpp"
#include "rlcore/planning/cluster.hpp"
#include "rlcore/planning/model_shape.hpp"
#include "rlcore/planning/plan.hpp"

RLCORE_BEGIN
namespace train::planning {

/// The shape of a model that the library can train.
model_shape shape_of(const nn::config& c, std::string name = {});

/// Reads a config.json of one of the families. Throws file_error, or format_error naming file, key,
/// value and expectation.
model_shape read_model_shape(const std::filesystem::path& path);

/// `text` names a known model, or is the path of a config.json or of its folder.
model_shape find_model(const std::string& text);

/// The step of plan's command line. Throws config_error if `updates` does not divide the sequences.
workload read_workload(const options& o);

/// The parts of the layout that plan's command line fixes.
wishes read_requests(const options& o);

/// The output of the program for these options.
std::string run_plan(const options& o);

}  // namespace train::planning
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_PLANNING)
RLCORE_BEGIN
namespace train::planning {

RLCORE_INLINE model_shape shape_of(const nn::config& c, std::string name) {
  return {std::move(name),
          c.vocab_size,
          c.hidden_size,
          c.intermediate_size,
          c.num_hidden_layers,
          c.num_attention_heads,
          c.num_key_value_heads,
          c.head_dim != 0 ? c.head_dim : c.hidden_size / c.num_attention_heads,
          c.tied(),
          c.attention_bias,
          c.qk_norms(),
          0,
          0,
          c.vision,
          4};
}

RLCORE_INLINE model_shape read_model_shape(const std::filesystem::path& path) {
  const std::filesystem::path where =
      std::filesystem::is_directory(path) || text::is_gguf(path) ? path / "config.json" : path;
  const checkpoint::json_file whole(where);
  const nn::family family = checkpoint::read_family(whole);
  const checkpoint::json_file file = checkpoint::language_model(whole, family);
  const auto extent = [&](const char* key) { return file.integer(key, 1, INT32_MAX); };
  model_shape m;
  const std::filesystem::path folder = std::filesystem::absolute(where).parent_path();
  m.name = folder.filename().string();
  m.vocab_size = extent("vocab_size"), m.hidden_size = extent("hidden_size");
  m.layers = extent("num_hidden_layers"), m.heads = extent("num_attention_heads");
  m.kv_heads = extent("num_key_value_heads");
  if (m.heads % m.kv_heads != 0)
    file.fail("num_key_value_heads", "a divisor of num_attention_heads " + std::to_string(m.heads));
  if (file.has("head_dim")) {
    m.head_dim = extent("head_dim");
  } else if (family->default_head_dim != 0) {
    m.head_dim = family->default_head_dim;
  } else {
    if (m.hidden_size % m.heads != 0)
      file.fail("num_attention_heads", "a divisor of hidden_size " + std::to_string(m.hidden_size));
    m.head_dim = m.hidden_size / m.heads;
  }
  m.tied = checkpoint::read_tied(whole);
  m.stored_bytes = checkpoint::stored_dtype(file) == "bfloat16" ? 2 : 4;
  if (family->vision) m.tower = checkpoint::read_tower(whole, family);
  m.attention_bias = family->qkv_bias;
  m.head_norms = family->qk_norms;
  if (family->experts) {
    m.intermediate_size = extent("moe_intermediate_size");
    m.experts = extent("num_experts");
    m.experts_per_token = file.integer("num_experts_per_tok", 1, m.experts);
    if (file.has("mlp_only_layers") && !file.root()["mlp_only_layers"].empty()) file.fail("mlp_only_layers", "[]");
    if (file.has("decoder_sparse_step") && file.integer("decoder_sparse_step") != 1)
      file.fail("decoder_sparse_step", "1");
  } else {
    m.intermediate_size = extent("intermediate_size");
  }
  return m;
}

RLCORE_INLINE model_shape find_model(const std::string& text) {
  std::error_code ignored;
  if (std::filesystem::exists(text, ignored)) return read_model_shape(text);
  if (const model_shape* known = find_known_model(text)) return *known;
  std::vector<std::string> names;
  for (const model_shape& m : known_models()) names.push_back(m.name);
  std::string list;
  for (const std::string& n : names) list += (list.empty() ? "" : ", ") + n;
  throw config_error("model=" + text + ": neither a file nor a known model" + did_you_mean(text, names) +
                     "; expected the path of a config.json, or one of " + list);
}

RLCORE_INLINE workload read_workload(const options& o) {
  workload w;
  w.prompts = o.get<std::int64_t>("prompts"), w.responses = o.get<std::int64_t>("responses");
  w.prompt_length = o.get<std::int64_t>("prompt_length"), w.response_length = o.get<std::int64_t>("response_length");
  w.image_tokens = o.get<std::int64_t>("image_tokens");
  if (w.image_tokens > w.prompt_length)
    throw config_error("image_tokens=" + std::to_string(w.image_tokens) +
                       " is more than prompt_length=" + std::to_string(w.prompt_length) + ", which counts them");
  w.updates = o.get<std::int64_t>("updates"), w.epochs = o.get<std::int64_t>("epochs");
  w.micro_tokens = o.get<std::int64_t>("micro_tokens"), w.leaves = o.get<std::int64_t>("gradient_leaves");
  w.recompute = o.get<bool>("recompute"), w.old_log_probs = o.get<bool>("old_log_probs");
  w.samples = o.get<bool>("sampling"), w.lora_rank = o.get<std::int64_t>("lora_rank");
  if (!w.samples) {
    if (o.is_set("rollout_tensor") || (o.is_set("old_log_probs") && w.old_log_probs))
      throw config_error("sampling=False: there is no rollout; leave out rollout_tensor and old_log_probs=True");
    w.old_log_probs = false;
  }
  const auto reference = o.get<std::string>("reference");
  w.reference = reference == "whole"     ? reference_form::whole
                : reference == "sharded" ? reference_form::sharded
                                         : reference_form::none;
  w.logits_bytes = static_cast<double>(o.get<std::int64_t>("logits_memory_mb")) * 1048576;
  if (w.sequences() % w.updates != 0)
    throw config_error("updates=" + std::to_string(w.updates) + " does not divide the " +
                       std::to_string(w.sequences()) + " sequences of a step");
  return w;
}

RLCORE_INLINE wishes read_requests(const options& o) {
  wishes x;
  x.data = o.find<std::int64_t>("data"), x.context = o.find<std::int64_t>("context");
  x.tensor = o.find<std::int64_t>("tensor"), x.expert = o.find<std::int64_t>("expert");
  x.zero = o.find<std::int64_t>("zero"), x.rollout_tensor = o.find<std::int64_t>("rollout_tensor");
  x.shard_ranks = o.find<std::int64_t>("shard_ranks");
  x.stages = o.get<std::int64_t>("stages");
  const parallel::division_names names;
  parallel::pipeline_division& d = x.others.pipeline;
  d.first = o.find<std::int64_t>(names.first), d.last = o.find<std::int64_t>(names.last);
  d.account_for_embedding = o.get<bool>(names.embedding), d.account_for_loss = o.get<bool>(names.loss);
  for (const std::string& name : {names.first, names.last, names.embedding, names.loss})
    if (x.stages == 1 && o.is_set(name))
      throw config_error(name + ": no effect with stages=1; expected stages=2 or more, or stages=0, which searches");
  x.others.how_context = parallel::named<context_kind>(parallel::context_kind_names, o.get<std::string>("how_context"));
  x.others.sums = parallel::named<reduction_kind>(parallel::reduction_names, o.get<std::string>("reduction"));
  x.others.sequence_parallel = o.get<bool>("sequence_parallel");
  x.others.reshard_after_forward = o.get<bool>("reshard_after_forward");
  x.others.optimizer_offload = o.get<bool>("optimizer_offload");
  x.others.expert_shards = o.get<std::string>("experts") == "divided";
  x.others.compute_type = o.get<std::string>("values") == "bf16";
  x.others.wire_bf16 = o.get<std::string>("gradients") == "bf16";
  return x;
}

RLCORE_INLINE std::string run_plan(const options& o) {
  const std::vector<std::string> names = o.list("model");
  if (names.empty()) throw config_error("model=... is missing: a known model such as Qwen2.5-7B, or a config.json");
  std::vector<model_shape> models;
  for (const std::string& name : names) models.push_back(find_model(name));
  std::vector<std::int64_t> devices;
  for (const std::string& text : o.list("devices")) {
    std::int64_t n = 0;
    const auto end = std::from_chars(text.data(), text.data() + text.size(), n);
    if (end.ec != std::errc() || end.ptr != text.data() + text.size() || n < 1 || n > 1048576)
      throw config_error("devices=" + text + ": expected a number from 1 to 1048576, or a list of them");
    devices.push_back(n);
  }
  const workload w = read_workload(o);
  for (const model_shape& m : models)
    if (w.image_tokens > 0 && !m.tower)
      throw config_error("image_tokens=" + std::to_string(w.image_tokens) + ": " + m.name + " reads no images");
  const wishes wanted = read_requests(o);
  const cluster c = find_cluster(o.get<std::string>("cluster"));
  if (models.size() == 1 && devices.size() == 1)
    return plan_text(models.front(), w, c, devices.front(), wanted,
                     static_cast<std::size_t>(o.get<std::int64_t>("show")));
  const aligned_table t = plan_table(models, w, c, devices, wanted);
  return o.get<bool>("markdown") ? t.markdown() : t.text();
}

}  // namespace train::planning
RLCORE_END
#endif
