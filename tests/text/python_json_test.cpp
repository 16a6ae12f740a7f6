// JSON as Python 3.11 writes it.
#include "rlcore/text/python_json.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace RLCORE_TEST_ID {

namespace text = rlcore::text;

namespace {

TEST(python_json, numbers_and_strings_as_python_writes_them) {
  // Left: input. Right: Python 3.11's repr(float(x)).
  for (const auto& [value, expected] :
       std::vector<std::pair<double, const char*>>{{0.0, "0.0"},
                                                   {-0.0, "-0.0"},
                                                   {1.0, "1.0"},
                                                   {-12.5, "-12.5"},
                                                   {0.1, "0.1"},
                                                   {1e-4, "0.0001"},
                                                   {1.5e-5, "1.5e-05"},
                                                   {123456789012345680.0, "1.2345678901234568e+17"},
                                                   {9999999999999998.0, "9999999999999998.0"},
                                                   {1e16, "1e+16"},
                                                   {1e22, "1e+22"},
                                                   {5e-324, "5e-324"},
                                                   {1.7976931348623157e308, "1.7976931348623157e+308"},
                                                   {2.0 / 3, "0.6666666666666666"},
                                                   {1e15, "1000000000000000.0"},
                                                   {120.0, "120.0"}})
    EXPECT_EQ(text::python_float(value), expected);
  const auto j = nlohmann::ordered_json::parse(R"({"z": [], "a": {}, "b": [true, null, "<é\u0001/>"]})");
  EXPECT_EQ(text::python_json(j), "{\"z\": [], \"a\": {}, \"b\": [true, null, \"<\u00e9\\u0001/>\"]}");
}

}  // namespace
}  // namespace RLCORE_TEST_ID
