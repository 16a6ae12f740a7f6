#include "rlcore/checkpoint/model_weights.hpp"
#include "rlcore/checkpoint/write_config.hpp"

#include "data/scratch.hpp"
#include "rlcore/checkpoint/hugging_face.hpp"

namespace RLCORE_TEST_ID {
namespace {

using rlcore::format_error;
using rlcore::checkpoint::load_weights;
using rlcore::checkpoint::save_weights;
using rlcore::checkpoint::stored_type;
using rlcore::nn::parameter;

const std::filesystem::path reference = RLCORE_REFERENCE_DIR;

struct model {
  std::vector<parameter> parameters;
  std::vector<float> weights;

  void add(const std::string& name, std::vector<std::int64_t> shape) {
    std::size_t size = 1;
    for (const std::int64_t n : shape) size *= static_cast<std::size_t>(n);
    parameters.push_back({name, std::move(shape), weights.size(), size});
    weights.resize(weights.size() + size);
  }
  std::span<float> operator[](const std::string& name) {
    for (const parameter& p : parameters)
      if (p.name == name) return std::span(weights).subspan(p.offset, p.size);
    throw std::out_of_range(name);
  }
};

nlohmann::json golden(const std::string& folder) {
  return nlohmann::json::parse(scratch::read(reference / "checkpoint_models.json"))[folder];
}
model model_of(const std::string& folder) {
  model m;
  const nlohmann::json tensors = golden(folder);
  for (const auto& [name, tensor] : tensors.items()) m.add(name, tensor["shape"].get<std::vector<std::int64_t>>());
  return m;
}

TEST(model_weights, loads_models_that_transformers_saved) {
  for (const std::string folder : {"checkpoint_qwen2_sharded", "checkpoint_qwen3_bf16"}) {
    model m = model_of(folder);
    load_weights(reference / folder, m.parameters, m.weights);
    const nlohmann::json tensors = golden(folder);
    for (const auto& [name, tensor] : tensors.items()) {
      double sum = 0;
      for (const float x : m[name]) sum += x;
      EXPECT_NEAR(sum, tensor["sum"].get<double>(), 1e-9) << name;
      for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(m[name][i], tensor["first"][i].get<double>()) << name;
    }
  }
}

TEST(model_weights, any_part_is_read_by_its_numbers) {
  for (const std::string folder : {"checkpoint_qwen2_sharded", "checkpoint_qwen3_bf16"}) {
    model m = model_of(folder);
    load_weights(reference / folder, m.parameters, m.weights);
    const rlcore::checkpoint::stored_weights stored(reference / folder, m.parameters);
    EXPECT_EQ(stored.rounded(),
              folder == "checkpoint_qwen3_bf16" ? rlcore::nn::bf16_weights::all : rlcore::nn::bf16_weights::none);
    const std::size_t size = m.weights.size();
    for (const std::size_t count : {std::size_t{1}, std::size_t{37}, size / 3, size})  // across tensors, too
      for (std::size_t first = 0; first + count <= size; first += std::max(size / 11, count)) {
        std::vector<float> part(count);
        stored.read(first, part);
        ASSERT_TRUE(std::equal(part.begin(), part.end(), m.weights.begin() + static_cast<std::ptrdiff_t>(first)))
            << folder << ": " << count << " from " << first;
      }
    m.add("model.surplus", {3});
    EXPECT_THROW(rlcore::checkpoint::stored_weights(reference / folder, m.parameters), format_error);
  }
}

TEST(model_weights, round_trips_to_the_bit_in_one_file_and_in_shards) {
  model m = model_of("checkpoint_qwen2_sharded");
  load_weights(reference / "checkpoint_qwen2_sharded", m.parameters, m.weights);
  for (const std::uint64_t limit : {0u, 4096u}) {
    const scratch::folder place;
    save_weights(place.path(), m.parameters, m.weights, stored_type::f32, limit);
    EXPECT_EQ(std::filesystem::exists(place / "model.safetensors"), limit == 0);
    std::vector<float> again(m.weights.size(), -1.0f);
    load_weights(place.path(), m.parameters, again);
    EXPECT_EQ(again, m.weights);
  }
}

TEST(model_weights, large_tensors_are_read_in_blocks_of_any_type_and_of_parts) {
  constexpr std::size_t rows = 3001, columns = 1000;
  model m;
  m.add("a", {rows, columns});
  m.add("b", {5});
  for (std::size_t i = 0; i < m.weights.size(); ++i)  // values that all types hold
    m.weights[i] = static_cast<float>(static_cast<int>(i % 251) - 125);
  const std::size_t first = 300, width = 400;
  const std::vector<parameter> part{{"a", {rows, width}, 0, rows * width, {rows, columns}, {0, first}},
                                    m.parameters[1]};
  for (const stored_type type : {stored_type::f32, stored_type::f16, stored_type::bf16}) {
    const scratch::folder place;
    save_weights(place.path(), m.parameters, m.weights, type);
    std::vector<float> again(m.weights.size(), -1.0f);
    load_weights(place.path(), m.parameters, again);
    EXPECT_EQ(again, m.weights);
    load_weights(place.path(), part, again);
    for (std::size_t r = 0; r < rows; ++r)
      for (std::size_t c = 0; c < width; ++c)
        ASSERT_EQ(again[r * width + c], m.weights[r * columns + first + c]) << r << ", " << c;
  }
}

TEST(model_weights, names_what_does_not_match) {
  const scratch::folder place;
  model m;
  m.add("model.embed_tokens.weight", {4, 2});
  m.add("model.norm.weight", {2});
  const auto refused = [&](const model& wanted, std::vector<std::string> parts) {
    model copy = wanted;
    parts.push_back(place.path().string());
    scratch::error_of<format_error>([&] { load_weights(place.path(), copy.parameters, copy.weights); }, parts);
  };
  save_weights(place.path(), m.parameters, m.weights);
  model wanted = m;
  wanted.parameters[1].name = "model.norms.weight";
  refused(wanted, {"'model.norms.weight' of shape [2] is missing", "did you mean 'model.norm.weight'?"});
  wanted = m;
  wanted.parameters[0].shape = {2, 4};
  refused(wanted, {"'model.embed_tokens.weight' has shape [4, 2]", "needs [2, 4]"});
  wanted = m;
  wanted.parameters.pop_back();
  refused(wanted, {"'model.norm.weight' is not part of the model"});
  wanted = m;
  wanted.add("lm_head.weight", {4, 2});
  refused(wanted, {"'lm_head.weight'", "missing", "tie_word_embeddings"});
  std::vector<float> few(9);
  scratch::error_of<std::invalid_argument>([&] { load_weights(place.path(), m.parameters, few); },
                                           {"'model.norm.weight'", "9 weights"});
}

TEST(model_weights, a_tied_output_matrix_must_equal_the_embedding) {
  const scratch::folder place;
  model stored;
  stored.add("model.embed_tokens.weight", {300000, 2});  // more than one piece of the comparison
  stored.add("lm_head.weight", {300000, 2});
  stored.weights[599999] = stored.weights[1199999] = 2;
  model tied = stored;
  tied.parameters.pop_back();
  save_weights(place.path(), stored.parameters, stored.weights);
  load_weights(place.path(), tied.parameters, tied.weights);
  EXPECT_EQ(tied.weights[599999], 2);
  stored.weights[1199999] = 3;
  save_weights(place.path(), stored.parameters, stored.weights);
  scratch::error_of<format_error>([&] { load_weights(place.path(), tied.parameters, tied.weights); },
                                  {"'lm_head.weight' differs", "tie_word_embeddings"});
  stored.parameters[1].shape = {2, 300000};
  save_weights(place.path(), stored.parameters, stored.weights);
  scratch::error_of<format_error>([&] { load_weights(place.path(), tied.parameters, tied.weights); },
                                  {"'lm_head.weight' of shape [2, 300000]"});
}

// The values of score.weight and score.bias stay as they are.
void load_backbone(const std::filesystem::path& from, model& to) {
  std::vector<parameter> backbone = to.parameters;
  std::erase_if(backbone, [](const parameter& p) { return p.name.starts_with("score."); });
  load_weights(rlcore::checkpoint::tensor_folder(from), backbone, to.weights,
               [](const std::string& name) { return name == "lm_head.weight"; });
}

TEST(model_weights, a_score_model_takes_the_backbone_of_a_causal_one) {
  const scratch::folder place;
  model causal;
  causal.add("model.embed_tokens.weight", {4, 2});
  causal.add("lm_head.weight", {4, 2});
  causal.weights[0] = 5, causal.weights[8] = 6;
  model score;
  score.add("model.embed_tokens.weight", {4, 2});
  score.add("score.weight", {1, 2});
  score.weights[8] = 7;
  save_weights(place.path(), causal.parameters, causal.weights);
  scratch::error_of<format_error>([&] { load_weights(place.path(), score.parameters, score.weights); },
                                  {"'score.weight' of shape [1, 2] is missing"});
  load_backbone(place.path(), score);
  EXPECT_EQ(score.weights[0], 5);
  EXPECT_EQ(score.weights[8], 7);
  causal.add("model.norm.weight", {2});
  save_weights(place.path(), causal.parameters, causal.weights);
  scratch::error_of<format_error>([&] { load_backbone(place.path(), score); },
                                  {"'model.norm.weight' is not part of the model"});
}

TEST(model_weights, transformers_loads_score_models_we_wrote) {
  const std::string python = scratch::python_with("transformers, torch");
  if (python.empty()) GTEST_SKIP() << "needs Python with transformers and torch";
  const scratch::folder place;
  for (const bool bias : {false, true}) {
    const std::string from = bias ? "checkpoint_qwen3_bf16" : "checkpoint_qwen2_sharded";
    rlcore::nn::config c = rlcore::checkpoint::read_config(reference / from);
    c.output = rlcore::nn::model_output::score;
    c.score_bias = bias;
    model m = model_of(from);
    std::erase_if(m.parameters, [](const parameter& p) { return p.name == "lm_head.weight"; });
    m.add("score.weight", {1, c.hidden_size});
    if (bias) m.add("score.bias", {1});
    load_backbone(reference / from, m);
    for (float& x : m["score.weight"]) x = 0.25f;
    if (bias) m["score.bias"][0] = 0.5f;
    std::filesystem::create_directory(place / from);
    save_weights(place / from, m.parameters, m.weights);
    rlcore::checkpoint::write_config(place / from, c);
  }
  const auto result = scratch::run_python(python, R"(
import os, sys
os.environ["HF_HUB_OFFLINE"] = "1"
import torch
from transformers import AutoModelForSequenceClassification, AutoModelForTokenClassification
for name, auto in (("checkpoint_qwen2_sharded", AutoModelForSequenceClassification),
                   ("checkpoint_qwen3_bf16", AutoModelForTokenClassification)):
    m, info = auto.from_pretrained(os.path.join(sys.argv[1], name), dtype="auto", output_loading_info=True)
    assert not any(info[k] for k in ("missing_keys", "unexpected_keys", "mismatched_keys")), info
    assert type(m).__name__ == m.config.architectures[0] and m.config.num_labels == 1
    assert bool((m.score.weight == 0.25).all()) and m.config.pad_token_id is not None
    ids = torch.arange(10)[None]
    h = m.model(ids).last_hidden_state.sum(-1)[0] * 0.25
    if name == "checkpoint_qwen3_bf16":
        assert torch.allclose(m(ids).logits[0, :, 0], h + 0.5, atol=1e-5)
    else:
        assert torch.allclose(m(ids).logits[0, 0], h[-1], atol=1e-5)
)",
                                          place.path().string());
  EXPECT_EQ(result.code, 0) << result.output;
}

TEST(model_weights, transformers_loads_a_folder_we_wrote) {
  const std::string python = scratch::python_with("transformers, torch");
  if (python.empty()) GTEST_SKIP() << "needs Python with transformers and torch";
  const scratch::folder place;
  for (const std::string folder : {"checkpoint_qwen2_sharded", "checkpoint_qwen3_bf16"}) {
    model m = model_of(folder);
    load_weights(reference / folder, m.parameters, m.weights);
    const bool half = folder == "checkpoint_qwen3_bf16";
    const stored_type type = half ? stored_type::bf16 : stored_type::f32;
    std::filesystem::create_directory(place / folder);
    save_weights(place / folder, m.parameters, m.weights, type, half ? 0 : 4096);
    rlcore::checkpoint::write_config(place / folder, rlcore::checkpoint::read_config(reference / folder), type);
  }
  const auto result = scratch::run_python(python, R"(
import os, sys
os.environ["HF_HUB_OFFLINE"] = "1"
import torch
from transformers import AutoConfig, AutoModelForCausalLM
for name in "checkpoint_qwen2_sharded", "checkpoint_qwen3_bf16":
    ours, theirs = (os.path.join(root, name) for root in sys.argv[1:])
    a, info = AutoModelForCausalLM.from_pretrained(ours, dtype="auto", output_loading_info=True)
    assert not any(info[k] for k in ("missing_keys", "unexpected_keys", "mismatched_keys")), info
    b = AutoModelForCausalLM.from_pretrained(theirs, dtype="auto")
    assert type(a) is type(b) and a.dtype == b.dtype, (a.dtype, b.dtype)
    for (n, p), (m, q) in zip(a.named_parameters(), b.named_parameters(), strict=True):
        assert n == m and torch.equal(p, q), n
    ids = torch.arange(20)[None] * 3
    assert torch.equal(a(ids).logits, b(ids).logits)
    for key in ("eos_token_id", "pad_token_id"):
        assert getattr(a.generation_config, key) == getattr(b.generation_config, key), key
    x, y = AutoConfig.from_pretrained(ours).to_dict(), AutoConfig.from_pretrained(theirs).to_dict()
    differing = {k for k in x.keys() | y.keys() if x.get(k) != y.get(k)}
    print(differing)
    assert differing <= {"_name_or_path", "transformers_version", "max_window_layers", "eos_token_id", "pad_token_id", "head_dim"}, differing
)",
                                          place.path().string() + " " + reference.string());
  EXPECT_EQ(result.code, 0) << result.output;
}

}  // namespace
}  // namespace RLCORE_TEST_ID
