#include "rlcore/text/base64.hpp"

#include <gtest/gtest.h>

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore::text;

std::string decoded(std::string_view text) {
  const auto bytes = from_base64(text);
  return bytes ? std::string(bytes->begin(), bytes->end()) : "none";
}
std::string encoded(std::string_view bytes) {
  return to_base64({reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size()});
}

/// The vectors of RFC 4648, section 10.
TEST(base64, the_vectors_of_the_standard) {
  for (const auto& [plain, text] :
       {std::pair("", ""), std::pair("f", "Zg=="), std::pair("fo", "Zm8="), std::pair("foo", "Zm9v"),
        std::pair("foob", "Zm9vYg=="), std::pair("fooba", "Zm9vYmE="), std::pair("foobar", "Zm9vYmFy")}) {
    EXPECT_EQ(encoded(plain), text);
    EXPECT_EQ(decoded(text), plain);
    EXPECT_EQ(decoded(std::string(text).substr(0, std::string_view(text).find('='))), plain);
  }
  EXPECT_EQ(decoded("Zm9v\r\n YmFy\n"), "foobar");
}

TEST(base64, comes_back) {
  std::string all;
  for (int i = 0; i < 256; ++i) all += static_cast<char>(i);
  for (std::size_t n = 0; n <= all.size(); ++n)
    EXPECT_EQ(decoded(encoded(all.substr(all.size() - n))), all.substr(all.size() - n));
}

TEST(base64, refuses_other_texts) {
  for (const char* bad : {"Z", "Zm9vY", "Zm9v-_==", "Zg=", "Zg===", "Zm8==", "=", "Zg==Zg==", "Zm\x80v", "Z=g="})
    EXPECT_EQ(decoded(bad), "none") << bad;
}

}  // namespace
}  // namespace RLCORE_TEST_ID
