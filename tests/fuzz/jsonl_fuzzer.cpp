// Data files: JSON Lines and arrays.
#include "fuzz/fuzzing.hpp"
#include "rlcore/data/jsonl.hpp"

namespace RLCORE_TEST_ID {

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace d = rlcore::data;
  const std::string_view text = fuzzing::text_of(data, size);
  std::vector<d::row> rows;
  if (fuzzing::accepts([&] { rows = d::parse_jsonl(text, "x.jsonl"); }))
    fuzzing::require(d::parse_jsonl(d::to_jsonl(rows), "x.jsonl") == rows, "to_jsonl() does not read back");
  const auto file = fuzzing::write("x.json", text);
  if (fuzzing::accepts([&] { rows = d::read_json(file); })) {
    fuzzing::write("x.json", rlcore::text::exact_dump(d::row(rows)));
    fuzzing::require(d::read_json(file) == rows, "the array does not read back");
  }
  return 0;
}

}  // namespace RLCORE_TEST_ID
