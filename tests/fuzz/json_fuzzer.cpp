// JSON as it enters everywhere, and Python's spelling of it.
#include "fuzz/fuzzing.hpp"
#include "rlcore/text/parse_json.hpp"
#include "rlcore/text/python_json.hpp"

namespace RLCORE_TEST_ID {

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using json = nlohmann::ordered_json;
  const std::string_view text = fuzzing::text_of(data, size);
  const auto parsed = [](std::string_view from) {
    return rlcore::text::parse_json<rlcore::format_error, json>(from, "x.json");
  };
  json value;
  const bool good = fuzzing::accepts([&] { value = parsed(text); });
  fuzzing::require(rlcore::text::try_parse_json<json>(text).is_discarded() == !good, "the two parsers disagree");
  if (!good) return 0;
  fuzzing::require(parsed(value.dump()) == value, "dump() does not read back");
  fuzzing::require(parsed(rlcore::text::python_json(value)) == value, "python_json() does not read back");
  return 0;
}

}  // namespace RLCORE_TEST_ID
