#include "rlcore/checkpoint/hugging_face.hpp"
#include "rlcore/checkpoint/write_config.hpp"

#include <nlohmann/json.hpp>

#include "data/scratch.hpp"
#include "rlcore/text/chat_template.hpp"

namespace RLCORE_TEST_ID {
namespace {

using rlcore::format_error;
using rlcore::checkpoint::read_config;
using rlcore::checkpoint::stored_dtype;
using rlcore::checkpoint::write_config;
using rlcore::nn::config;
using rlcore::nn::family;

const std::filesystem::path reference = RLCORE_REFERENCE_DIR;

// As published with Qwen2.5-0.5B-Instruct: the format of transformers 4, with its generation_config.json.
const char* const published = R"({"architectures": ["Qwen2ForCausalLM"], "attention_dropout": 0.0,
  "bos_token_id": 151643, "eos_token_id": 151645, "hidden_act": "silu", "hidden_size": 896, "initializer_range": 0.02,
  "intermediate_size": 4864, "max_position_embeddings": 32768, "max_window_layers": 21, "model_type": "qwen2",
  "num_attention_heads": 14, "num_hidden_layers": 24, "num_key_value_heads": 2, "rms_norm_eps": 1e-06,
  "rope_theta": 1000000.0, "sliding_window": 32768, "tie_word_embeddings": true, "torch_dtype": "bfloat16",
  "transformers_version": "4.43.1", "use_cache": true, "use_sliding_window": false, "vocab_size": 151936})";

TEST(model_config, reads_a_published_file) {
  const scratch::folder place;
  scratch::write(place / "config.json", published);
  config c = read_config(place.path());
  EXPECT_EQ(c.model, family::qwen2);
  EXPECT_EQ(c.vocab_size, 151936);
  EXPECT_EQ(c.hidden_size, 896);
  EXPECT_EQ(c.intermediate_size, 4864);
  EXPECT_EQ(c.num_hidden_layers, 24);
  EXPECT_EQ(c.num_attention_heads, 14);
  EXPECT_EQ(c.num_key_value_heads, 2);
  EXPECT_EQ(c.head_dim, 64);
  EXPECT_EQ(c.rms_norm_eps, 1e-6);
  EXPECT_EQ(c.rope_theta, 1e6);
  EXPECT_TRUE(c.tie_word_embeddings);
  EXPECT_TRUE(c.attention_bias);
  EXPECT_EQ(c.eos_token_ids, std::vector<std::int32_t>{151645});
  EXPECT_EQ(c.pad_token_id, -1);
  scratch::write(place / "generation_config.json", R"({"pad_token_id": 151643, "eos_token_id": [151645, 151643]})");
  c = read_config(place.path());
  EXPECT_EQ(c.eos_token_ids, (std::vector<std::int32_t>{151645, 151643}));
  EXPECT_EQ(c.pad_token_id, -1);  // transformers' padding_idx is that of config.json
  EXPECT_EQ(c.generation_pad_token_id, 151643);
}

TEST(model_config, reads_what_transformers_5_writes) {
  const config a = read_config(reference / "checkpoint_qwen2_sharded"),
               b = read_config(reference / "checkpoint_qwen3_bf16");
  EXPECT_EQ(a.rope_theta, 1e6);
  EXPECT_EQ(a.head_dim, 4);
  EXPECT_TRUE(a.tie_word_embeddings);
  EXPECT_EQ(a.eos_token_ids, (std::vector<std::int32_t>{62, 63}));
  EXPECT_EQ(a.generation_pad_token_id, 60);
  EXPECT_EQ(a.pad_token_id, -1);
  EXPECT_EQ(b.model, family::qwen3);
  EXPECT_EQ(b.head_dim, 8);
  EXPECT_EQ(b.rope_theta, 1e4);
  EXPECT_FALSE(b.tie_word_embeddings);
  EXPECT_FALSE(b.attention_bias);
}

TEST(model_config, says_what_the_weights_are_stored_as) {
  const scratch::folder place;
  auto root = nlohmann::json::parse(scratch::read(RLCORE_REFERENCE_DIR "/first_steps/qwen2/config.json"));
  root.erase("dtype"), root.erase("torch_dtype");
  const auto stored = [&] {
    scratch::write(place / "config.json", root.dump());
    return stored_dtype(place.path());
  };
  EXPECT_EQ(stored(), "");
  root["torch_dtype"] = "float16";
  EXPECT_EQ(stored(), "float16");
  root["dtype"] = "bfloat16";
  EXPECT_EQ(stored(), "bfloat16") << "transformers 5";
}

TEST(model_config, refuses_in_one_line_what_it_cannot_compute) {
  const scratch::folder place;
  const auto refused = [&](const nlohmann::json& change, std::vector<std::string> parts) {
    auto root = nlohmann::json::parse(published);
    root.merge_patch(change);
    scratch::write(place / "config.json", root.dump());
    parts.push_back((place / "config.json").string());
    scratch::error_of<format_error>([&] { read_config(place.path()); }, parts);
  };
  refused({{"model_type", "gpt2"}},
          {"'model_type'", "\"gpt2\"", "\"qwen2\", \"qwen3\", \"qwen3_moe\", \"llama\" or \"qwen2_5_vl\""});
  refused({{"model_type", nullptr}}, {"'model_type' is missing"});
  for (const char* type : {"dynamic", "longrope", "su", "mrope"})
    refused({{"rope_scaling", {{"type", type}, {"factor", 2.0}}}},
            {"'rope_scaling'", type, "expected the rope_type \"default\", \"linear\", \"llama3\" or \"yarn\""});
  refused({{"rope_scaling", {{"type", "yarn"}}}}, {"'rope_scaling'", "yarn", "expected a number > 0 as its 'factor'"});
  refused({{"rope_parameters", {{"rope_type", "yarn"}, {"rope_theta", 1.0}}}},
          {"'rope_parameters'", "yarn", "expected a number > 0 as its 'factor'"});
  refused({{"rope_scaling", {{"type", "yarn"}, {"factor", 0.5}}}}, {"'rope_scaling'", "a 'factor' of at least 1"});
  refused({{"rope_scaling", {{"type", "yarn"}, {"factor", 4}, {"beta_fast", "x"}}}},
          {"a number > 0 as its 'beta_fast'"});
  refused({{"rope_scaling", {{"type", "yarn"}, {"factor", 4}, {"low_freq_factor", 1}}}},
          {"expected no 'low_freq_factor' for the rope_type \"yarn\""});
  refused({{"rope_scaling", {{"type", "yarn"}, {"factor", 4}, {"original_max_position_embeddings", 0}}}},
          {"an integer >= 1 as its 'original_max_position_embeddings'"});
  refused({{"rope_scaling", {{"rope_type", "llama3"}, {"factor", 4}, {"low_freq_factor", 4}, {"high_freq_factor", 4}}}},
          {"a 'high_freq_factor' above its 'low_freq_factor'"});
  refused({{"rope_scaling", "yarn"}}, {"'rope_scaling' is \"yarn\"; expected an object"});
  refused({{"rope_scaling", {{"type", "linear"}, {"factor", 4}}}, {"rope_parameters", {{"rope_theta", 1.0}}}},
          {"'rope_scaling'", "expected null beside 'rope_parameters'"});
  refused({{"partial_rotary_factor", 0.5}}, {"'partial_rotary_factor' is 0.5; expected 1"});
  refused({{"rope_parameters", {{"rope_theta", 1.0}, {"factor", 2}}}}, {"'rope_parameters'", "factor"});
  refused({{"rope_parameters", 3}}, {"'rope_parameters' is 3"});
  refused({{"rope_theta", nullptr}}, {"'rope_theta' is missing"});
  refused({{"use_sliding_window", true}}, {"'use_sliding_window' is true; expected false"});
  refused({{"layer_types", {"full_attention", "sliding_attention"}}}, {"'layer_types'", "full_attention"});
  refused({{"hidden_act", "gelu"}}, {"'hidden_act' is \"gelu\"; expected \"silu\""});
  refused({{"attention_dropout", 0.1}}, {"'attention_dropout' is 0.1; expected 0"});
  refused({{"attention_bias", false}}, {"'attention_bias' is false; expected true"});
  refused({{"quantization_config", {{"bits", 4}}}}, {"'quantization_config'"});
  refused({{"num_key_value_heads", 3}}, {"'num_key_value_heads' is 3", "divisor of num_attention_heads 14"});
  refused({{"num_attention_heads", 15}, {"num_key_value_heads", 5}}, {"divisor of hidden_size 896"});
  refused({{"head_dim", 63}}, {"'head_dim' is 63", "even"});
  refused({{"hidden_size", "896"}}, {"'hidden_size' is \"896\"; expected an integer from 1 to 2147483647"});
  refused({{"hidden_size", 0}}, {"'hidden_size' is 0"});
  refused({{"hidden_size", 4294967296}}, {"'hidden_size' is 4294967296"});
  refused({{"hidden_size", 1.5}}, {"'hidden_size' is 1.5"});
  refused({{"vocab_size", nullptr}, {"vocabsize", 3}}, {"'vocab_size' is missing", "did you mean 'vocabsize'?"});
  refused({{"rms_norm_eps", -1}}, {"'rms_norm_eps' is -1; expected a number > 0"});
  refused({{"tie_word_embeddings", 1}}, {"'tie_word_embeddings' is 1; expected true or false"});
  refused({{"eos_token_id", 151936}}, {"'eos_token_id' is 151936", "below vocab_size 151936"});
  refused({{"eos_token_id", {1, "x"}}}, {"'eos_token_id' is [1,\"x\"]"});
  refused({{"model_type", "qwen3"}}, {"'head_dim' is missing"});
  refused({{"model_type", "qwen3"}, {"head_dim", 64}, {"attention_bias", true}}, {"'attention_bias' is true"});
  scratch::write(place / "config.json", "{\"a\": }");
  scratch::error_of<format_error>([&] { read_config(place.path()); }, {"not valid JSON (at byte 7 of "});
  scratch::write(place / "config.json", "[]");
  scratch::error_of<format_error>([&] { read_config(place.path()); }, {"not a JSON object"});
  scratch::error_of<rlcore::file_error>([&] { read_config(place / "no"); }, {"config.json", "No such file"});
}

TEST(model_config, score_models) {
  const scratch::folder place;
  const auto read = [&](const nlohmann::json& change) {
    auto root = nlohmann::json::parse(published);
    root.merge_patch(change);
    scratch::write(place / "config.json", root.dump());
    return read_config(place.path());
  };
  const nlohmann::json one{{"0", "LABEL_0"}}, two{{"0", "a"}, {"1", "b"}};
  const auto named = [](const char* name) { return nlohmann::json{{"architectures", {name}}}; };
  using rlcore::nn::model_output;
  EXPECT_EQ(read(nlohmann::json::object()).output, model_output::logits);
  EXPECT_EQ(read({{"architectures", nullptr}}).output, model_output::logits);
  nlohmann::json sequence = named("Qwen2ForSequenceClassification"), token = named("Qwen2ForTokenClassification");
  scratch::error_of<format_error>([&] { read(sequence); }, {"'id2label' is missing; expected 1 label"});
  sequence["id2label"] = two;
  scratch::error_of<format_error>([&] { read(sequence); }, {"'id2label'", "expected 1 label"});
  sequence["id2label"] = token["id2label"] = one;
  EXPECT_EQ(read(sequence).output, model_output::score);
  EXPECT_FALSE(read(sequence).score_bias);
  EXPECT_FALSE(read(sequence).tied());
  EXPECT_TRUE(read(token).score_bias);
  EXPECT_EQ(read(named("RewardModel")).output, model_output::score);  // OpenRLHF
  sequence["num_labels"] = 2;
  scratch::error_of<format_error>([&] { read(sequence); }, {"'num_labels' is 2; expected 1 label"});
  scratch::error_of<format_error>([&] { read({{"architectures", "x"}}); }, {"'architectures' is \"x\""});
  for (const bool bias : {false, true}) {
    config c = read(nlohmann::json::object());
    c.output = model_output::score;
    c.score_bias = bias;
    write_config(place.path(), c);
    const config d = read_config(place.path());
    EXPECT_EQ(d.output, c.output);
    EXPECT_EQ(d.score_bias, bias);
    EXPECT_TRUE(d.tie_word_embeddings);
  }
}

TEST(model_config, comes_back_as_written) {
  const scratch::folder place;
  config c = read_config(reference / "checkpoint_qwen3_bf16");
  for (const auto& eos : {std::vector<std::int32_t>{}, {5}, {5, 7}}) {
    for (const family model : {family::qwen2, family::qwen3}) {
      c.model = model;
      c.attention_bias = model == family::qwen2;
      c.eos_token_ids = eos;
      c.pad_token_id = eos.empty() ? -1 : 3;
      c.generation_pad_token_id = eos.size() == 1 ? 4 : 3;
      c.rms_norm_eps = 1.1e-6;
      c.rope_theta = 12345.678;
      write_config(place.path(), c, rlcore::checkpoint::stored_type::bf16);
      const config d = read_config(place.path());
      EXPECT_EQ(d.model, c.model);
      EXPECT_EQ(d.head_dim, c.head_dim);
      EXPECT_EQ(d.hidden_size, c.hidden_size);
      EXPECT_EQ(d.rms_norm_eps, c.rms_norm_eps);
      EXPECT_EQ(d.rope_theta, c.rope_theta);
      EXPECT_EQ(d.tie_word_embeddings, c.tie_word_embeddings);
      EXPECT_EQ(d.attention_bias, c.attention_bias);
      EXPECT_EQ(d.max_position_embeddings, c.max_position_embeddings);
      EXPECT_EQ(d.eos_token_ids, c.eos_token_ids);
      EXPECT_EQ(d.pad_token_id, c.pad_token_id);
      EXPECT_EQ(d.generation_pad_token_id, c.generation_pad_token_id);
    }
  }
}

nlohmann::json json_of(const std::filesystem::path& file) { return nlohmann::json::parse(scratch::read(file)); }

TEST(model_config, what_is_not_changed_is_written_as_it_was_read) {
  const scratch::folder from, to;
  const char* const generation = R"({"bos_token_id": 151643, "do_sample": true, "eos_token_id": [151645, 151643],
      "pad_token_id": 151643, "repetition_penalty": 1.1, "temperature": 0.7, "transformers_version": "4.43.1"})";
  auto newer = nlohmann::json::parse(published);  // as transformers 5 writes it
  newer["dtype"] = newer["torch_dtype"];
  newer["rope_parameters"] = {{"rope_theta", newer["rope_theta"]}, {"rope_type", "default"}};
  newer.erase("torch_dtype"), newer.erase("rope_theta");
  for (const std::string& original : {std::string(published), newer.dump()}) {
    scratch::write(from / "config.json", original);
    scratch::write(from / "generation_config.json", generation);
    config c = read_config(from.path());
    write_config(to.path(), c, rlcore::checkpoint::stored_type::f32, from.path());
    auto expected = nlohmann::json::parse(original);
    expected[expected.contains("dtype") ? "dtype" : "torch_dtype"] = "float32";
    EXPECT_EQ(json_of(to / "config.json"), expected);
    EXPECT_EQ(json_of(to / "generation_config.json"), nlohmann::json::parse(generation));

    c.eos_token_ids.push_back(7), c.max_position_embeddings = 4096, c.output = rlcore::nn::model_output::score;
    write_config(to.path(), c, rlcore::checkpoint::stored_type::f32, from.path());
    expected["eos_token_id"] = {151645, 151643, 7}, expected["max_position_embeddings"] = 4096;
    expected["architectures"] = {"Qwen2ForSequenceClassification"};
    const nlohmann::json written = json_of(to / "config.json");
    for (const auto& [key, value] : written.items()) {
      if (expected.contains(key)) {
        EXPECT_EQ(value, expected[key]) << key;
      }
    }
    EXPECT_EQ(json_of(to / "config.json")["num_labels"], 1);
    EXPECT_EQ(json_of(to / "config.json")["bos_token_id"], 151643);
    auto longer = nlohmann::json::parse(generation);
    longer["eos_token_id"].push_back(7);
    EXPECT_EQ(json_of(to / "generation_config.json"), longer);
    EXPECT_EQ(read_config(to.path()).eos_token_ids, c.eos_token_ids);
  }
}

/// vLLM: SamplingParams.update_from_generation_config() unites the tokenizer's EOS with those of the folder.
TEST(model_config, texts_end_at_the_folders_ids_and_at_the_tokenizers) {
  using ids = std::vector<std::int32_t>;
  using rlcore::checkpoint::end_tokens;
  EXPECT_EQ(end_tokens("m", ids{0}, 5), (ids{0, 5}));
  EXPECT_EQ(end_tokens("m", ids{0, 5}, 5), (ids{0, 5}));
  EXPECT_EQ(end_tokens("m", ids{}, 5), ids{5});
  EXPECT_EQ(end_tokens("m", ids{0}, std::nullopt), ids{0});
  scratch::error_of<format_error>([] { end_tokens("m", ids{}, std::nullopt); },
                                  {"m: neither config.json nor the tokenizer names an EOS token"});
}

TEST(model_config, the_chat_template_of_a_folder_is_replaced_wherever_it_is_looked_for) {
  const scratch::folder place;
  const std::string mine = "{%- for m in messages %}{{ m.role }}: {{ m.content }}{%- endfor %}";
  scratch::write(place / "tokenizer_config.json", R"({"eos_token": "x", "chat_template": "old"})");
  for (const bool of_processor : {false, true}) {
    if (of_processor) scratch::write(place / "chat_template.json", R"({"chat_template": "old"})");
    rlcore::checkpoint::write_chat_template(place.path(), mine);
    EXPECT_EQ(rlcore::text::chat_template::detect(place.path()).source(), mine);
    for (const char* file : {"tokenizer_config.json", "chat_template.json"}) {
      if (!std::filesystem::exists(place / file)) continue;
      EXPECT_EQ(nlohmann::json::parse(scratch::read(place / file))["chat_template"], mine) << file;
    }
    EXPECT_EQ(nlohmann::json::parse(scratch::read(place / "tokenizer_config.json"))["eos_token"], "x");
    EXPECT_EQ(scratch::read(place / "chat_template.jinja"), mine);
  }
}

TEST(model_config, mixtures_of_experts) {
  const scratch::folder place;
  auto root = nlohmann::json::parse(published);
  root["model_type"] = "qwen3_moe";
  const auto read = [&](const nlohmann::json& change) {
    auto changed = root;
    changed.merge_patch(change);
    scratch::write(place / "config.json", changed.dump());
    return read_config(place.path());
  };
  const config absent = read(nlohmann::json::object());  // the defaults of Qwen3MoeConfig
  EXPECT_EQ(absent.model, family::qwen3_moe);
  EXPECT_EQ(absent.num_experts, 128);
  EXPECT_EQ(absent.num_experts_per_tok, 8);
  EXPECT_EQ(absent.moe_intermediate_size, 768);
  EXPECT_FALSE(absent.norm_topk_prob);
  EXPECT_FALSE(absent.output_router_logits);
  EXPECT_EQ(absent.router_aux_loss_coef, 0.001);
  EXPECT_EQ(read({{"num_local_experts", 16}}).num_experts, 16);  // transformers 5
  config c = read({{"num_experts", 6},
                   {"num_experts_per_tok", 2},
                   {"moe_intermediate_size", 12},
                   {"norm_topk_prob", true},
                   {"decoder_sparse_step", 2},
                   {"mlp_only_layers", {1, 3}},
                   {"output_router_logits", true},
                   {"router_aux_loss_coef", 0.25}});
  for (int again = 0; again < 2; ++again) {
    EXPECT_EQ(c.num_experts, 6);
    EXPECT_EQ(c.num_experts_per_tok, 2);
    EXPECT_EQ(c.moe_intermediate_size, 12);
    EXPECT_TRUE(c.norm_topk_prob);
    EXPECT_EQ(c.decoder_sparse_step, 2);
    EXPECT_EQ(c.mlp_only_layers, (std::vector<std::int64_t>{1, 3}));
    EXPECT_TRUE(c.output_router_logits);
    EXPECT_EQ(c.router_aux_loss_coef, 0.25);
    EXPECT_FALSE(c.attention_bias);
    EXPECT_EQ(c.sparse_layers(), 10);  // 5, 7, .. 23 of 24
    write_config(place.path(), c);
    c = read_config(place.path());
  }
  const auto refused = [&](const nlohmann::json& change, std::vector<std::string> parts) {
    scratch::error_of<format_error>([&] { read(change); }, std::move(parts));
  };
  refused({{"num_experts", 4}}, {"'num_experts_per_tok' is missing; expected at most num_experts 4"});
  refused({{"num_experts", 0}}, {"'num_experts' is 0"});
  refused({{"num_experts", 16}, {"num_local_experts", 8}}, {"'num_local_experts' is 8; expected num_experts, 16"});
  refused({{"mlp_only_layers", 3}}, {"'mlp_only_layers' is 3; expected a list"});
  refused({{"mlp_only_layers", {-1}}}, {"'mlp_only_layers' is [-1]"});
  refused({{"router_aux_loss_coef", -1}}, {"'router_aux_loss_coef' is -1; expected a number >= 0"});
}

}  // namespace
}  // namespace RLCORE_TEST_ID
