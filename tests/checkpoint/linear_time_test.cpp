// No file of a checkpoint takes quadratic time: twice the input takes about twice the time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <string>

#include "rlcore/checkpoint/safetensors_reader.hpp"
#include "rlcore/checkpoint/shard_manifest.hpp"
#include "rlcore/checkpoint/torch_file.hpp"
#include "support/growth.hpp"
#include "support/thrown.hpp"
#include "torch_archive.hpp"

namespace RLCORE_TEST_ID {
namespace {

namespace checkpoint = rlcore::checkpoint;
using testing::HasSubstr;

struct folder {
  std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("rlcore_linear_time_" + std::to_string(::getpid()));
  folder() { std::filesystem::create_directories(path); }
  ~folder() { std::filesystem::remove_all(path); }
};

TEST(linear_time, a_header_of_many_tensors_is_read) {
  struct input {
    std::string header;
    std::size_t bytes;
  };
  const auto header = [](std::size_t n) {
    std::string text = "{";
    for (std::size_t i = 0; i < n; ++i)
      text += (i > 0 ? ",\"model.experts." : "\"model.experts.") + std::to_string(i) +
              ".weight\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[" + std::to_string(4 * i) + "," +
              std::to_string(4 * i + 4) + "]}";
    return input{text + "}", 4 * n};
  };
  EXPECT_LE(growth_of_time(1000, header,
                           [](const input& x) { checkpoint::parse_safetensors_header("x", x.header, x.bytes); }),
            linear_growth);
}

TEST(linear_time, a_name_of_a_state_dict_that_is_recalled_is_refused) {
  const folder f;
  const auto archive = [&](std::size_t n) {  // one long name, and n tensors that have it
    std::string body = "}" + torch_archive::text(std::string(100 * n, 'w')) + "q\x01" +
                       torch_archive::tensor("0", "FloatStorage", 0, 2, 2, 2, 1) + "q\x02s";
    for (std::size_t i = 0; i < n; ++i) body += "h\x01h\x02s";
    torch_archive::write_file(f.path / (std::to_string(n) + ".pt"), torch_archive::pickle(body));
    return f.path / (std::to_string(n) + ".pt");
  };
  EXPECT_THAT(thrown_by([&] { checkpoint::torch_file file(archive(1)); }), HasSubstr("ww' is there twice"));
  EXPECT_LE(
      growth_of_time(500, archive,
                     [](const std::filesystem::path& path) { thrown_by([&] { checkpoint::torch_file file(path); }); }),
      linear_growth);
}

TEST(linear_time, a_tensor_in_too_many_pieces_is_refused) {
  const folder f;
  std::string pieces;
  for (int i = 0; i <= 1 << 14; ++i)
    pieces += (i > 0 ? ",[\"w\",[20000],[0],[20000]," : "[\"w\",[20000],[0],[20000],") + std::to_string(i) + "," +
              std::to_string(i + 1) + "]";
  std::ofstream(f.path / "manifest.json")
      << R"({"format":"rlcore shards 1","block":262144,"dtype":"F32","tensors":{"w":[20000]},"ranks":[{"pieces":[)"
      << pieces << R"(],"kinds":{}}]})";
  EXPECT_THAT(thrown_by([&] { checkpoint::shard_manifest manifest(f.path); }),
              HasSubstr("manifest.json: tensor 'w' has more than 16384 pieces"));
}

}  // namespace
}  // namespace RLCORE_TEST_ID
