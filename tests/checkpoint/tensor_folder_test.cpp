#include "rlcore/checkpoint/tensor_folder.hpp"

#include "data/scratch.hpp"

namespace RLCORE_TEST_ID {
namespace {

using rlcore::file_error;
using rlcore::format_error;
using rlcore::checkpoint::tensor_folder;
using rlcore::checkpoint::tensor_source;
using rlcore::checkpoint::write_tensor_folder;

const std::filesystem::path golden = std::filesystem::path(RLCORE_REFERENCE_DIR) / "checkpoint_qwen2_sharded";

TEST(tensor_folder, reads_the_shards_that_transformers_wrote) {
  const tensor_folder folder(golden);
  const auto expected = nlohmann::json::parse(
      scratch::read(std::string(RLCORE_REFERENCE_DIR) + "/checkpoint_models.json"))["checkpoint_qwen2_sharded"];
  ASSERT_EQ(folder.names().size(), expected.size());
  for (const auto& [name, tensor] : expected.items()) {
    EXPECT_EQ(folder.info(name).shape, tensor["shape"].get<std::vector<std::int64_t>>());
    std::vector<float> values(folder.info(name).size());
    folder.read_f32(name, values);
    double sum = 0;
    for (const float x : values) sum += x;
    EXPECT_NEAR(sum, tensor["sum"].get<double>(), 1e-9) << name;
    for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(values[i], tensor["first"][i].get<double>()) << name;
  }
  scratch::error_of<format_error>([&] { folder.info("model.norm.weigth"); }, {"did you mean 'model.norm.weight'?"});
}

TEST(tensor_folder, writes_shards_of_limited_size_with_their_index) {
  const scratch::folder place;
  const std::vector<float> values(100, 0.5f);
  const std::vector<tensor_source> tensors{
      {"c", {100}, values}, {"a", {50, 2}, values}, {"b", {10}, std::span(values).first(10)}};
  write_tensor_folder(place.path(), tensors, rlcore::checkpoint::stored_type::f32, 450);
  EXPECT_FALSE(std::filesystem::exists(place / "model.safetensors"));
  const auto index = nlohmann::json::parse(scratch::read(place / "model.safetensors.index.json"));
  EXPECT_EQ(index["metadata"]["total_size"], 840);
  EXPECT_EQ(index["weight_map"], (nlohmann::json{{"a", "model-00001-of-00002.safetensors"},
                                                 {"b", "model-00001-of-00002.safetensors"},
                                                 {"c", "model-00002-of-00002.safetensors"}}));
  EXPECT_EQ(tensor_folder(place.path()).names(), (std::vector<std::string>{"a", "b", "c"}));
  write_tensor_folder(place.path(), tensors);  // a smaller number of files replaces the larger one
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(place.path()), {}), 1);
  EXPECT_EQ(tensor_folder(place.path()).names().size(), 3u);
}

TEST(tensor_folder, names_missing_shards_and_tensors) {
  const scratch::folder place;
  scratch::error_of<file_error>([&] { tensor_folder folder(place.path()); },
                                {place.path().string(), "model.safetensors.index.json"});
  std::filesystem::copy(golden, place.path());
  const std::filesystem::path index = place / "model.safetensors.index.json";
  const std::string shard = nlohmann::json::parse(scratch::read(index))["weight_map"]["model.norm.weight"];
  const auto edit = [&](const nlohmann::json& change) {
    auto root = nlohmann::json::parse(scratch::read(golden / "model.safetensors.index.json"));
    root.merge_patch(change);
    scratch::write(index, root.dump());
  };
  const auto refused = [&](std::vector<std::string> parts) {
    scratch::error_of<format_error>([&] { tensor_folder folder(place.path()); }, parts);
  };
  edit({{"weight_map", {{"extra", shard}}}});
  refused({shard, "no tensor 'extra'"});
  edit({{"weight_map", {{"model.norm.weight", nullptr}}}});
  refused({shard, "'model.norm.weight' is not listed"});
  edit({{"weight_map", {{"model.norm.weight", "../x"}}}});
  refused({"'../x'", "file name"});
  edit({{"weight_map", 3}});
  refused({"weight_map"});
  scratch::write(index, "{");
  refused({"not valid JSON"});
  edit(nlohmann::json::object());
  std::filesystem::resize_file(place / shard, std::filesystem::file_size(place / shard) - 1);
  refused({shard, "truncated"});
  std::filesystem::remove(place / shard);
  scratch::error_of<file_error>([&] { tensor_folder folder(place.path()); }, {shard, "missing"});
}

}  // namespace
}  // namespace RLCORE_TEST_ID
