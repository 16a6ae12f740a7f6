#include "rlcore/checkpoint/torch_file.hpp"

#include <chrono>
#include <random>

#include "data/scratch.hpp"
#include "torch_archive.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore::checkpoint;
using namespace torch_archive;
using rlcore::format_error;

const std::filesystem::path shards = std::filesystem::path(RLCORE_REFERENCE_DIR) / "fsdp_shards";

TEST(crc32, check_value_of_the_standard) {
  const std::string nine = "123456789";
  EXPECT_EQ(crc32(std::as_bytes(std::span(nine))), 0xCBF43926u);
  EXPECT_EQ(crc32(std::as_bytes(std::span(nine).subspan(4)), crc32(std::as_bytes(std::span(nine).first(4)))),
            0xCBF43926u);
}

TEST(torch_file, pieces_of_torchs_own_fsdp) {
  const torch_file file(shards / "fsdp2" / "model_world_size_2_rank_1.pt");
  const auto at = std::find_if(file.tensors().begin(), file.tensors().end(),
                               [](const torch_tensor& t) { return t.name == "model.embed_tokens.weight"; });
  ASSERT_NE(at, file.tensors().end());
  EXPECT_TRUE(at->distributed);
  EXPECT_EQ(at->dtype, stored_type::f32);
  EXPECT_EQ(at->shape, (std::vector<std::int64_t>{5, 6}));
  EXPECT_EQ(at->whole_shape, (std::vector<std::int64_t>{11, 6}));
  EXPECT_EQ(at->shard_dim, std::size_t{0});
}

TEST(torch_file, hand_made_tensors_and_zip64) {
  const scratch::folder folder;
  for (const bool zip64 : {false, true}) {
    write_file(folder / "a.pt", pickle("}" + text("w") + tensor("0", "FloatStorage", 1, 1, 3, 3, 1) + "s"), zip64);
    const torch_file file(folder / "a.pt");
    ASSERT_EQ(file.tensors().size(), 1u);
    EXPECT_EQ(file.tensors()[0].name, "w");
    EXPECT_EQ(file.tensors()[0].offset, 1u);
    EXPECT_EQ(file.archive().text("byteorder", 6), "little");
  }
}

// Each of these would do something in Python's pickle; here every one ends in a line that names what it wanted.
TEST(torch_file, executes_nothing) {
  const scratch::folder folder;
  const std::string touch = text("touch " + (folder / "executed").string());
  const std::vector<std::pair<std::string, std::string>> evil{
      {global("os", "system") + touch + "\x85R", "os.system"},
      {global("posix", "system") + touch + "\x85R", "posix.system"},
      {"}" + text("w") + global("subprocess", "Popen") + touch + "\x85Rs", "subprocess.Popen"},
      {global("builtins", "eval") + text("1") + "\x85R", "builtins.eval"},
      {global("builtins", "getattr") + ")R", "builtins.getattr"},
      {text("os") + text("system") + "\x93" + touch + "\x85R", "os.system"},
      {global("torch", "load") + touch + "\x85R", "torch.load"},
      {global("torch._utils", "_rebuild_tensor_v2.__globals__") + ")R", "__globals__"},
      {global("torch.distributed.tensor", "distribute_module") + ")R", "distribute_module"},
      {"(" + touch + "ios\nsystem\n", "opcode 0x69"},
      {"\x82\x01", "opcode 0x82"},
      {touch + touch + "\x85R", "calls what is no imported name"}};
  for (const auto& [body, named] : evil) {
    write_file(folder / "evil.pt", pickle(body));
    scratch::error_of<format_error>([&] { torch_file(folder / "evil.pt"); }, {"evil.pt", named});
  }
  EXPECT_FALSE(std::filesystem::exists(folder / "executed"));
}

TEST(torch_file, says_what_is_wrong_in_one_line) {
  const scratch::folder folder;
  const auto refuses = [&](const std::string& body, const std::vector<std::string>& parts) {
    write_file(folder / "bad.pt", pickle(body));
    scratch::error_of<format_error>([&] { torch_file(folder / "bad.pt"); }, parts);
  };
  refuses("]", {"bad.pt", "no state dict"});
  refuses("}" + number(1) + "Ns", {"no text"});
  refuses("}" + text("w") + "Ns", {"'w'", "no tensor"});
  refuses("}" + text("w") + tensor("7", "FloatStorage", 0, 1, 1, 1, 1) + "s", {"no record 'data/7'"});
  refuses("}" + text("w") + tensor("0", "FloatStorage", 0, 2, 3, 3, 1) + "s", {"'w'", "[2, 3]", "past its storage"});
  refuses("}" + text("w") + tensor("0", "FloatStorage", 2, 1, 3, 3, 1) + "s", {"past its storage"});
  refuses("}" + text("w") + tensor("0", "FloatStorage", -1, 1, 1, 1, 1) + "s", {"'w'"});
  refuses("}" + text("w") + tensor("0", "FloatStorage", 0, -1, 1, 1, 1) + "s", {"extent of -1"});
  refuses("}" + text("w") + tensor("0", "FloatStorage", 0, 2000000000, 2000000000, 2000000000, 2000000000) + "s",
          {"'w'"});
  refuses("}" + text("w") + tensor("0", "QInt8Storage", 0, 1, 1, 1, 1) + "s", {"torch.QInt8Storage"});
  refuses("}" + text("w\xff") + tensor("0", "FloatStorage", 0, 1, 4, 4, 1) + "s", {"not UTF-8"});
  refuses("0", {"empty stack"});
  refuses("u", {"mark"});
  refuses("h\x05", {"recalls"});
  refuses("X" + little(0xFFFFFFFF, 4), {"truncated pickle"});
  write(folder / "bad.pt", zip({{"m/data.pkl", "\x80\x07}."}}));
  scratch::error_of<format_error>([&] { torch_file(folder / "bad.pt"); }, {"protocol 7"});
  write(folder / "bad.pt", zip({{"m/byteorder", "big"}}));
  scratch::error_of<format_error>([&] { torch_file(folder / "bad.pt"); }, {"big-endian"});
  write(folder / "bad.pt", zip({{"m/version", "3"}}));
  scratch::error_of<format_error>([&] { torch_file(folder / "bad.pt"); }, {"no record 'data.pkl'"});
  write(folder / "bad.pt", "\x80\x02}.");
  scratch::error_of<format_error>([&] { torch_file(folder / "bad.pt"); }, {"no ZIP directory"});
  write(folder / "bad.pt", "");
  scratch::error_of<format_error>([&] { torch_file(folder / "bad.pt"); }, {"no ZIP directory"});
  std::string changed = zip({{"m/data.pkl", pickle("}")}});
  changed[42] ^= 1;  // inside the pickle
  write(folder / "bad.pt", changed);
  scratch::error_of<format_error>([&] { torch_file(folder / "bad.pt"); }, {"damaged", "CRC-32"});
}

TEST(torch_file, a_tensor_larger_than_its_storage_is_refused) {
  const scratch::folder folder;
  write_file(folder / "x.pt", pickle("}" + text("a") + tensor("0", "FloatStorage", 0, 20000, 30000, 0, 0) + "s"));
  scratch::error_of<format_error>([&] { torch_file(folder / "x.pt"); }, {"'a'", "repeats elements", "16 bytes"});
  write_file(folder / "x.pt", pickle("}" + text("a") + tensor("0", "FloatStorage", 0, 1, 4, 0, 1) + "s"));
  EXPECT_EQ(torch_file(folder / "x.pt").tensors().size(), 1u);
}

TEST(torch_file, a_wrapper_around_itself_is_refused) {
  const scratch::folder folder;
  const std::string state = "h\x01", type = global("torch.distributed.tensor", "DTensor");
  const std::string wrapper = global("torch._tensor", "_rebuild_from_type_v2") + "(" +
                              global("torch._utils", "_rebuild_wrapper_subclass") + type + "(" + type + "N" +
                              number(4) + "\x85t" + state + "tRq\x02";
  write_file(folder / "x.pt", pickle("}}q\x01"
                                     "0" +
                                     text("a") + wrapper + "s" + state + text("_local_tensor") + "h\x02s0"));
  scratch::error_of<format_error>([&] { torch_file(folder / "x.pt"); }, {"'a'", "a DTensor inside a DTensor"});
}

// Truncated at many lengths and with random bytes changed: read, or refused with an error of ours; never a crash.
TEST(torch_file, damage_never_crashes) {
  const scratch::folder folder;
  const std::string good = scratch::read(shards / "fsdp2" / "model_world_size_2_rank_0.pt");
  std::mt19937 random(11);
  std::size_t refused = 0, rounds = 0;
  const auto attempt = [&](const std::string& bytes) {
    write(folder / "x.pt", bytes);
    ++rounds;
    try {
      torch_file(folder / "x.pt");
    } catch (const rlcore::error& e) {
      EXPECT_EQ(std::string(e.what()).find('\n'), std::string::npos) << e.what();
      ++refused;
    }
  };
  for (std::size_t size = 0; size < good.size(); size += 401) attempt(good.substr(0, size));
  EXPECT_EQ(refused, rounds);
  for (int round = 0; round < 100; ++round) {
    std::string bytes = good;
    for (std::size_t i = random() % 4 + 1; i > 0; --i) bytes[random() % bytes.size()] = static_cast<char>(random());
    attempt(bytes);
  }
  // The pickle alone, changed, with a checksum that fits.
  const torch_zip archive(shards / "fsdp2" / "model_world_size_2_rank_0.pt");
  const std::string program = archive.text("data.pkl", 1 << 20);
  for (int round = 0; round < 200; ++round) {
    std::string bytes = program;
    for (std::size_t i = random() % 3 + 1; i > 0; --i) bytes[random() % bytes.size()] = static_cast<char>(random());
    attempt(zip({{"m/data.pkl", bytes}, {"m/data/0", std::string(400, 'x')}}));
  }
  EXPECT_GT(refused, rounds / 2);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
