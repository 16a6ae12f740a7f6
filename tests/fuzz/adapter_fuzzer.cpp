// adapter_config.json of PEFT.
#include "fuzz/fuzzing.hpp"
#include "rlcore/checkpoint/adapter.hpp"

namespace RLCORE_TEST_ID {

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace c = rlcore::checkpoint;
  const auto& folder = fuzzing::folder();
  const auto path = fuzzing::write(std::string(c::adapter_config_name), fuzzing::text_of(data, size));
  c::adapter_config read;
  if (!fuzzing::accepts([&] { read = c::read_adapter_config(folder); })) return 0;
  const auto written = [&] {
    c::write_adapter(folder, read, {}, {});
    return fuzzing::read(path);
  };
  fuzzing::accepts([&] {
    const std::string once = written();
    read = c::read_adapter_config(folder);
    fuzzing::require(written() == once, "adapter_config.json does not read back");
  });
  return 0;
}

}  // namespace RLCORE_TEST_ID
