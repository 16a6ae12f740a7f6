#include "rlcore/checkpoint/sharded_torch.hpp"

#include <cmath>

#include "data/scratch.hpp"
#include "rlcore/checkpoint/stream_weights.hpp"
#include "rlcore/checkpoint/tensor_info.hpp"
#include "rlcore/checkpoint/weight_source.hpp"
#include "torch_archive.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore::checkpoint;
using rlcore::file_error;
using rlcore::format_error;

const std::filesystem::path reference = std::filesystem::path(RLCORE_REFERENCE_DIR) / "fsdp_shards";

std::vector<float> all(weight_source& from, const weight& w) {
  std::vector<float> values(static_cast<std::size_t>(w.size()));
  from.read_f32(w, 0, values);
  return values;
}

/// The tensors of a safetensors file.
class file_weights final : public weight_source {
 public:
  explicit file_weights(const std::filesystem::path& path) : reader_(path) {
    for (const tensor_info& t : reader_.tensors()) weights_.push_back({t.name, t.dtype, t.shape});
    std::sort(weights_.begin(), weights_.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  }
  void read_bytes(const weight& w, std::uint64_t first, std::span<std::byte> bytes) override {
    reader_.read_bytes(w.name, bytes, first * bytes_of(w.dtype));
  }

 private:
  safetensors_reader reader_;
};

// What torch's FSDP2, FSDP1, HSDP (2 x 2) and plain saving put into files is the model that was sharded, to the bit.
TEST(sharded_torch, equals_the_whole_model) {
  folder_weights expected(reference / "huggingface");
  for (const char* kind : {"fsdp2", "fsdp1_bf16", "hsdp", "columns", "plain"}) {
    const auto world_size = shard_world_size(reference / kind);
    ASSERT_TRUE(world_size) << kind;
    sharded_torch shards(reference / kind, *world_size);
    EXPECT_EQ(shards.shards(), std::string(kind) == "plain" ? 1u : 2u) << kind;
    merged_weights merged(shards, true);
    EXPECT_TRUE(merged.dropped_output());
    ASSERT_EQ(merged.weights().size(), expected.weights().size()) << kind;
    const bool half = std::string(kind) == "fsdp1_bf16";
    for (const weight& w : merged.weights()) {
      const weight& whole = *expected.find(w.name);
      ASSERT_EQ(w.shape, whole.shape) << kind << " " << w.name;
      ASSERT_EQ(w.dtype, half ? stored_type::bf16 : stored_type::f32);
      std::vector<float> values = all(merged, w), truth = all(expected, whole);
      if (half)
        for (float& x : truth) x = rlcore::bf16(x);
      ASSERT_EQ(values, truth) << kind << " " << w.name;
      // Any part alone is the same.
      for (std::size_t first = 0; first < values.size(); first += 7) {
        std::vector<float> part(std::min<std::size_t>(5, values.size() - first));
        merged.read_f32(w, first, part);
        ASSERT_TRUE(std::equal(part.begin(), part.end(), truth.begin() + static_cast<std::ptrdiff_t>(first)))
            << kind << " " << w.name << " from " << first;
      }
    }
  }
}

TEST(merged_weights, adapter_apart_and_merged_as_peft_does) {
  sharded_torch shards(reference / "lora", 2);
  folder_weights base(reference / "huggingface");
  merged_weights apart(shards, true);
  EXPECT_TRUE(apart.has_adapter());
  EXPECT_EQ(apart.adapters().size(), 2u);
  compare_weights(apart, base, stored_type::f32, "the base", [](auto, auto) {});

  const auto scale = read_adapter_scale(reference / "lora");
  ASSERT_TRUE(scale);
  EXPECT_EQ(scale->factor(), 3.0F);
  merged_weights merged(shards, true, scale);
  file_weights expected(reference / "lora" / "merged.safetensors");
  compare_weights(merged, expected, stored_type::f32, "peft", [](auto, auto) {});
  const weight& changed = *merged.find("model.layers.0.self_attn.q_proj.weight");
  EXPECT_NE(all(merged, changed), all(apart, changed));
  std::vector<float> part(5), whole = all(merged, changed);
  merged.read_f32(changed, 4, part);
  EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + 4));
}

TEST(stream_to_folder, writes_one_file_or_shards_that_read_back) {
  const scratch::folder folder;
  sharded_torch shards(reference / "fsdp2", 2);
  merged_weights merged(shards, true);
  std::uint64_t written = 0, total = 0;
  const auto note = [&](std::uint64_t done, std::uint64_t of) { written = done, total = of; };
  EXPECT_EQ(stream_to_folder(merged, folder.path(), {.dtype = stored_type::f32}, note), 1u);
  EXPECT_EQ(written, total);
  folder_weights single(folder.path());
  compare_weights(merged, single, stored_type::f32, "single", [](auto, auto) {});
  const std::size_t files = stream_to_folder(merged, folder.path(), {stored_type::bf16, 200}, note);
  EXPECT_GT(files, 2u);
  EXPECT_FALSE(std::filesystem::exists(folder / "model.safetensors"));
  folder_weights sharded(folder.path());
  EXPECT_EQ(sharded.weights()[0].dtype, stored_type::bf16);
  compare_weights(merged, sharded, stored_type::bf16, "sharded", [](auto, auto) {});
  scratch::error_of<format_error>(
      [&] { compare_weights(merged, sharded, stored_type::f32, "rounded", [](auto, auto) {}); },
      {"rounded", "differs at element"});
}

TEST(sharded_torch, says_which_file_and_tensor) {
  const scratch::folder folder;
  const auto copy = [&](const char* kind) {
    for (const auto& entry : std::filesystem::directory_iterator(reference / kind))
      std::filesystem::copy_file(entry.path(), folder / entry.path().filename().string(),
                                 std::filesystem::copy_options::overwrite_existing);
  };
  EXPECT_FALSE(shard_world_size(folder.path()));
  copy("fsdp2");
  std::filesystem::remove(folder / "fsdp_config.json");
  EXPECT_EQ(shard_world_size(folder.path()), 2);
  copy("plain");
  std::filesystem::remove(folder / "fsdp_config.json");
  scratch::error_of<format_error>([&] { shard_world_size(folder.path()); }, {"fsdp_config.json"});
  std::filesystem::remove(folder / "model_world_size_2_rank_1.pt");
  scratch::error_of<file_error>([&] { sharded_torch(folder.path(), 2); }, {"rank_1.pt", "missing"});
  // One bit of the data.
  std::string bytes = scratch::read(folder / "model_world_size_1_rank_0.pt");
  const torch_zip archive(folder / "model_world_size_1_rank_0.pt");
  bytes[static_cast<std::size_t>(archive.record("data/0").begin)] ^= 1;
  scratch::write(folder / "model_world_size_1_rank_0.pt", bytes);
  sharded_torch damaged(folder.path(), 1);
  scratch::error_of<format_error>(
      [&] {
        for (const weight& w : damaged.weights()) all(damaged, w);
      },
      {"rank_0.pt", "CRC-32"});
}

// Ranks that do not belong together, by hand.
TEST(sharded_torch, ranks_must_agree) {
  using namespace torch_archive;
  const scratch::folder folder;
  const auto put = [&](int rank, const std::string& body) {
    write_file(shard_path(folder.path(), 2, rank), pickle("}" + body));
  };
  const auto w = [](const std::string& name, int offset, int columns) {
    return text(name) + tensor("0", "FloatStorage", offset, 1, columns, columns, 1) + "s";
  };
  put(0, w("a", 0, 3));
  put(1, w("b", 0, 3));
  scratch::error_of<format_error>([&] { sharded_torch(folder.path(), 2); }, {"rank_1.pt", "lacks tensor 'a'"});
  put(1, w("a", 0, 3) + w("b", 0, 3));
  scratch::error_of<format_error>([&] { sharded_torch(folder.path(), 2); }, {"rank_1.pt", "has tensor 'b'"});
  put(1, w("a", 0, 2));
  scratch::error_of<format_error>([&] { sharded_torch(folder.path(), 2); }, {"'a'", "rank 0"});
  put(1, w("a", 1, 3));
  sharded_torch copies(folder.path(), 2);
  scratch::error_of<format_error>([&] { all(copies, copies.weights()[0]); }, {"'a'", "not distributed and differs"});
}

// Any strides: here a 2 x 2 matrix stored by columns.
TEST(sharded_torch, strides) {
  using namespace torch_archive;
  const scratch::folder folder;
  write_file(shard_path(folder.path(), 1, 0),
             pickle("}" + text("t") + tensor("0", "FloatStorage", 0, 2, 2, 1, 2) + "s"));
  sharded_torch shards(folder.path(), 1);
  EXPECT_EQ(all(shards, shards.weights()[0]), (std::vector<float>{0, 2, 1, 3}));
}

}  // namespace
}  // namespace RLCORE_TEST_ID
