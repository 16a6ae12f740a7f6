// The vision tower against transformers (reference/vision_tower.py), and that no bit depends on company.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "nn/parity_example.hpp"
#include "rlcore/nn/vision/vision_pass.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using floats = std::vector<float>;
using nlohmann::json;

/// A tower with the weights of the generator.
struct tower_of {
  std::map<std::string, std::pair<std::size_t, std::size_t>> named;  // offset and size
  nn::vision_tower tower;
  floats weights;
  std::vector<nn::matrix> matrices;

  explicit tower_of(const nn::vision_config& c) {
    std::size_t size = 0;
    tower = nn::vision_tower(c, [&](const std::string& name, const std::vector<std::int64_t>& shape) {
      std::size_t n = 1;
      for (const std::int64_t e : shape) n *= static_cast<std::size_t>(e);
      named[name] = {size, n};
      return std::exchange(size, size + n);
    });
    tower.for_linears([&](nn::linear& l) {
      l.number = matrices.size();
      matrices.push_back({l.weight, l.outputs, l.inputs});
    });
    weights.resize(size);
    std::uint32_t k = 0;
    for (const auto& [name, place] : named) {
      const bool is_norm = name.find("norm") != std::string::npos || name.find("ln_q") != std::string::npos;
      for (std::size_t i = 0; i < place.second; ++i) {
        const float v = parity::value(k, static_cast<std::uint32_t>(i));
        weights[place.first + i] = is_norm ? 1 + v / 2 : v * (name.find("patch") != std::string::npos ? 0.1f : 0.5f);
      }
      ++k;
    }
  }
};

floats values(std::uint32_t k, std::size_t n) {
  floats result;
  for (std::size_t i = 0; i < n; ++i) result.push_back(parity::value(k, static_cast<std::uint32_t>(i)));
  return result;
}

struct outcome {
  floats rows, gradients;
  bool operator==(const outcome&) const = default;
};

outcome run(const tower_of& t, std::span<const nn::patch_grid> grids, const floats& patches, const floats& slopes,
            bool recompute, std::size_t threads = 1) {
  cpu device(static_cast<int>(threads));
  nn::workspace<cpu> space(device);
  nn::packed_weights<cpu> packed(device.compute_format());
  std::vector<nn::image_patches> images;
  std::size_t at = 0;
  for (const nn::patch_grid& g : grids) {
    const auto n = static_cast<std::size_t>(g.height * g.width * t.tower.settings.patch());
    images.push_back({g, std::span(patches).subspan(at, n)});
    at += n;
  }
  nn::vision_pass<cpu> pass(t.tower, device, space, t.weights.data(), packed.view(device, t.matrices, t.weights.data()),
                            images, recompute);
  outcome o;
  o.rows.assign(pass.rows(), pass.rows() + pass.tokens() * t.tower.settings.out_hidden_size);
  o.gradients.resize(t.weights.size());
  pass.backward(o.gradients.data(), false, slopes.data());
  return o;
}

nn::vision_config settings_of(const json& s) {
  nn::vision_config c;
  c.depth = s.at("depth"), c.hidden_size = s.at("hidden_size"), c.num_heads = s.at("num_heads");
  c.intermediate_size = s.at("intermediate_size"), c.out_hidden_size = s.at("out_hidden_size");
  c.fullatt_block_indexes = s.at("fullatt_block_indexes").get<std::vector<std::int64_t>>();
  return c;
}

TEST(vision_tower, rows_and_gradients_of_transformers) {
  for (const json& golden : parity::read("vision_tower.json")) {
    const tower_of t(settings_of(golden.at("settings")));
    std::vector<nn::patch_grid> grids;
    std::size_t patches = 0;
    for (const auto& g : golden.at("grids")) {
      grids.push_back({g[0], g[1]});
      patches += static_cast<std::size_t>(g[0].get<std::int64_t>() * g[1].get<std::int64_t>());
    }
    const auto wanted = golden.at("rows").get<std::vector<double>>();
    for (const bool recompute : {false, true}) {
      const outcome o = run(t, grids, values(500, patches * 1176), values(999, wanted.size()), recompute);
      ASSERT_EQ(o.rows.size(), wanted.size());
      EXPECT_LT(parity::relative_error(o.rows, wanted), 2e-6);
      for (const auto& [name, gradient] : golden.at("gradients").items()) {
        const auto [offset, size] = t.named.at(name);
        const auto first = gradient.at("first").get<std::vector<double>>();
        double square = 0;
        for (std::size_t i = 0; i < size; ++i) square += std::pow(static_cast<double>(o.gradients[offset + i]), 2);
        const double norm = gradient.at("norm");
        EXPECT_NEAR(std::sqrt(square), norm, 1e-5 * norm) << name;
        for (std::size_t i = 0; i < first.size(); ++i)
          EXPECT_NEAR(static_cast<double>(o.gradients[offset + i]), first[i], 1e-5 * norm) << name << ' ' << i;
      }
    }
  }
}

TEST(vision_tower, no_bit_depends_on_company_threads_or_recompute) {
  nn::vision_config c;
  c.depth = 3, c.hidden_size = 64, c.num_heads = 4, c.intermediate_size = 36, c.out_hidden_size = 20;
  c.fullatt_block_indexes = {1};
  const tower_of t(c);
  const std::vector<nn::patch_grid> grids = {{10, 14}, {4, 6}};
  const std::size_t first = 140 * 1176, cells = 35 * 20;
  const floats patches = values(500, 164 * 1176), slopes = values(999, 41 * 20);
  const outcome both = run(t, grids, patches, slopes, false);
  EXPECT_EQ(run(t, grids, patches, slopes, true), both);
  EXPECT_EQ(run(t, grids, patches, slopes, false, 3), both);
  const floats second(patches.begin() + static_cast<std::ptrdiff_t>(first), patches.end()),
      second_slopes(slopes.begin() + static_cast<std::ptrdiff_t>(cells), slopes.end());
  const floats alone = run(t, std::span(grids).subspan(1), second, second_slopes, false).rows;
  EXPECT_EQ(floats(both.rows.begin() + static_cast<std::ptrdiff_t>(cells), both.rows.end()), alone);
}

TEST(window_order, of_five_by_seven_tokens) {
  const std::vector<nn::patch_grid> grids = {{10, 14}};
  const nn::window_order order = nn::order_by_windows(grids, {});
  EXPECT_THAT(order.token, testing::ElementsAre(0, 1, 2, 3, 7, 8, 9, 10, 14, 15, 16, 17, 21, 22, 23, 24, 4, 5, 6, 11,
                                                12, 13, 18, 19, 20, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34));
  std::vector<extent_t> lengths;
  for (const attention_segment& s : order.windows) lengths.push_back(s.rows);
  EXPECT_THAT(lengths, testing::ElementsAre(64, 48, 16, 12));
  ASSERT_EQ(order.images.size(), 1u);
  EXPECT_EQ(order.images[0].rows, 140);
}

TEST(vision_config, sizes_that_do_not_fit_are_refused) {
  const auto refusal = [](auto change) {
    nn::vision_config c;
    change(c);
    try {
      nn::check_settings(c);
    } catch (const config_error& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_EQ(refusal([](auto&) {}), "");
  EXPECT_EQ(refusal([](auto& c) { c.depth = 0; }), "model config: vision_config.depth must be positive, got 0");
  EXPECT_EQ(refusal([](auto& c) { c.fullatt_block_indexes = {32}; }),
            "model config: vision_config.fullatt_block_indexes names block 32 of 32");
  EXPECT_THAT(refusal([](auto& c) { c.num_heads = 5, c.hidden_size = 50; }), testing::HasSubstr("hidden_size 50"));
}

}  // namespace
}  // namespace RLCORE_TEST_ID
