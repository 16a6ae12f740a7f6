// The page at / in a browser: page_in_browser.py says what it looks at.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "data/scratch.hpp"
#include "serving/server_process.hpp"
#include "support/tiny_model.hpp"

namespace RLCORE_TEST_ID {
namespace {

std::string chromium() {
  for (const char* name : {"chromium", "chromium-browser", "google-chrome"})
    if (std::system(("command -v " + std::string(name) + " >/dev/null 2>&1").c_str()) == 0) return name;
  return "";
}

TEST(page, chats_in_a_browser) {
  const std::string browser = chromium(), python = scratch::python_with("json");
  if (browser.empty() || python.empty()) GTEST_SKIP() << "no Chromium, or no Python";
  const scratch::folder place;
  std::uint64_t seed = 0;
  for (const char* name : {"first", "second"}) {
    std::filesystem::create_directories(place / name);
    tiny_model::save_tokenizer(place / name);
    tiny_model::save_weights(place / name, ++seed);
  }
  const server_process first(place / "first"), second(place / "second", {"--allowed-origins", first.url()});
  ASSERT_FALSE(HasFailure());
  const char* screenshots = std::getenv("RLCORE_SCREENSHOTS");
  const auto result = scratch::run_python(
      python, scratch::read(RLCORE_SOURCE_DIR "/tests/serving/page_in_browser.py"),
      browser + " " + first.url() + " " + second.url() + " " + (screenshots != nullptr ? screenshots : ""));
  EXPECT_EQ(result.code, 0) << result.output;
}

}  // namespace
}  // namespace RLCORE_TEST_ID
