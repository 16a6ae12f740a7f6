// GGUF files that we write: they read back to the bit, and the Python package gguf reads them.
#include "rlcore/checkpoint/write_gguf.hpp"

#include <cstring>
#include <nlohmann/json.hpp>
#include <vector>

#include "data/scratch.hpp"
#include "rlcore/checkpoint/gguf_blocks.hpp"
#include "rlcore/checkpoint/hugging_face.hpp"
#include "rlcore/checkpoint/tensor_folder.hpp"
#include "rlcore/checkpoint/write_config.hpp"
#include "rlcore/core/random.hpp"
#include "rlcore/device/cpu.hpp"
#include "rlcore/nn/model/causal_lm.hpp"
#include "rlcore/text/chat_template.hpp"
#include "rlcore/text/gguf/gguf_file.hpp"
#include "rlcore/text/model_file.hpp"
#include "rlcore/text/tokenizer.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using nlohmann::json;

const std::filesystem::path reference = RLCORE_REFERENCE_DIR;

/// A configuration of few weights; 912 tokens have room for each reference tokenizer.
nn::config small(nn::family family) {
  nn::config c;
  c.model = family;
  c.vocab_size = 915, c.hidden_size = 32, c.intermediate_size = 64, c.num_hidden_layers = 2;
  c.num_attention_heads = 4, c.num_key_value_heads = 2, c.head_dim = 8, c.max_position_embeddings = 512;
  c.attention_bias = family->qkv_bias, c.tie_word_embeddings = family->qk_norms;
  if (family->experts)
    c.num_experts = 3, c.num_experts_per_tok = 2, c.moe_intermediate_size = 96, c.norm_topk_prob = true;
  return c;
}

/// A folder of random weights and this tokenizer.
void make_model(const std::filesystem::path& folder, const nn::config& c, const std::string& tokenizer) {
  cpu device(1);
  nn::causal_lm<cpu> model(device, c);
  model.initialize(5);
  std::vector<float> weights(model.weights().data(), model.weights().data() + model.size());
  for (std::size_t i = 0; i < weights.size(); ++i)  // norms and biases are no ones and zeros
    weights[i] += 0.125F * static_cast<float>(i * 7919 % 101) / 101;
  checkpoint::write_config(folder, c);
  checkpoint::save_weights(folder, model.parameters(), weights);
  text::copy_files(reference / tokenizer, folder);
}

std::size_t write(const std::filesystem::path& file, const std::filesystem::path& folder, const char* type) {
  checkpoint::folder_weights weights(folder);
  std::uint64_t last = 0, all = 0;
  const std::size_t count = checkpoint::write_gguf(
      file, weights, folder, checkpoint::gguf_block_of(type),
      [&](std::uint64_t done, std::uint64_t total) { EXPECT_GT(done, last), last = done, all = total; });
  EXPECT_EQ(last, all);
  return count;
}

/// Both have the same tensors, those of `b` rounded to its types.
void expect_equal(const std::filesystem::path& folder, const std::filesystem::path& file, const std::string& type) {
  const checkpoint::tensor_folder a(folder), b(file);
  ASSERT_EQ(a.names(), b.names());
  for (const std::string& name : a.names()) {
    ASSERT_EQ(a.info(name).shape, b.info(name).shape) << name;
    std::vector<float> x(a.info(name).size()), y(x.size());
    a.read_f32(name, x), b.read_f32(name, y);
    const bool router = name.find("mlp.gate.") != name.npos;
    const auto& block = checkpoint::gguf_block_of(a.info(name).shape.size() < 2 || router ? "F32" : type);
    std::vector<std::byte> bytes(x.size() / block.elements * block.bytes);
    checkpoint::write_gguf_blocks(block, x, bytes);
    checkpoint::read_gguf_blocks(block, bytes, x);
    EXPECT_EQ(std::memcmp(x.data(), y.data(), x.size() * sizeof(float)), 0) << name << " " << type;
  }
}

TEST(write_gguf, every_family_and_type_reads_back_to_the_bit) {
  for (const nn::family family : nn::families) {
    if (family->vision != nullptr) continue;
    const scratch::folder place;
    const nn::config c = small(family);
    make_model(place.path(), c, "text_qwen2");
    for (const char* type : {"F32", "F16", "BF16", "Q8_0"}) {
      const std::filesystem::path file = place / (std::string(type) + ".gguf");
      const std::size_t experts = family->experts ? 2 * 3 * (3 - 1) : 0;  // one tensor for all of a layer
      EXPECT_EQ(write(file, place.path(), type), checkpoint::tensor_folder(place.path()).names().size() - experts);
      expect_equal(place.path(), file, type);
      EXPECT_EQ(checkpoint::difference_of(checkpoint::read_config(file), c), "") << family << type;
      EXPECT_EQ(text::gguf_file(file).text("general.name"), type);
    }
  }
}

TEST(write_gguf, scaled_positions_read_back) {
  const nn::rope_settings linear{.type = nn::rope_type::linear, .factor = 4};
  const nn::rope_settings yarn{.type = nn::rope_type::yarn, .factor = 2.5, .original_max_position_embeddings = 100};
  const nn::rope_settings llama3{.type = nn::rope_type::llama3, .factor = 32, .original_max_position_embeddings = 128};
  for (const nn::rope_settings& rope : {linear, yarn, llama3}) {
    const scratch::folder place;
    nn::config c = small(nn::llama{});
    c.rope_scaling = rope, c.rope_theta = 1e4;
    make_model(place.path(), c, "text_qwen2");
    write(place / "x.gguf", place.path(), "F32");
    EXPECT_EQ(checkpoint::difference_of(checkpoint::read_config(place / "x.gguf"), c), "");
  }
}

TEST(write_gguf, tokenizers_read_back) {
  const json cases = json::parse(scratch::read(reference / "text_qwen2.json"))["cases"];
  for (const std::string name : {"text_qwen2", "text_llama3", "text_fallback", "gguf_sentencepiece.gguf"}) {
    const scratch::folder place;
    nn::config c = small(nn::llama{});
    c.eos_token_ids = {7, 8};
    make_model(place.path(), c, name);
    text::write_text_file(place / "chat_template.jinja", "{{ messages[0]['content'] }}{{ eos_token }}");
    write(place / "x.gguf", place.path(), "BF16");
    const auto t = text::tokenizer::load(place / "x.gguf"), expected = text::tokenizer::load(reference / name);
    EXPECT_EQ(t.vocab_size(), expected.vocab_size());
    const auto ids = checkpoint::read_config(place / "x.gguf").eos_token_ids;
    for (const std::int32_t id : {7, 8}) EXPECT_EQ(std::count(ids.begin(), ids.end(), id), 1);
    if (expected.eos_id()) {
      EXPECT_EQ(ids.front(), *expected.eos_id());
    }
    for (const json& one : cases) {
      const auto s = one["text"].get<std::string>();
      if (s.find("word") != s.npos || s.find("\xC3\xA9t\xC3\xA9") != s.npos || s.find('<') != s.npos) continue;
      EXPECT_EQ(t.encode_with_special_tokens(s), expected.encode_with_special_tokens(s)) << s;
    }
    const auto chat = text::chat_template::detect(place / "x.gguf");
    EXPECT_TRUE(chat.render(std::vector<text::message>{{"user", "Hi"}}).starts_with("Hi"));
    // What a run that begins with the file saves is a folder again.
    std::filesystem::create_directories(place / "saved");
    text::copy_files(place / "x.gguf", place / "saved");
    checkpoint::write_config(place / "saved", checkpoint::read_config(place / "x.gguf"), checkpoint::stored_type::f32,
                             place / "x.gguf");
    EXPECT_EQ(text::tokenizer::load(place / "saved").json(), t.json());
    EXPECT_EQ(checkpoint::difference_of(checkpoint::read_config(place / "saved"), c), "");
  }
}

TEST(write_gguf, what_llama_cpp_would_compute_otherwise_is_refused) {
  const scratch::folder place;
  const auto refused = [&](const std::string& part) {
    const std::string what = scratch::error_of<format_error>([&] { write(place / "x.gguf", place.path(), "F32"); });
    EXPECT_NE(what.find(part), what.npos) << what;
    EXPECT_FALSE(std::filesystem::exists(place / "x.gguf"));
  };
  nn::config c = small(nn::qwen2{});
  make_model(place.path(), c, "text_fallback");
  json tokenizer = json::parse(scratch::read(place / "tokenizer.json"));
  tokenizer["model"]["merges"].erase(0);
  scratch::write(place / "tokenizer.json", tokenizer.dump());
  refused("SentencePiece would, and with it llama.cpp");
  text::copy_files(reference / "text_gpt2", place.path());
  refused("no tokenizer of llama.cpp has its normalizer and pre_tokenizer; expected those of gpt-2, smollm");
  text::copy_files(reference / "text_qwen2", place.path());
  c.eos_token_ids = {1, 2, 3, 4};
  checkpoint::write_config(place.path(), c);
  refused("tokens end a text; a GGUF file has 3 at most");
  c.eos_token_ids = {1};
  c.output = nn::model_output::score;
  checkpoint::write_config(place.path(), c);
  refused("the model gives scores; expected a language model");
  c.output = nn::model_output::logits;
  c.rope_scaling = {.type = nn::rope_type::llama3, .factor = 8, .original_max_position_embeddings = 64};
  checkpoint::write_config(place.path(), c);
  refused("rope_scaling of type llama3; expected none, linear or yarn in this family");
  c.rope_scaling = {};
  c.tie_word_embeddings = true;
  checkpoint::write_config(place.path(), c);
  write(place / "x.gguf", place.path(), "F32");  // as an untied one, whose output is a matrix of its own
  EXPECT_FALSE(checkpoint::read_config(place / "x.gguf").tie_word_embeddings);
  std::filesystem::remove(place / "x.gguf");
  c = small(nn::qwen3_moe{});
  c.norm_topk_prob = false;
  make_model(place.path(), c, "text_qwen2");
  refused("llama.cpp has experts in every layer and norm_topk_prob true");
}

TEST(write_gguf, the_package_reads_our_files) {
  const std::string python = scratch::python_with("gguf, numpy");
  if (python.empty()) GTEST_SKIP() << "no Python with gguf (RLCORE_PYTHON)";
  const scratch::folder place;
  make_model(place.path(), small(nn::llama{}), "text_qwen2");
  write(place / "F32.gguf", place.path(), "F32");
  write(place / "Q8_0.gguf", place.path(), "Q8_0");
  const auto r = scratch::run_python(python, R"(
import sys
import gguf
import numpy as np
exact = {t.name: np.array(t.data) for t in gguf.GGUFReader(sys.argv[1]).tensors}
read = gguf.GGUFReader(sys.argv[2])
assert read.fields["tokenizer.ggml.pre"].contents() == "qwen2"
assert len(read.fields["tokenizer.ggml.tokens"].data) == 915
for t in read.tensors:
    assert np.array(t.data).tobytes() == gguf.quants.quantize(exact[t.name], t.tensor_type).tobytes(), t.name
print(len(read.tensors), sum(t.tensor_type.name == "Q8_0" for t in read.tensors))
)",
                                     (place / "F32.gguf").string() + " " + (place / "Q8_0.gguf").string());
  EXPECT_EQ(r.code, 0) << r.output;
  EXPECT_EQ(r.output, "21 16\n");
}

}  // namespace
}  // namespace RLCORE_TEST_ID
