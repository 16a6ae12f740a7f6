// Damage to a checkpoint, one file at a time.
#include "rlcore/checkpoint/step_manifest.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "data/scratch.hpp"
#include "rlcore/checkpoint/layout.hpp"
#include "rlcore/core/error.hpp"

namespace RLCORE_TEST_ID {
namespace {

namespace fs = std::filesystem;
using namespace rlcore::checkpoint;
using testing::HasSubstr;

/// A checkpoint as a run writes it, but for the contents.
void save(const fs::path& root, std::int64_t step) {
  save_step(root, step, 0, [&](const fs::path& folder) {
    const std::string of = std::to_string(step);
    for (const char* part : {"actor/huggingface", "actor/shards", "critic"}) fs::create_directories(folder / part);
    scratch::write(folder / "data.json", "{\"step\": " + of + "}");
    scratch::write(folder / "actor/optim.safetensors", std::string(17'000'000, 'm') + of);  // two blocks
    scratch::write(folder / "actor/huggingface/model.safetensors", std::string(1000, 'w') + of);
    scratch::write(folder / "actor/extra_state.json", "{\"optimizer_steps\": " + of + "}");
    scratch::write(folder / "actor/shards/manifest.json", "{}" + of);
    scratch::write(folder / "actor/shards/weights_rank_0.safetensors", "floats" + of);
    scratch::write(folder / "critic/optim.safetensors", "");
  });
}

std::string problem_of(const fs::path& folder, std::int64_t step = 4) {
  try {
    check_step_manifest(folder, step);
  } catch (const rlcore::format_error& e) {
    return e.what();
  }
  return "none";
}

TEST(step_manifest, whole_checkpoints_pass) {
  const scratch::folder place;
  save(place.path(), 4);
  EXPECT_EQ(problem_of(place / "global_step_4"), "none");
  EXPECT_EQ(check_step_manifest(place / "global_step_4", 4), "");
  fs::remove_all(place / "global_step_4/critic");  // trainer.max_critic_ckpt_to_keep
  scratch::write(place / "global_step_4/notes.txt", "a user's");
  EXPECT_EQ(problem_of(place / "global_step_4"), "none");
  fs::remove(place / "global_step_4/checkpoint.json");  // as earlier versions saved
  EXPECT_THAT(check_step_manifest(place / "global_step_4", 4), HasSubstr("has no checkpoint.json"));
}

TEST(step_manifest, every_damage_is_named) {
  const scratch::folder place;
  save(place / "whole", 2);
  save(place / "whole", 4);
  const fs::path other = place / "whole/global_step_2", folder = place / "damaged/global_step_4";
  const auto flip = [&](const char* name, std::size_t at) {
    std::string bytes = scratch::read(folder / name);
    bytes.at(at) ^= 1;
    scratch::write(folder / name, bytes);
  };
  const auto mix = [&](const char* name) {
    fs::copy_file(other / name, folder / name, fs::copy_options::overwrite_existing);
  };
  const std::vector<std::pair<std::function<void()>, std::string>> damages{
      {[&] { flip("actor/optim.safetensors", 0); }, "actor/optim.safetensors has other bytes than were written"},
      {[&] { flip("actor/optim.safetensors", 16'800'000); }, "actor/optim.safetensors has other bytes"},
      {[&] { flip("actor/optim.safetensors", 16'999'999); }, "actor/optim.safetensors has other bytes"},
      {[&] { flip("actor/huggingface/model.safetensors", 500); },
       "actor/huggingface/model.safetensors has other bytes"},
      {[&] { flip("actor/shards/manifest.json", 2); }, "actor/shards/manifest.json has other bytes"},
      {[&] { flip("data.json", 9); }, "data.json has other bytes"},
      {[&] { fs::resize_file(folder / "actor/optim.safetensors", 16'000'000); },
       "actor/optim.safetensors has 16000000 bytes, its manifest says 17000001"},
      {[&] { fs::resize_file(folder / "actor/shards/weights_rank_0.safetensors", 6); },
       "actor/shards/weights_rank_0.safetensors has 6 bytes, its manifest says 7"},
      {[&] { fs::remove(folder / "actor/extra_state.json"); }, "actor/extra_state.json is missing"},
      {[&] { fs::remove(folder / "critic/optim.safetensors"); }, "critic/optim.safetensors is missing"},
      {[&] { mix("actor/optim.safetensors"); }, "actor/optim.safetensors has other bytes"},
      {[&] { mix("actor/huggingface/model.safetensors"); }, "actor/huggingface/model.safetensors has other bytes"},
      {[&] { mix("actor/extra_state.json"); }, "actor/extra_state.json has other bytes"},
      {[&] { mix("data.json"); }, "data.json has other bytes"},
      {[&] { mix("checkpoint.json"); }, "its manifest is that of step 2, expected 4"},
      {[&] { scratch::write(folder / "actor/extra_state.json", "{\"optimizer_steps\": 1000000000000000000}"); },
       "actor/extra_state.json has 40 bytes, its manifest says 22"},
      {[&] { scratch::write(folder / "actor/huggingface/model-00001-of-00002.safetensors", "x"); },
       "actor/huggingface/model-00001-of-00002.safetensors is not a file of this checkpoint"},
      {[&] { scratch::write(folder / "checkpoint.json", "{"); }, "checkpoint.json"},
      {[&] { scratch::write(folder / "checkpoint.json", "{}"); }, "checkpoint.json"},
      {[&] { scratch::write(folder / "checkpoint.json", ""); }, "checkpoint.json"},
  };
  for (std::size_t i = 0; i < damages.size(); ++i) {
    fs::remove_all(folder);
    fs::create_directories(folder);
    fs::copy(place / "whole/global_step_4", folder, fs::copy_options::recursive);
    ASSERT_EQ(problem_of(folder), "none") << i;
    damages[i].first();
    EXPECT_THAT(problem_of(folder), HasSubstr(damages[i].second)) << i;
    EXPECT_THAT(problem_of(folder), HasSubstr(folder.string())) << i;
  }
}

TEST(step_manifest, lists_files_of_its_folder_alone) {
  const scratch::folder place;
  save(place.path(), 4);
  const fs::path folder = place / "global_step_4";
  scratch::write(place / "other.json", "");
  const auto listing = [&](const std::string& name) {
    scratch::write(folder / "checkpoint.json",
                   R"({"format": "rlcore checkpoint 1", "step": 4, "block_bytes": 16777216, "files": {")" + name +
                       R"(": {"bytes": 0, "crc32": []}}})");
    return problem_of(folder);
  };
  for (const std::string& name : {std::string("../other.json"), (place / "other.json").string(), std::string("a/../.."),
                                  std::string("data.json\\u0000"), std::string()})
    EXPECT_THAT(listing(name), HasSubstr("which is no file's name")) << name;
  EXPECT_THAT(listing(std::string(300, 'a')), HasSubstr("is missing"));  // no file can have such a name
}

}  // namespace
}  // namespace RLCORE_TEST_ID
