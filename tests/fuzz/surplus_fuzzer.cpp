// surplus.cbor of a checkpoint.
#include "fuzz/fuzzing.hpp"
#include "rlcore/train/policy/trajectory/surplus_file.hpp"

namespace RLCORE_TEST_ID {

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace t = rlcore::train;
  const auto path = fuzzing::write(t::surplus_file_name, fuzzing::text_of(data, size));
  std::vector<t::trajectory> read;
  if (!fuzzing::accepts([&] { read = t::read_surplus(fuzzing::folder()); }) || read.empty()) return 0;
  t::write_surplus(fuzzing::folder(), read);
  const std::string once = fuzzing::read(path);
  fuzzing::accepts([&] { read = t::read_surplus(fuzzing::folder()); });
  t::write_surplus(fuzzing::folder(), read);
  fuzzing::require(fuzzing::read(path) == once, "surplus.cbor does not read back");
  return 0;
}

}  // namespace RLCORE_TEST_ID
