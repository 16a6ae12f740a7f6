// GGUF files as model folders: those of the Python package gguf (tests/reference/gguf_files.py), and damaged ones.
#include "rlcore/text/gguf/gguf_file.hpp"

#include <cstring>
#include <nlohmann/json.hpp>
#include <vector>

#include "checkpoint/folder_log_probs.hpp"
#include "data/scratch.hpp"
#include "rlcore/checkpoint/gguf_tensors.hpp"
#include "rlcore/checkpoint/hugging_face.hpp"
#include "rlcore/checkpoint/tensor_folder.hpp"
#include "rlcore/text/chat_template.hpp"
#include "rlcore/text/model_file.hpp"
#include "rlcore/text/tokenizer.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using nlohmann::json;
using text::gguf_file;
using namespace std::string_literals;

const std::filesystem::path reference = RLCORE_REFERENCE_DIR;
const std::filesystem::path llama = reference / "gguf_llama.gguf";

json golden() { return json::parse(scratch::read(reference / "gguf_llama.json")); }

/// The bytes of a file, put together by hand.
struct made {
  std::string bytes;

  template <class T>
  made& number(T x) {
    bytes.append(reinterpret_cast<const char*>(&x), sizeof x);
    return *this;
  }
  made& word(std::string_view s) {
    number(std::uint64_t{s.size()});
    bytes += s;
    return *this;
  }
  static made header(std::uint64_t tensors, std::uint64_t values, std::uint32_t version = 3) {
    made m;
    m.bytes = "GGUF";
    m.number(version).number(tensors).number(values);
    return m;
  }
  made& tensor(std::string_view name, std::vector<std::uint64_t> extents, std::uint32_t type, std::uint64_t at) {
    word(name).number(static_cast<std::uint32_t>(extents.size()));
    for (const std::uint64_t e : extents) number(e);
    return number(type).number(at);
  }
  made& data(std::size_t size) {
    bytes.resize((bytes.size() + 31) / 32 * 32 + size);
    return *this;
  }
};

TEST(gguf_file, has_the_values_and_tensors_that_the_package_wrote) {
  const gguf_file file(llama);
  EXPECT_EQ(file.text("general.architecture"), "llama");
  EXPECT_EQ(file.integer("llama.block_count"), 2U);
  EXPECT_EQ(file.number("llama.attention.layer_norm_rms_epsilon"), 1e-5);
  EXPECT_EQ(file.integer("not.there"), std::nullopt);
  EXPECT_EQ(file.texts("tokenizer.ggml.tokens").size(), 536U);
  EXPECT_EQ(file.tensors().size(), 21U);  // and the rotary factors
  EXPECT_EQ(file.find("token_embd.weight")->shape, (std::vector<std::int64_t>{536, 32}));
  EXPECT_EQ(file.find("token_embd.weight")->block->name, "Q8_0");
  EXPECT_EQ(file.find("blk.0.attn_q.weight")->size(), 64U * 32U);
  scratch::error_of<format_error>([&] { file.integer("general.name"); },
                                  {"key 'general.name' is 'golden'; expected an integer"});
  scratch::error_of<format_error>([&] { file.text("tokenizer.ggml.tokens"); }, {"is a list of 536; expected a text"});
  scratch::error_of<format_error>([&] { file.texts("tokenizer.ggml.token_type"); }, {"expected a list of texts"});
}

TEST(gguf_file, opens_as_a_model_folder) {
  const nn::config c = checkpoint::read_config(llama);
  EXPECT_EQ(c.model, nn::family(nn::llama{}));
  EXPECT_EQ(c.vocab_size, 536);
  EXPECT_EQ(c.head_dim, 16);
  EXPECT_EQ(c.rms_norm_eps, 1e-5);
  EXPECT_TRUE(c.tie_word_embeddings);
  EXPECT_EQ(c.rope_scaling.type, nn::rope_type::llama3);
  EXPECT_EQ(c.rope_scaling.factor, 8);
  EXPECT_EQ(c.rope_scaling.original_max_position_embeddings, 32);
  EXPECT_EQ(c.eos_token_ids, std::vector<std::int32_t>{530});
  const checkpoint::tensor_folder folder(llama);
  const json parameters = golden()["parameters"];
  ASSERT_EQ(folder.names().size(), parameters.size());
  for (const auto& [name, p] : parameters.items()) {
    EXPECT_EQ(folder.info(name).shape, p["shape"].get<std::vector<std::int64_t>>()) << name;
    std::vector<float> values(folder.info(name).size());
    folder.read_f32(name, values);
    double sum = 0;
    for (const float x : values) sum += x;
    EXPECT_NEAR(sum, p["sum"].get<double>(), 1e-9) << name;
    for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(values[i], p["first"][i].get<double>()) << name;
    std::vector<float> part(7);  // within rows, over their ends, and within blocks
    for (const std::size_t first : {std::size_t{0}, std::size_t{25}, values.size() - 7}) {
      folder.read_f32(name, part, first);
      EXPECT_EQ(std::memcmp(part.data(), values.data() + first, 28), 0) << name << first;
    }
    if (folder.info(name).dtype != checkpoint::stored_type::f32) continue;
    folder.read_bytes(name, std::as_writable_bytes(std::span(part)), 12);
    EXPECT_EQ(std::memcmp(part.data(), values.data() + 3, 28), 0) << name;
  }
  EXPECT_EQ(folder.info("model.layers.0.self_attn.v_proj.weight").dtype, checkpoint::stored_type::f16);
  EXPECT_EQ(folder.info("model.layers.1.self_attn.o_proj.weight").dtype, checkpoint::stored_type::bf16);
}

TEST(gguf_file, log_probs_are_those_of_transformers) {
  const json g = golden();
  const auto logp = log_probs_of(llama, g["ids"].get<std::vector<std::int32_t>>());
  const auto expected = g["log_probs"].get<std::vector<double>>();
  ASSERT_EQ(logp.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(logp[i], expected[i], 2e-5) << i;
}

TEST(gguf_file, has_the_tokenizer_and_the_template_of_the_folder_that_it_came_from) {
  const auto t = text::tokenizer::load(llama), expected = text::tokenizer::load(reference / "text_llama3");
  EXPECT_EQ(t.vocab_size(), expected.vocab_size());
  EXPECT_EQ(t.eos_id(), expected.eos_id());
  std::vector<std::string> strings = json::parse(scratch::read(reference / "text_llama3.json"))["strings"];
  for (const json& c : json::parse(scratch::read(reference / "text_qwen2.json"))["cases"]) strings.push_back(c["text"]);
  for (const std::string& s : strings) {
    EXPECT_EQ(t.encode_with_special_tokens(s), expected.encode_with_special_tokens(s)) << s;
    EXPECT_EQ(t.encode(s, false), expected.encode(s, false)) << s;
    EXPECT_EQ(t.decode(t.encode(s), true), expected.decode(t.encode(s), true)) << s;
  }
  const auto chat = text::chat_template::detect(llama);
  EXPECT_EQ(chat.render(std::vector<text::message>{{"user", "Hello"}}), "Hello<|eot_id|>");
}

TEST(gguf_file, sentencepiece_gives_the_ids_of_sentencepiece) {
  const auto t = text::tokenizer::load(reference / "gguf_sentencepiece.gguf");
  const json g = json::parse(scratch::read(reference / "gguf_sentencepiece.json"));
  ASSERT_GT(g["cases"].size(), 50U);
  for (const json& c : g["cases"]) {
    const auto text = c["text"].get<std::string>();
    const auto ids = c["ids"].get<std::vector<std::int32_t>>();
    EXPECT_EQ(t.encode(text, false), ids) << text;
    if (text.find('<') == text.npos) {
      EXPECT_EQ(t.decode(ids), text);
    }
    if (text.empty()) continue;
    EXPECT_EQ(t.encode_with_special_tokens(text, false).front(), g["bos"].get<std::int32_t>());
  }
}

TEST(gguf_file, is_found_by_its_name_and_in_its_folder) {
  const scratch::folder place;
  EXPECT_EQ(checkpoint::resolve_model(llama.string()), llama);
  std::filesystem::copy_file(llama, place / "model.gguf");
  scratch::write(place / "mmproj-model.gguf", "of another program");
  EXPECT_EQ(checkpoint::resolve_model(place.path().string()), place / "model.gguf");
  EXPECT_TRUE(text::has_model_file(place / "model.gguf" / "tokenizer.json"));
  EXPECT_FALSE(text::has_model_file(place / "model.gguf" / "preprocessor_config.json"));
  std::filesystem::copy_file(llama, place / "again.gguf");
  scratch::error_of<config_error>([&] { checkpoint::resolve_model(place.path().string()); },
                                  {"has 2 GGUF files; expected the path of one, such as", "again.gguf"});
}

TEST(gguf_file, damaged_files_are_refused_in_one_line) {
  const scratch::folder place;
  const auto refused = [&](const std::string& bytes, const std::string& part) {
    scratch::write(place / "x.gguf", bytes);
    const std::string what =
        scratch::error_of<format_error>([&] { gguf_file file(place / "x.gguf"); }, {(place / "x.gguf").string(), part});
    EXPECT_LT(what.size(), 500U);
  };
  constexpr std::uint64_t huge = std::uint64_t{1} << 63;
  const auto one = [](std::vector<std::uint64_t> extents, std::uint32_t type, std::uint64_t at, std::size_t data) {
    return made::header(1, 0).tensor("a", std::move(extents), type, at).data(data).bytes;
  };
  refused("", "truncated: a GGUF file has at least 24 bytes, this one has 0");
  refused(std::string(24, 'x'), "not a GGUF file");
  refused(made::header(0, 0, 1).bytes, "GGUF version 1; expected 2 or 3");
  refused(made::header(0, 0, 0x03000000).bytes, "big endian");
  refused(made::header(huge, 0).bytes, "truncated: 9223372036854775808 tensors are announced");
  refused(made::header(0, huge).bytes, "truncated: 9223372036854775808 metadata values are announced");
  refused(made::header(0, 1).number(huge).number(std::uint64_t{0}).bytes, "9223372036854775808 bytes of a text");
  refused(made::header(0, 1).word("key").number(std::uint32_t{13}).bytes, "key 'key' has a value of unknown type 13");
  const auto list = [](std::uint32_t element, std::uint64_t count) {
    return made::header(0, 1).word("list").number(std::uint32_t{9}).number(element).number(count);
  };
  refused(list(10, huge / 4).bytes, "2305843009213693952 elements of 'list' are announced");
  refused(list(9, 0).bytes, "key 'list' is a list of lists");
  refused(list(8, 1).number(huge).bytes, "truncated");
  refused(made::header(0, 2).word("k").number(0U).number('1').word("k").number(0U).number('2').bytes,
          "'k' is there twice");
  refused(one({1, 1, 1, 1, 1}, 0, 0, 64), "tensor 'a' has 5 dimensions; expected 1 to 4");
  refused(one({}, 0, 0, 64), "tensor 'a' has 0 dimensions");
  refused(one({0}, 0, 0, 64), "has the extent 0");
  refused(one({huge / 2, 8}, 0, 0, 64), "has the extent");
  refused(one({32}, 4, 0, 64), "tensor 'a' has the unknown type 4");
  refused(one({33}, 8, 0, 64), "of type Q8_0 has rows of 33; expected a multiple of 32");
  refused(one({17}, 0, 0, 64), "tensor 'a' needs 68 bytes from data byte 0 on, the file has 64: truncated");
  refused(one({16}, 0, 32, 64), "needs 64 bytes from data byte 32 on");
  refused(one({16}, 0, huge, 64), "needs 64 bytes from data byte 9223372036854775808 on");
  refused(one({8}, 0, 8, 64), "begins at data byte 8; expected a multiple of 32");
  const auto two = [](std::string_view second, std::uint64_t at) {
    return made::header(2, 0).tensor("a", {16}, 0, 0).tensor(second, {8}, 0, at).data(96).bytes;
  };
  refused(two("b", 32), "tensor 'b' overlaps 'a'");
  refused(two("a", 64), "tensor 'a' is there twice");
  const auto value = [](std::string_view key, std::uint32_t x) {
    return made::header(0, 1).word(key).number(std::uint32_t{4}).number(x).data(32).bytes;
  };
  refused(value("general.alignment", 24), "key 'general.alignment' is 24; expected a power of two");
  refused(value("split.count", 3), "is one of 3 parts of a model; expected a whole file");
  scratch::write(place / "x.gguf", two("b", 64));
  EXPECT_EQ(gguf_file(place / "x.gguf").tensors().size(), 2U);

  // Cut anywhere, the golden file is either refused or lacks nothing.
  const std::string whole = scratch::read(llama);
  for (std::size_t size = 0; size < whole.size(); size += 1 + size / 40) {
    scratch::write(place / "x.gguf", whole.substr(0, size));
    scratch::error_of<format_error>([&] { gguf_file file(place / "x.gguf"); }, {"truncated"});
  }
}

TEST(gguf_file, what_is_not_supported_is_refused_by_name) {
  const scratch::folder place;
  const auto write = [&](const std::string& from, const std::string& to) {
    std::string bytes = scratch::read(llama);
    const std::size_t at = bytes.find(from);
    ASSERT_NE(at, bytes.npos);
    bytes.replace(at, from.size(), to);
    scratch::write(place / "x.gguf", bytes);
  };
  write("\x05\0\0\0\0\0\0\0llama"s, "\x05\0\0\0\0\0\0\0mamba"s);
  scratch::error_of<format_error>([&] { checkpoint::read_config(place / "x.gguf"); },
                                  {"'general.architecture' is 'mamba'; expected one of llama, qwen2, qwen3, qwen3moe"});
  write("llama-bpe", "llama-abc");
  scratch::error_of<format_error>([&] { text::tokenizer::load(place / "x.gguf"); },
                                  {"'tokenizer.ggml.pre' is 'llama-abc'; expected one of gpt-2, smollm, qwen2"});
  write("gpt2", "bert");
  scratch::error_of<format_error>([&] { text::tokenizer::load(place / "x.gguf"); },
                                  {"'tokenizer.ggml.model' is 'bert'; expected gpt2 (byte-level BPE) or llama"});
  write("llama.rope.dimension_count\x04\0\0\0\x10"s, "llama.rope.dimension_count\x04\0\0\0\x08"s);
  scratch::error_of<format_error>([&] { checkpoint::read_config(place / "x.gguf"); },
                                  {"'llama.rope.dimension_count' is 8; expected 16"});
  write("llama.block_count", "llama.blocs_count");
  scratch::error_of<format_error>([&] { checkpoint::read_config(place / "x.gguf"); },
                                  {"key 'llama.block_count' is missing; expected an integer"});
  // A type that is known and not read: the tensor's row length fits both.
  write("blk.0.attn_norm.weight\x01\0\0\0\x20\0\0\0\0\0\0\0\0\0\0\0"s,
        "blk.0.attn_norm.weight\x01\0\0\0\x20\0\0\0\0\0\0\0\x14\0\0\0"s);
  scratch::error_of<format_error>(
      [&] { checkpoint::tensor_folder folder(place / "x.gguf"); },
      {"tensor 'blk.0.attn_norm.weight' has the type IQ4_NL; expected one of F32, F16, Q4_0"});
}

TEST(gguf_file, names_go_both_ways) {
  using checkpoint::gguf_name_of;
  using checkpoint::name_of_gguf;
  EXPECT_EQ(gguf_name_of("model.layers.12.self_attn.k_proj.bias")->name, "blk.12.attn_k.bias");
  EXPECT_EQ(gguf_name_of("model.layers.0.mlp.experts.31.up_proj.weight")->name, "blk.0.ffn_up_exps.weight");
  EXPECT_EQ(gguf_name_of("model.layers.0.mlp.experts.31.up_proj.weight")->expert, 31U);
  EXPECT_EQ(gguf_name_of("lm_head.weight")->name, "output.weight");
  for (const char* other : {"score.weight", "model.layers.x.mlp.up_proj.weight", "model.layers.1.mlp.up_proj", "model"})
    EXPECT_EQ(gguf_name_of(other).has_value(), false) << other;
  EXPECT_EQ(name_of_gguf("blk.3.ffn_down_exps.weight", 7), "model.layers.3.mlp.experts.7.down_proj.weight");
  EXPECT_EQ(name_of_gguf("blk.3.ffn_gate_inp.weight"), "model.layers.3.mlp.gate.weight");
  EXPECT_EQ(name_of_gguf("rope_freqs.weight"), std::nullopt);
  EXPECT_EQ(checkpoint::permuted_row(0, 8), 0U);
  EXPECT_EQ(checkpoint::permuted_row(4, 8), 1U);  // the second half begins behind the first row of the first
  EXPECT_EQ(checkpoint::permuted_row(8 + 3, 8), 8U + 6U);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
