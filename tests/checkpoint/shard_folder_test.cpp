// Folders of shards where folders of whole tensors are expected.
#include <gtest/gtest.h>

#include "data/scratch.hpp"
#include "rlcore/checkpoint/hugging_face.hpp"
#include "rlcore/checkpoint/model_weights.hpp"
#include "rlcore/checkpoint/shard_files.hpp"
#include "rlcore/checkpoint/stream_weights.hpp"
#include "rlcore/parallel/communicator/threads.hpp"
#include "support/shard_layouts.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore::checkpoint;
using rlcore::format_error;
using rlcore::parallel::run_ranks;
using rlcore::parallel::thread_rank;
using rlcore::parallel::whole_tensor;
using shard_layouts::values;

/// A checkpoint of three ranks: huggingface/ without weights, shards/ beside it.
class shard_folder : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(place_ / "actor" / "huggingface");
    scratch::write(place_ / "actor" / "huggingface" / "config.json", "{}");
    const auto layout = shard_layouts::cut(3, 1, 3, true);
    run_ranks(3, [&](thread_rank& c) {
      const auto& own = layout[static_cast<std::size_t>(c.rank())];
      write_shards(c, place_ / "actor" / "shards", own, {"weights"},
                   [&](std::size_t, std::size_t piece, std::size_t first, std::span<float> out) {
                     const std::vector<float> all = values(own[piece]);
                     std::copy_n(all.begin() + static_cast<std::ptrdiff_t>(first), out.size(), out.begin());
                   });
    });
    for (const auto& [name, shape] : shard_layouts::tensors()) {
      const std::size_t size = rlcore::parallel::elements_of(shape);
      parameters_.push_back({name, shape, expected_.size(), size});
      const std::vector<float> all = values(whole_tensor(name, shape));
      expected_.insert(expected_.end(), all.begin(), all.end());
    }
    folder_ = resolve_model((place_ / "actor").string());
  }

  scratch::folder place_;
  std::filesystem::path folder_;
  std::vector<rlcore::nn::parameter> parameters_;
  std::vector<float> expected_;
};

TEST_F(shard_folder, loads_as_a_model) {
  EXPECT_EQ(folder_, place_ / "actor" / "huggingface");
  std::vector<float> weights(expected_.size());
  load_weights(folder_, parameters_, weights);
  EXPECT_EQ(weights, expected_);
  // the columns of a tensor parallel rank
  const rlcore::nn::parameter part{"row", {5, 3}, 0, 15, {5, 11}, {0, 7}};
  std::vector<rlcore::nn::parameter> others{part};
  std::vector<float> columns(15);
  load_weights(tensor_folder(folder_), others, columns, [](const std::string&) { return true; });
  shard_piece expected = whole_tensor("row", {5, 11});
  expected.start = {0, 7}, expected.extent = {5, 3}, expected.last = 15;
  EXPECT_EQ(columns, values(expected));
  parameters_[0].name = "colum";
  scratch::error_of<format_error>([&] { load_weights(folder_, parameters_, weights); }, {"'colum'", "'column'"});
}

TEST_F(shard_folder, becomes_a_hugging_face_folder) {
  folder_weights shards(folder_);
  EXPECT_EQ(shards.weights().size(), shard_layouts::tensors().size());
  const auto quiet = [](auto, auto) {};
  EXPECT_GT(stream_to_folder(shards, place_ / "actor" / "huggingface", {stored_type::f32, 500}, quiet), 1u);
  folder_weights whole(folder_);
  compare_weights(shards, whole, stored_type::f32, "whole", quiet);
  std::vector<float> weights(expected_.size());
  load_weights(folder_, parameters_, weights);
  EXPECT_EQ(weights, expected_);
  EXPECT_FALSE(tensor_folder(folder_).shards());  // whole tensors come first
  tensor_folder again(place_ / "actor" / "shards");
  ASSERT_TRUE(again.shards());
  std::vector<float> norm(7), wrong(6);
  again.read_f32("norm", norm);
  EXPECT_EQ(norm, values(whole_tensor("norm", {7})));
  scratch::error_of<format_error>([&] { again.read_f32("norm", wrong); }, {"[7]; expected 6"});
  scratch::error_of<format_error>([&] { again.info("nrm"); }, {"'nrm'", "'norm'"});
}

}  // namespace
}  // namespace RLCORE_TEST_ID
