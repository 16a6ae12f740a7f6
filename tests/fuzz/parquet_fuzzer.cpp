// A Parquet file.
#include "fuzz/fuzzing.hpp"
#include "rlcore/data/parquet.hpp"

namespace RLCORE_TEST_ID {

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace d = rlcore::data;
  const auto path = fuzzing::write("x.parquet", fuzzing::text_of(data, size));
  std::vector<d::row> rows;
  if (!fuzzing::accepts([&] { rows = d::read_parquet(path); }) || rows.empty()) return 0;
  fuzzing::accepts([&] {
    d::write_parquet(path, rows);
    fuzzing::require(d::read_parquet(path).size() == rows.size(), "the rows do not read back");
  });
  return 0;
}

}  // namespace RLCORE_TEST_ID
