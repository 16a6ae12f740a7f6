// A file that names tools or interactions: YAML where it can be read, else JSON.
#include "fuzz/fuzzing.hpp"
#include "rlcore/agent/tool_file.hpp"

namespace RLCORE_TEST_ID {

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = fuzzing::text_of(data, size);
  for (const char* name : {"tools.json", "tools.yaml"}) {
    const std::filesystem::path file = fuzzing::write(name, text);
    fuzzing::accepts([&] { rlcore::agent::read_tool_file(file); });
    fuzzing::accepts([&] { rlcore::agent::read_interaction_file(file); });
  }
  return 0;
}

}  // namespace RLCORE_TEST_ID
