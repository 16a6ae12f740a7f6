#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "data/scratch.hpp"
#include "rlcore/checkpoint/layout.hpp"
#include "rlcore/checkpoint/shard_files.hpp"
#include "rlcore/parallel/communicator/communicator.hpp"
#include "rlcore/parallel/communicator/threads.hpp"
#include "support/shard_layouts.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore::checkpoint;
using rlcore::file_error;
using rlcore::format_error;
using rlcore::parallel::piece_layout;
using rlcore::parallel::run_ranks;
using rlcore::parallel::thread_rank;
using rlcore::parallel::whole_tensor;
using shard_layouts::values;

constexpr std::chrono::seconds deadline(60);
const std::vector<std::string> kinds{"weights", "exp_avg", "exp_avg_sq"};
/// What a kind's elements are, so that no kind passes for another.
float factor(std::size_t kind) { return static_cast<float>(kind + 1); }

template <class C>
void save(C& c, const std::filesystem::path& folder, const std::vector<shard_piece>& own) {
  write_shards(c, folder, own, kinds,
               [&](std::size_t kind, std::size_t piece, std::size_t first, std::span<float> out) {
                 const std::vector<float> all = values(own[piece], factor(kind));
                 std::copy_n(all.begin() + static_cast<std::ptrdiff_t>(first), out.size(), out.begin());
               });
}
void save(const std::filesystem::path& folder, const piece_layout& layout) {
  run_ranks(
      static_cast<int>(layout.size()),
      [&](thread_rank& c) { save(c, folder, layout[static_cast<std::size_t>(c.rank())]); }, deadline);
}
std::vector<float> read(shard_reader& from, const shard_piece& p) {
  std::vector<float> found(p.size());
  from.read(p, found);
  return found;
}

// 4 -> 2 -> 3 -> 1 and every other way, between all kinds of layouts, through one checkpoint each.
TEST(shards, every_layout_reads_every_other) {
  const scratch::folder place;
  for (const std::size_t ranks : std::vector<std::size_t>{1, 2, 3, 4})
    for (const auto& [name, layout] : shard_layouts::all(ranks)) {
      const std::filesystem::path folder = place / (std::to_string(ranks) + name);
      save(folder, layout);
      for (std::size_t k = 0; k < kinds.size(); ++k) {
        shard_reader reader(folder, kinds[k]);
        EXPECT_EQ(reader.shapes(), shard_layouts::tensors());
        EXPECT_EQ(reader.manifest().ranks().size(), ranks);
        for (const std::size_t now : std::vector<std::size_t>{4, 2, 3, 1})
          for (const auto& [other, wanted] : shard_layouts::all(now))
            for (const auto& of_rank : wanted)
              for (const shard_piece& p : of_rank)
                ASSERT_EQ(read(reader, p), values(p, factor(k)))
                    << ranks << name << " -> " << now << other << text_of(p);
      }
    }
}

TEST(shards, a_rank_reads_what_it_needs_and_everything_is_written_once) {
  const scratch::folder place;
  piece_layout layout(4);
  const std::int64_t rows = 3000, columns = 400;  // 1.2 million elements: five blocks, the last of them short
  for (auto& of_rank : layout) of_rank = {whole_tensor("w", {rows, columns})};
  save(place.path(), layout);
  std::uint64_t bytes = 0;
  for (const auto& entry : std::filesystem::directory_iterator(place.path())) bytes += entry.file_size();
  EXPECT_LT(bytes, 4u * 1200000 * 3 + 20000);
  shard_reader reader(place.path());
  shard_piece part = whole_tensor("w", {rows, columns});
  EXPECT_EQ(read(reader, part), values(part));
  EXPECT_EQ(reader.bytes_read(), 4u * 1200000);
  shard_reader column(place.path());
  part = shard_layouts::slice(part, 1, 1, 8);  // of every row some, through the cache: each block once
  EXPECT_EQ(read(column, part), values(part));
  EXPECT_EQ(column.bytes_read(), 4u * 1200000);
  shard_reader little(place.path());
  part = whole_tensor("w", {rows, columns});
  part.first = 700000, part.last = 700010;
  EXPECT_EQ(read(little, part), values(part));
  EXPECT_LE(little.bytes_read(), 4 * shard_block);
}

class damaged : public testing::Test {
 protected:
  void SetUp() override {
    layout_ = shard_layouts::cut(4, 2, 1, true);
    save(place_.path(), layout_);
    manifest_ = nlohmann::json::parse(scratch::read(place_ / "manifest.json"));
  }
  void read_all() {
    shard_reader reader(place_.path());
    for (const auto& [name, shape] : reader.shapes()) read(reader, whole_tensor(name, shape));
  }
  void refused(std::vector<std::string> parts, const nlohmann::json& manifest) {
    scratch::write(place_ / "manifest.json", manifest.dump());
    parts.push_back("manifest.json");
    scratch::error_of<format_error>([&] { read_all(); }, parts);
  }

  scratch::folder place_;
  piece_layout layout_;
  nlohmann::json manifest_;
};

TEST_F(damaged, files) {
  const std::filesystem::path file = place_ / "weights_rank_2.safetensors";
  const std::string bytes = scratch::read(file);
  std::string other = bytes;
  other[other.size() - 2] ^= 4;
  scratch::write(file, other);
  scratch::error_of<format_error>([&] { read_all(); }, {"weights_rank_2", "damaged", "block 0", "CRC-32"});
  scratch::write(file, bytes.substr(0, bytes.size() - 4));
  scratch::error_of<format_error>([&] { read_all(); }, {"weights_rank_2", "bytes"});
  scratch::write(file, scratch::read(place_ / "exp_avg_rank_2.safetensors"));
  scratch::error_of<format_error>([&] { read_all(); }, {"weights_rank_2", "CRC-32"});
  std::filesystem::remove(file);
  scratch::error_of<file_error>([&] { read_all(); }, {"weights_rank_2", "missing", "rank 2 of 4"});
  std::filesystem::remove(place_ / "manifest.json");
  scratch::error_of<file_error>([&] { read_all(); }, {"manifest.json"});
}

TEST_F(damaged, manifests) {
  nlohmann::json m = manifest_;
  m["ranks"].erase(3);
  refused({"incomplete", "tensor 'column'", "are missing"}, m);
  m = manifest_;
  m["ranks"].push_back(m["ranks"][1]);
  refused({"ranks 1 and 4 overlap"}, m);
  m = manifest_;
  m["ranks"][0]["pieces"][0][5] = 1000;
  refused({"damaged", "past its rectangle"}, m);
  m = manifest_;
  m["ranks"][0]["pieces"][0][1] = {9, 9};
  refused({"damaged"}, m);
  m = manifest_;
  for (const double number : {3e34, 1.5}) {
    m["ranks"][0]["pieces"][0][1][0] = number;
    refused({"damaged: not what the format says"}, m);
    m = manifest_;
  }
  m["tensors"].erase("row");
  refused({"'row'", "not in the list"}, m);
  m = manifest_;
  m["tensors"]["extra"] = {3};
  refused({"'extra'", "3 of 3 elements are missing"}, m);
  m = manifest_;
  m["ranks"][2]["kinds"]["weights"]["crc32"] = "0";
  refused({"checksums of weights_rank_2"}, m);
  m = manifest_;
  m["ranks"][2]["kinds"]["weights"]["file"] = "../x";
  refused({"same folder"}, m);
  m = manifest_;
  m["ranks"][1]["kinds"].erase("weights");
  refused({"rank 1 has saved no weights"}, m);
  m = manifest_;
  m["format"] = "rlcore shards 2";
  refused({"format", "rlcore shards 1"}, m);
  m = manifest_;
  m["ranks"] = 3;
  refused({"damaged"}, m);
  scratch::write(place_ / "manifest.json", manifest_.dump());
  read_all();
  shard_reader reader(place_.path());
  scratch::error_of<format_error>([&] { read(reader, whole_tensor("rows", {5, 11})); }, {"no tensor 'rows'", "'row'"});
  scratch::error_of<format_error>([&] { read(reader, whole_tensor("row", {11, 5})); }, {"[5, 11]; expected [11, 5]"});
  scratch::error_of<format_error>([&] { shard_reader(place_.path(), "exp"); }, {"no exp"});
}

TEST(shards, ranks_that_lack_something_save_nothing) {
  const scratch::folder place;
  piece_layout layout = shard_layouts::cut(2, 1, 1, true);
  layout[1].erase(layout[1].begin());
  scratch::error_of<std::invalid_argument>([&] { save(place / "x", layout); }, {"elements are missing"});
  EXPECT_FALSE(std::filesystem::exists(place / "x"));
}

// A rank that fails while others write leaves the older checkpoint; so does one that fails before the first byte.
TEST(save_step, together_is_all_or_nothing) {
  const scratch::folder place;
  const piece_layout layout = shard_layouts::cut(3, 1, 1, true);
  const auto step = [&](std::int64_t n, int failing) {
    run_ranks(
        3,
        [&](thread_rank& c) {
          save_step(c, place.path(), n, 2, [&](const std::filesystem::path& folder) {
            if (c.rank() == failing) throw file_error("disk of rank " + std::to_string(failing));
            save(c, folder / "shards", layout[static_cast<std::size_t>(c.rank())]);
          });
          EXPECT_EQ(read_tracker(place.path()), n);  // saved, in the eyes of all
        },
        deadline);
  };
  step(1, -1);
  for (int failing = 0; failing < 3; ++failing) {
    scratch::error_of<file_error>([&] { step(2, failing); }, {"disk of rank " + std::to_string(failing)});
    const resume_point latest = find_latest(place.path());
    EXPECT_EQ(latest.step, 1);
    shard_reader reader(latest.folder / "shards");
    EXPECT_EQ(read(reader, whole_tensor("row", {5, 11})), values(whole_tensor("row", {5, 11})));
  }
  for (std::int64_t n = 2; n < 5; ++n) step(n, -1);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(place.path()), {}), 3);  // two steps and the tracker
  rlcore::parallel::alone one;
  save_step(one, place.path(), 5, 2, [&](const std::filesystem::path& folder) {
    save(one, folder / "shards", shard_layouts::cut(1, 1, 1, true)[0]);
  });
  EXPECT_EQ(find_latest(place.path()).step, 5);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
