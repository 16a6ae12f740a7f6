// The weights of a Qwen2.5-VL as FSDP workers have them, under the names in memory: what the merger makes of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/tiny_vision_folder.hpp"
#include "data/scratch.hpp"
#include "rlcore/checkpoint/stream_weights.hpp"
#include "rlcore/checkpoint/weight_source.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using checkpoint::merged_weights;
using checkpoint::stored_type;
using tiny_vision::tiny_model;

/// Floats by name.
class listed final : public checkpoint::weight_source {
 public:
  void add(std::string name, std::vector<std::int64_t> shape, std::vector<float> values) {
    weights_.push_back({name, stored_type::f32, std::move(shape)});
    std::ranges::sort(weights_, {}, &checkpoint::weight::name);
    values_[name] = std::move(values);
  }
  void read_bytes(const checkpoint::weight& w, std::uint64_t first, std::span<std::byte> bytes) override {
    std::memcpy(bytes.data(), values_.at(w.name).data() + first, bytes.size());
  }

 private:
  std::map<std::string, std::vector<float>> values_;
};

/// The parameters of `tiny` with `name(p.name)`; a tied model's output besides.
template <class Name>
void fill(listed& source, const tiny_model& tiny, Name&& name) {
  for (const nn::parameter& p : tiny.model.parameters()) {
    const auto values = tiny.weights().subspan(p.offset, p.size);
    source.add(name(p.name), p.shape, {values.begin(), values.end()});
    if (p.name == checkpoint::embedding_name && tiny.model.settings().tie_word_embeddings)
      source.add("lm_head.weight", p.shape, {values.begin(), values.end()});
  }
}

TEST(merged_vision, names_in_memory_become_a_folder) {
  for (const bool tied : {false, true}) {
    const tiny_model tiny(tied);
    listed source;
    fill(source, tiny, [](const std::string& name) { return nn::name_in_memory(name); });
    merged_weights merged(source, tied);
    EXPECT_EQ(merged.dropped_output(), tied);
    const scratch::folder place;
    checkpoint::stream_to_folder(merged, place.path(), {stored_type::f32}, [](auto, auto) {});
    std::vector<float> weights(tiny.model.size());
    checkpoint::load_weights(place.path(), tiny.model.parameters(), weights);
    EXPECT_TRUE(std::equal(weights.begin(), weights.end(), tiny.weights().begin()));
    const checkpoint::safetensors_reader file(place / "model.safetensors");
    for (const auto& t : file.tensors()) EXPECT_EQ(nn::name_on_disk(t.name), t.name);  // the names on disk are written
    EXPECT_TRUE(file.contains("visual.patch_embed.proj.weight"));

    checkpoint::folder_weights folder(place.path());
    merged_weights expected(folder, tied);
    checkpoint::compare_weights(merged, expected, stored_type::f32, "them", [](auto, auto) {});
  }
}

TEST(merged_vision, adapters_of_peft_are_found_under_either_name) {
  for (const bool in_memory : {false, true}) {
    const tiny_model tiny(false);
    listed source;
    const auto peft = [&](const std::string& name) {
      return "base_model.model." + (in_memory ? nn::name_in_memory(name) : name);
    };
    fill(source, tiny, [&](const std::string& name) {
      const bool adapted = name == "visual.blocks.1.attn.qkv.weight" || name == "visual.blocks.1.attn.qkv.bias";
      return adapted ? peft("visual.blocks.1.attn.qkv.base_layer" + name.substr(name.rfind('.'))) : peft(name);
    });
    std::vector<float> a(2 * 32), b(96 * 2);
    for (std::uint32_t i = 0; i < a.size(); ++i) a[i] = parity::value(400, i);
    for (std::uint32_t i = 0; i < b.size(); ++i) b[i] = parity::value(401, i);
    source.add(peft("visual.blocks.1.attn.qkv.lora_A.default.weight"), {2, 32}, a);
    source.add(peft("visual.blocks.1.attn.qkv.lora_B.default.weight"), {96, 2}, b);
    merged_weights merged(source, false, checkpoint::adapter_scale{4, 2, false});
    ASSERT_TRUE(merged.has_adapter());
    EXPECT_EQ(merged.adapters().begin()->first, "visual.blocks.1.attn.qkv.weight");
    std::vector<float> values(96 * 32);
    merged.read_f32(*merged.find("visual.blocks.1.attn.qkv.weight"), 0, values);
    const auto p = std::ranges::find(tiny.model.parameters(), "visual.blocks.1.attn.qkv.weight", &nn::parameter::name);
    for (std::size_t o = 0; o < 96; ++o)
      for (std::size_t i = 0; i < 32; ++i) {
        const double sum = static_cast<double>(b[2 * o]) * a[i] + static_cast<double>(b[2 * o + 1]) * a[32 + i];
        ASSERT_NEAR(values[o * 32 + i], tiny.weights()[p->offset + o * 32 + i] + 2 * sum, 1e-6);
      }
  }
}

TEST(merged_vision, one_tensor_under_two_names_is_refused) {
  const tiny_model tiny(false);
  listed source;
  fill(source, tiny, [](const std::string& name) { return name; });
  source.add("model.visual.merger.ln_q.weight", {32}, std::vector<float>(32));
  scratch::error_of<format_error>([&] { merged_weights(source, false); },
                                  {"'model.visual.merger.ln_q.weight' and 'visual.merger.ln_q.weight' are one"});
}

}  // namespace
}  // namespace RLCORE_TEST_ID
