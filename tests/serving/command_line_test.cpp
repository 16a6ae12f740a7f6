// The words of vLLM's command lines.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "rlcore/config/programs/openai_server.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore::train;
using words = std::vector<std::string>;

options parsed(const words& line) { return options::parse(vllm_arguments(line), openai_server_registry()); }

TEST(server_command_line, integers_may_have_units) {
  const auto length = [](const std::string& text) {
    return parsed({"m", "--max-model-len", text}).find<std::int64_t>("max-model-len");
  };
  EXPECT_EQ(length("22528"), 22528);
  EXPECT_EQ(length("22k"), 22000);
  EXPECT_EQ(length("22K"), 22528);
  EXPECT_EQ(length("25.6k"), 25600);
  EXPECT_EQ(length("1M"), 1048576);
  EXPECT_EQ(length("auto"), std::nullopt);
  EXPECT_EQ(length("-1"), std::nullopt);
  for (const char* wrong : {"22x", "k", "0.5", "1e400"}) {
    try {
      length(wrong);
      FAIL() << wrong;
    } catch (const rlcore::config_error& e) {
      EXPECT_THAT(e.what(), testing::HasSubstr("--max-model-len " + std::string(wrong) + " is no integer")) << wrong;
    }
  }
}

TEST(server_command_line, dashes_and_underscores_are_one_and_short_names_are_long_ones) {
  EXPECT_THAT(vllm_arguments({"--max_num_seqs=24", "--served-model-name", "my_model", "-tp", "8", "--uds=/a_b"}),
              testing::ElementsAre("--max-num-seqs=24", "--served-model-name", "my_model", "--tensor-parallel-size",
                                   "8", "--uds=/a_b"));
}

TEST(server_command_line, flags_of_types_set_the_arithmetic) {
  EXPECT_EQ(parsed({"m", "--dtype", "bfloat16"}).get<std::string>("rlcore.compute"), "bfloat16");
  EXPECT_EQ(parsed({"m", "--dtype=float"}).get<std::string>("rlcore.compute"), "float32");
  EXPECT_EQ(parsed({"m", "--dtype=half"}).get<std::string>("rlcore.compute"), "float32");
  EXPECT_THAT(parsed({"m", "--dtype=half"}).notes(),
              testing::Contains(testing::HasSubstr("--dtype half: products read float32")));
  EXPECT_THAT(parsed({"--model", "m", "trainer.device=npu_emulator", "rlcore.npu.hccl=True"}).notes(),
              testing::Contains(testing::HasSubstr("rlcore.npu.hccl has no effect: ranks of openai_server")));
  EXPECT_EQ(parsed({"m"}).find<std::string>("rlcore.compute"), std::nullopt);
  EXPECT_EQ(parsed({"m", "--rlcore_threads", "3"}).get<std::int64_t>("rlcore.threads"), 3);
  EXPECT_FALSE(parsed({"m", "--no-enable-prefix-caching"}).get<bool>("enable-prefix-caching"));
}

TEST(server_command_line, the_word_without_a_flag_is_the_model) {
  EXPECT_EQ(parsed({"org/name", "--port", "1"}).get<std::string>("model"), "org/name");
  EXPECT_THROW(parsed({}), rlcore::config_error);
  EXPECT_THROW(parsed({"a", "b"}), rlcore::config_error);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
