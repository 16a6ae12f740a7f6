// A tiny Qwen2.5-VL against transformers (reference/vl_parity.py): log-probs, entropies, all gradients; and that no bit
// depends on company, threads or recompute.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "nn/parity_example.hpp"
#include "nn/vl_parity_rows.hpp"
#include "rlcore/nn/attention/kv_cache.hpp"
#include "rlcore/nn/model/decode.hpp"
#include "rlcore/nn/model/forward_backward.hpp"
#include "rlcore/nn/model/gradients.hpp"
#include "rlcore/nn/model/log_probs.hpp"
#include "rlcore/nn/vision/vision_pass.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using nlohmann::json;
using floats = std::vector<float>;

nn::config settings_of(const json& golden, bool tied) {
  const json &text = golden.at("text"), &vision = golden.at("vision");
  nn::config c = parity::dense_config({{"vocab_size", text.at("vocab_size")},
                                       {"hidden_size", text.at("hidden_size")},
                                       {"intermediate_size", text.at("intermediate_size")},
                                       {"num_hidden_layers", text.at("num_hidden_layers")},
                                       {"num_attention_heads", text.at("num_attention_heads")},
                                       {"num_key_value_heads", text.at("num_key_value_heads")},
                                       {"tie_word_embeddings", tied}});
  c.max_position_embeddings = text.at("max_position_embeddings");
  c.rope_theta = text.at("rope_parameters").at("rope_theta");
  c.mrope_section = text.at("rope_parameters").at("mrope_section").get<std::array<std::int64_t, 3>>();
  c.image_token_id = 57, c.video_token_id = 56;
  nn::vision_config& v = c.vision.emplace();
  v.depth = vision.at("depth"), v.hidden_size = vision.at("hidden_size"), v.num_heads = vision.at("num_heads");
  v.intermediate_size = vision.at("intermediate_size"), v.out_hidden_size = vision.at("out_hidden_size");
  v.fullatt_block_indexes = vision.at("fullatt_block_indexes").get<std::vector<std::int64_t>>();
  return c;
}

/// The rows of a case, and the weights of the loss.
struct rows_of : parity::vl_rows {
  floats weight, bonus;

  explicit rows_of(const json& rows) : vl_rows(rows) {
    for (int n = 0; n < static_cast<int>(targets.row.size()); ++n) {
      weight.push_back(static_cast<float>(n * 5 % 7 - 3) / 4);
      bonus.push_back(static_cast<float>(n * 3 % 5 - 1) / 8);
    }
  }
};

/// parity::fill() with the generator's smaller matrices.
void fill(nn::causal_lm<cpu>& model, float scale = 0.5f) {
  std::map<std::string, const nn::parameter*> sorted;
  for (const auto& p : model.parameters()) sorted[p.name] = &p;
  std::uint32_t k = 0;
  for (const auto& [name, p] : sorted) {
    const bool is_norm = name.find("norm") != std::string::npos || name.find("ln_q") != std::string::npos;
    for (std::size_t i = 0; i < p->size; ++i) {
      const float v = parity::value(k, static_cast<std::uint32_t>(i));
      model.weights().data()[p->offset + i] =
          is_norm ? 1 + v / 2 : v * (name.find("patch") != std::string::npos ? 0.1f : scale);
    }
    ++k;
  }
}

struct outcome {
  floats logp, entropy, gradients;
  bool operator==(const outcome&) const = default;
};

/// Sequences [first, last) in one pass each of `each`.
outcome run(const nn::causal_lm<cpu>& model, const rows_of& rows, bool recompute, std::size_t each = 1000) {
  nn::workspace<cpu> space(model.device());
  nn::gradients<cpu> grads(model);
  outcome o;
  std::size_t target = 0;
  for (std::size_t first = 0; first < rows.tokens.rows(); first += each) {
    ragged<std::int32_t> tokens;
    ragged<nn::image_patches> images;
    nn::targets wanted;
    for (std::size_t s = first; s < std::min(first + each, rows.tokens.rows()); ++s) {
      for (std::size_t t = 1; t < rows.tokens.length(s); ++t) {
        if (rows.tokens.row(s)[t] == 57) continue;
        wanted.row.push_back(static_cast<std::int32_t>(tokens.size() + t - 1));
        wanted.token.push_back(rows.tokens.row(s)[t]);
      }
      tokens.push_back(rows.tokens.row(s));
      images.push_back(rows.images.row(s));
    }
    nn::forward_backward(model, space, grads, nn::input(tokens, images), wanted, 1.0f, recompute,
                         [&](auto logp, auto entropy, auto dlogp, auto dentropy) {
                           for (std::size_t i = 0; i < logp.size(); ++i, ++target) {
                             o.logp.push_back(logp[i]), o.entropy.push_back(entropy[i]);
                             dlogp[i] = rows.weight[target], dentropy[i] = rows.bonus[target];
                           }
                         });
  }
  const auto& flat = grads.flat();
  o.gradients.assign(flat.data(), flat.data() + flat.size());
  return o;
}

void expect_transformers(const json& spec, const json& sizes) {
  cpu device(1);
  nn::causal_lm<cpu> model(device, settings_of(sizes, spec.at("tied")));
  fill(model, spec.value("scale", 0.5f));
  const rows_of rows(spec.at("rows"));
  const outcome o = run(model, rows, false);
  EXPECT_LT(parity::relative_error(o.logp, spec.at("logp").get<std::vector<double>>()), 1e-6);
  EXPECT_LT(parity::relative_error(o.entropy, spec.at("entropy").get<std::vector<double>>()), 1e-6);
  for (const auto& p : model.parameters()) {
    const json& g = spec.at("gradients").at(p.name);
    const double norm = g.at("norm");
    const auto first = g.at("first").get<std::vector<double>>();
    double square = 0;
    for (std::size_t i = 0; i < p.size; ++i) square += std::pow(static_cast<double>(o.gradients[p.offset + i]), 2);
    EXPECT_NEAR(std::sqrt(square), norm, 1e-5 * norm) << p.name;
    for (std::size_t i = 0; i < first.size(); ++i)
      ASSERT_NEAR(static_cast<double>(o.gradients[p.offset + i]), first[i], 1e-5 * norm) << p.name << ' ' << i;
  }
}

TEST(vl_parity, log_probs_entropies_and_gradients_of_transformers) {
  const json golden = parity::read("vl_parity.json");
  for (const json& spec : golden.at("cases")) expect_transformers(spec, golden);
}

TEST(vl_parity, the_shapes_of_the_released_models) {
  const json shapes = parity::read("vl_parity.json").at("shapes");
  ASSERT_EQ(shapes.size(), 3u);
  for (const auto& [name, spec] : shapes.items()) {
    SCOPED_TRACE(name);
    expect_transformers(spec, spec);
  }
}

TEST(vl_parity, image_and_video_tokens_have_no_probability_and_their_outputs_no_gradient) {
  const json golden = parity::read("vl_parity.json");
  cpu device(1);
  nn::causal_lm<cpu> model(device, settings_of(golden, false));
  fill(model);
  rows_of rows(golden.at("cases")[1].at("rows"));
  const outcome before = run(model, rows, false);
  const auto head = std::ranges::find(model.parameters(), std::string("lm_head.weight"), &nn::parameter::name);
  const auto width = static_cast<std::size_t>(model.settings().hidden_size);
  for (const std::size_t id : {56u, 57u})
    for (std::size_t i = 0; i < width; ++i) {
      const std::size_t at = head->offset + id * width + i;
      EXPECT_EQ(before.gradients[at], 0);
      model.weights().data()[at] += 3;  // no weight of theirs shows
    }
  EXPECT_EQ(run(model, rows, false), before);

  for (std::int32_t& token : rows.targets.token) token = 57;
  floats logp(rows.targets.row.size()), entropy(logp.size());
  nn::workspace<cpu> space(device);
  nn::log_probs(model, space, rows.input(), rows.targets, 1.0f, logp, entropy);
  for (std::size_t i = 0; i < logp.size(); ++i) {
    EXPECT_EQ(logp[i], -std::numeric_limits<float>::infinity());
    EXPECT_TRUE(std::isfinite(entropy[i]));
  }
}

TEST(vl_parity, no_bit_depends_on_company_threads_or_recompute) {
  const json golden = parity::read("vl_parity.json");
  const json& spec = golden.at("cases")[1];
  cpu one(1), three(3);
  nn::causal_lm<cpu> model(one, settings_of(golden, false)), shared(three, settings_of(golden, false));
  fill(model), fill(shared);
  const rows_of rows(spec.at("rows"));
  const outcome together = run(model, rows, false);
  EXPECT_EQ(run(model, rows, true), together);
  EXPECT_EQ(run(shared, rows, false), together);
  EXPECT_EQ(run(model, rows, true, 1), together);

  floats scored(rows.targets.row.size()), entropy(scored.size());
  nn::workspace<cpu> space(one);
  nn::log_probs(model, space, rows.input(), rows.targets, 1.0f, scored, entropy);
  EXPECT_EQ(scored, together.logp);
  EXPECT_EQ(entropy, together.entropy);
}

TEST(vl_parity, generation_has_the_bits_of_training_however_a_prompt_is_cut) {
  const json golden = parity::read("vl_parity.json");
  cpu device(1);
  nn::causal_lm<cpu> model(device, settings_of(golden, false));
  fill(model);
  const rows_of rows(golden.at("cases")[1].at("rows"));  // of the three rows the second has no image
  nn::workspace<cpu> space(device), images(device);
  floats logp(rows.targets.row.size());
  nn::log_probs(model, space, rows.input(), rows.targets, 1.0f, logp, {});

  const auto vocabulary = static_cast<std::size_t>(model.settings().vocab_size);
  std::vector<std::int32_t> pages(3 * 4);
  for (std::size_t i = 0; i < pages.size(); ++i) pages[i] = static_cast<std::int32_t>(pages.size() - 1 - i);
  std::vector<nn::rope_positions> places;
  std::vector<std::optional<nn::vision_pass<cpu>>> towers(3);
  std::vector<nn::workspace<cpu>> rooms;
  rooms.reserve(3);
  for (std::size_t s = 0; s < 3; ++s) {
    std::vector<nn::patch_grid> grids;
    for (const nn::image_patches& each : rows.images.row(s)) grids.push_back(each.grid);
    places.push_back(nn::make_rope_positions(rows.tokens.row(s), 57, grids));
    rooms.emplace_back(device);
    if (!grids.empty())
      towers[s].emplace(model.tower(), device, rooms[s], model.weights().data(), model.packed(), rows.images.row(s),
                        true);
  }
  for (const std::size_t piece : {std::size_t{1}, std::size_t{7}, std::size_t{1000}}) {
    nn::kv_cache<cpu> cache(device, model.settings(), static_cast<std::int64_t>(pages.size()));
    std::size_t target = 0;
    for (std::size_t s = 0; s < 3; ++s) {
      const auto ids = rows.tokens.row(s);
      extent_t shown = 0;
      for (std::size_t at = 0; at + 1 < ids.size(); at += piece) {
        const std::size_t n = std::min(piece, ids.size() - 1 - at);
        const std::span places_here = std::span(places[s].positions).subspan(at, n);
        const float* const seen =
            towers[s] ? towers[s]->rows() + shown * static_cast<extent_t>(model.settings().hidden_size) : nullptr;
        const nn::decode_chunk chunk{ids.subspan(at, n),
                                     static_cast<std::int64_t>(at),
                                     std::span(pages).subspan(4 * s, 4),
                                     true,
                                     towers[s] ? places_here : std::span<const nn::rope_position>(),
                                     seen};
        floats logits(vocabulary);
        nn::decode(model, space, cache, std::span(&chunk, 1), logits.data());
        shown += std::ranges::count(chunk.ids, 57);
        const std::int32_t wanted = ids[at + n];
        target += n - static_cast<std::size_t>(std::ranges::count(ids.subspan(at + 1, n), 57));
        if (wanted == 57) continue;
        float got = 0, entropy = 0, statistics[2];
        device.run(op::log_prob_forward{.logits = logits.data(),
                                        .rows = 1,
                                        .vocabulary = static_cast<extent_t>(vocabulary),
                                        .targets = &wanted,
                                        .temperature = 1.0f,
                                        .logp = &got,
                                        .entropy = &entropy,
                                        .statistics = statistics});
        ASSERT_EQ(got, logp[target - 1]) << "sequence " << s << ", token " << at + n << ", pieces of " << piece;
      }
    }
  }
}

TEST(vl_parity, images_and_image_tokens_have_to_fit) {
  const json golden = parity::read("vl_parity.json");
  cpu device(1);
  nn::causal_lm<cpu> model(device, settings_of(golden, true));
  fill(model);
  const rows_of rows(golden.at("cases")[0].at("rows"));
  nn::workspace<cpu> space(device);
  const auto refusal = [&](const nn::input& in) {
    floats scored(rows.targets.row.size());
    try {
      nn::log_probs(model, space, in, rows.targets, 1.0f, scored, {});
    } catch (const std::invalid_argument& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_EQ(refusal(rows.input()), "");
  EXPECT_THAT(refusal(rows.tokens), testing::HasSubstr("image tokens and no images"));
  nn::kv_cache<cpu> cache(device, model.settings(), 1);
  const std::vector<std::int32_t> page = {0}, image = {57};
  const nn::decode_chunk blind{image, 0, page};
  EXPECT_THROW(nn::decode(model, space, cache, std::span(&blind, 1), nullptr), std::invalid_argument);
  ragged<nn::image_patches> smaller;
  smaller.push_back(std::vector<nn::image_patches>{{{4, 2}, std::span(rows.patches).subspan(0, 8 * 1176)}});
  EXPECT_THAT(refusal({rows.tokens, smaller}), testing::HasSubstr("image tokens for more"));
}

}  // namespace
}  // namespace RLCORE_TEST_ID
