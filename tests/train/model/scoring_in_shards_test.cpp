// Scoring while ranks have shards of the weights: the numbers of one rank, a layer at a time, in step.
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "rlcore/checkpoint/hugging_face.hpp"
#include "rlcore/checkpoint/model_weights.hpp"
#include "rlcore/checkpoint/write_config.hpp"
#include "rlcore/nn/model/log_probs.hpp"
#include "rlcore/parallel/launch.hpp"
#include "rlcore/train/files/trained_files.hpp"
#include "rlcore/train/model/scored_groups.hpp"
#include "rlcore/train/model/trainable_model.hpp"

#include "data/scratch.hpp"
#include "support/counted_device.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using train::row_range;
using floats = std::vector<float>;
using model_type = nn::causal_lm<any_device>;

struct kind {
  bool tied = true, score = false, experts = false;
  int layers = 2;
};

nn::config config_of(const kind& k) {
  nn::config c;
  c.model = k.experts ? nn::family::qwen3_moe : nn::family::qwen2;
  c.vocab_size = 150, c.hidden_size = 64, c.intermediate_size = 96, c.num_hidden_layers = k.layers;
  c.num_attention_heads = 4, c.num_key_value_heads = 2, c.head_dim = 16, c.max_position_embeddings = 64;
  c.tie_word_embeddings = k.tied, c.attention_bias = !k.experts, c.initializer_range = 0.1;
  if (k.experts) c.num_experts = 4, c.num_experts_per_tok = 2, c.moe_intermediate_size = 24;
  if (k.score) c.output = nn::model_output::score;
  return c;
}

/// A folder with a random model; `twice`: a tied one with its output stored too, which is the embedding or is not.
void write_model(const std::filesystem::path& folder, const kind& k, bool twice = false, bool equal = true) {
  any_device_of<cpu> device(1);
  model_type model(device, config_of(k));
  model.initialize(7);
  floats weights(std::as_const(model).weights().data(), std::as_const(model).weights().data() + model.size());
  std::vector<nn::parameter> parameters(model.parameters().begin(), model.parameters().end());
  if (twice) {
    nn::parameter copy = parameters[0];
    copy.name = "lm_head.weight", copy.offset = weights.size();
    weights.insert(weights.end(), weights.begin(), weights.begin() + static_cast<std::ptrdiff_t>(copy.size));
    if (!equal) weights.back() += 1;
    parameters.push_back(copy);
  }
  std::filesystem::create_directories(folder);
  checkpoint::write_config(folder, config_of(k));
  checkpoint::save_weights(folder, parameters, weights);
}

constexpr std::size_t row_count = 7;

std::vector<std::int32_t> row(std::size_t r) {
  std::vector<std::int32_t> ids;
  for (std::size_t i = 0; i < 3 + 5 * r % 11; ++i) ids.push_back(static_cast<std::int32_t>((i * i + 13 * r) % 150));
  return ids;
}

/// Everything that scoring computes, of some rows.
struct scores {
  floats logp, entropy, value;
  std::vector<std::int32_t> likely;

  void add(const scores& o) {
    logp.insert(logp.end(), o.logp.begin(), o.logp.end());
    entropy.insert(entropy.end(), o.entropy.begin(), o.entropy.end());
    value.insert(value.end(), o.value.begin(), o.value.end());
    likely.insert(likely.end(), o.likely.begin(), o.likely.end());
  }
  bool operator==(const scores&) const = default;
};

scores score(const model_type& model, nn::workspace<any_device>& space, std::size_t first, std::size_t last) {
  ragged<std::int32_t> inputs;
  nn::targets wanted;
  for (std::size_t r = first; r < last; ++r) {
    const std::vector<std::int32_t> ids = row(r);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      wanted.row.push_back(static_cast<std::int32_t>(inputs.values.size() + i));
      wanted.token.push_back((3 * ids[i] + 1) % 150);
    }
    inputs.push_back(std::span<const std::int32_t>(ids));
  }
  scores s;
  if (model.settings().output == nn::model_output::score) {
    s.value.resize(wanted.row.size());
    nn::values(model, space, inputs, wanted.row, s.value);
    return s;
  }
  s.logp.resize(wanted.row.size()), s.entropy.resize(wanted.row.size()), s.likely.resize(wanted.row.size());
  nn::log_probs(model, space, inputs, wanted, 0.7f, s.logp, s.entropy);
  nn::most_likely(model, space, inputs, wanted.row, s.likely);
  return s;
}

scores scores_of_one(const std::filesystem::path& folder, const kind& k, int tp_reduce_chunks = 0) {
  any_device_of<cpu> device(1);
  nn::config c = config_of(k);
  c.tp_reduce_chunks = tp_reduce_chunks;
  model_type model(device, c);
  train::load_model(model, folder);
  nn::workspace<any_device> space(device, 1 << 20);
  return score(model, space, 0, row_count);
}

parallel::parallel_settings zero3(int shard_ranks = 0) {
  parallel::parallel_settings how;
  how.zero = 3, how.shard_ranks = shard_ranks;
  return how;
}

template <class F>
void on_ranks(int ranks, const parallel::parallel_settings& how, F&& f) {
  parallel::launch_settings threads;
  threads.thread_ranks = ranks;
  threads.deadline = std::chrono::seconds(60);
  parallel::launch(threads, [&](parallel::any_communicator& all) {
    parallel::world world(all, how);
    counted_device counted;
    f(world, counted.device, counted.memory);
  });
}

/// Of data rank d of n: most rows lie with the first, so that the others make passes without rows.
row_range share(std::size_t d, std::size_t n) {
  if (n == 1) return {0, row_count};
  if (d == 0) return {0, 5};
  return d == 1 ? row_range{5, row_count} : row_range{row_count, row_count};
}

/// The scores of all rows out of those of this rank's, two at a time, while no weights are there.
void expect_scores(parallel::world& w, const model_type& model, nn::workspace<any_device>& space,
                   const scores& expected) {
  const row_range own = share(static_cast<std::size_t>(w.data().rank()), static_cast<std::size_t>(w.data().size()));
  const bool shards = model.units() != nullptr;
  scores mine;
  std::size_t calls = 0;
  train::for_each_scored_group(
      {model.units()}, own.size(), 2, 0, [](std::size_t) { return 0; },
      [&](std::size_t first, std::size_t last) {
        ++calls;
        EXPECT_EQ(std::as_const(model).weights().size(), shards ? 0 : model.size());
        mine.add(score(model, space, own.first + first, own.first + last));
      });
  std::size_t most = (own.size() + 1) / 2;  // of the data ranks that share the weights
  const auto data = static_cast<std::size_t>(w.data().size()),
             together = static_cast<std::size_t>(w.shards().size() / w.context().size()),
             group = static_cast<std::size_t>(w.data().rank()) / together;
  for (std::size_t d = group * together; shards && d < (group + 1) * together; ++d)
    most = std::max(most, (share(d, data).size() + 1) / 2);
  EXPECT_EQ(calls, most);
  const auto all = [&](auto& numbers) {
    using number = typename std::remove_reference_t<decltype(numbers)>::value_type;
    numbers = train::gather_parts(w.data(), std::span<const number>(numbers));
  };
  all(mine.logp), all(mine.entropy), all(mine.value), all(mine.likely);
  EXPECT_TRUE(mine == expected);
}

TEST(scoring_in_shards, has_the_numbers_of_one_rank_for_models_that_are_trained_or_not) {
  for (const kind& k : {kind{}, kind{.tied = false}, kind{.score = true}, kind{.tied = false, .experts = true}}) {
    const scratch::folder place;
    write_model(place.path(), k);
    const scores expected = scores_of_one(place.path(), k);
    EXPECT_EQ(expected.logp.empty(), k.score);
    for (const int ranks : {1, 2, 3, 4})
      on_ranks(ranks, zero3(), [&](parallel::world& w, any_device& device, memory_counts&) {
        train::trainable_model<any_device> trained(device, config_of(k), {}, &w);
        train::load_weights(trained, place.path());
        expect_scores(w, trained.model, trained.space, expected);
        train::frozen_model<any_device> frozen(device, config_of(k), &w);
        train::load_weights(frozen, place.path());
        expect_scores(w, frozen.model, trained.space, expected);
      });
  }
}

TEST(scoring_in_shards, goes_with_groups_that_share_and_with_the_other_axes) {
  const scratch::folder place;
  write_model(place.path(), {});
  parallel::parallel_settings tensor = zero3(), context = zero3(), whole = zero3();
  tensor.tensor = 2, tensor.tp_reduce_chunks = 4;
  context.context = 2, context.how_context = parallel::context_kind::ring;
  whole.zero = 2;
  for (const auto& how : {zero3(2), tensor, context, whole}) {
    const scores expected = scores_of_one(place.path(), {}, how.tp_reduce_chunks);
    on_ranks(4, how, [&](parallel::world& w, any_device& device, memory_counts&) {
      train::trainable_model<any_device> trained(device, config_of({}), {}, &w);
      train::frozen_model<any_device> frozen(device, config_of({}), &w);
      train::load_weights(frozen, place.path());
      EXPECT_EQ(frozen.model.units() != nullptr, how.zero == 3);
      expect_scores(w, frozen.model, trained.space, expected);
    });
  }
}

/// Once is (P - 1) M 4 for M parameters, with the embedding a second time where it is the head; and 8 bytes to agree.
TEST(scoring_in_shards, sends_every_weight_once_in_a_pass) {
  for (const bool tied : {true, false})
    for (const std::uint64_t p : {2u, 3u, 4u}) {
      const kind k{.tied = tied};
      const scratch::folder place;
      write_model(place.path(), k);
      std::vector<std::uint64_t> sent(p);
      std::uint64_t weights = 0;
      on_ranks(static_cast<int>(p), zero3(), [&](parallel::world& w, any_device& device, memory_counts&) {
        nn::workspace<any_device> space(device, 1 << 20);
        train::frozen_model<any_device> model(device, config_of(k), &w);
        train::load_weights(model, place.path());
        const std::uint64_t before = w.shards().counters().total().bytes;
        const auto d = static_cast<std::size_t>(w.data().rank());
        train::for_each_scored_group(
            {model.model.units()}, d == 1 ? 3 : 1, 1, 0, [](std::size_t) { return 0; },
            [&](std::size_t first, std::size_t last) {
              const std::vector<std::int32_t> ids = row(first);
              ragged<std::int32_t> inputs;
              if (first < last) inputs.push_back(std::span<const std::int32_t>(ids));
              const nn::targets wanted = first < last ? nn::targets{{1}, {5}} : nn::targets{};
              floats logp(wanted.row.size());
              nn::log_probs(model.model, space, inputs, wanted, 1.0f, logp, {});
            });
        sent[d] = w.shards().counters().total().bytes - before;
        const std::size_t embedding = model.model.parameters()[0].size;
        if (d == 0) weights = model.model.size() + (tied ? embedding : 0);
      });
      std::uint64_t all = 0;
      for (const std::uint64_t n : sent) all += n;
      EXPECT_EQ(all, 3 * (p - 1) * weights * 4 + 8 * p * (p - 1)) << tied << p;
    }
}

/// A shard, and of ten layers one with its packed copy, beside both ends of the model.
TEST(scoring_in_shards, no_rank_has_more_than_its_share_and_a_layer) {
  const kind deep{.layers = 10};
  const scratch::folder place;
  write_model(place.path(), deep);
  on_ranks(4, zero3(), [&](parallel::world& w, any_device& device, memory_counts& memory) {
    nn::workspace<any_device> space(device, 1 << 20);
    train::frozen_model<any_device> model(device, config_of(deep), &w);
    train::load_weights(model, place.path());
    const std::size_t all = model.model.size() * sizeof(float), before = memory.live;
    EXPECT_LE(before, all / 4 + 4096 * 16);
    memory.most = before;
    train::for_each_scored_group(
        {model.model.units()}, 3, 1, 0, [](std::size_t) { return 0; },
        [&](std::size_t first, std::size_t last) { score(model.model, space, first, last); });
    // a layer is a tenth, the embedding a third of that: twice each, and what a pass takes for its rows
    EXPECT_LE(memory.most - space.bytes(), before + 4 * all / 10);
    EXPECT_EQ(memory.live - space.bytes(), before);  // and nothing afterwards
  });
}

TEST(scoring_in_shards, every_folder_is_read_by_pieces) {
  const scratch::folder place;
  write_model(place / "tied", {}, true);
  write_model(place / "causal", {.tied = false});
  kind head{.tied = false, .score = true};
  for (const auto& [name, k] : {std::pair{"tied", kind{}}, {"causal", head}}) {
    const scores expected = scores_of_one(place / name, k);
    EXPECT_EQ(expected.value.empty(), !k.score);
    on_ranks(3, zero3(), [&, name = name, k = k](parallel::world& w, any_device& device, memory_counts& memory) {
      train::trainable_model<any_device> trained(device, config_of(k), {}, &w);
      memory.most = memory.live;
      train::load_weights(trained, place / name);
      EXPECT_EQ(memory.most, memory.live);  // no memory of the device
      expect_scores(w, trained.model, trained.space, expected);
    });
  }
  const auto load = [&](const char* name) {
    on_ranks(3, zero3(), [&](parallel::world& w, any_device& device, memory_counts&) {
      train::frozen_model<any_device> frozen(device, config_of({}), &w);
      train::load_weights(frozen, place / name);
    });
  };
  write_model(place / "other", {}, true, false);
  scratch::error_of<format_error>([&] { load("other"); },
                                  {"lm_head.weight", "differs from 'model.embed_tokens.weight'"});
  write_model(place / "nan", {});
  {
    std::fstream file(place / "nan" / "model.safetensors", std::ios::in | std::ios::out | std::ios::binary);
    const float nan = std::numeric_limits<float>::quiet_NaN();
    file.seekp(-static_cast<std::streamoff>(sizeof nan), std::ios::end);
    file.write(reinterpret_cast<const char*>(&nan), sizeof nan);
  }
  scratch::error_of<format_error>([&] { load("nan"); }, {"has the value NaN"});
}

}  // namespace
}  // namespace RLCORE_TEST_ID
