// checkpoint.json of a step's checkpoint.
#include "fuzz/fuzzing.hpp"
#include "rlcore/checkpoint/step_manifest.hpp"

namespace RLCORE_TEST_ID {

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::filesystem::path folder = [] {
    std::filesystem::path step = fuzzing::folder() / "global_step_3";
    std::filesystem::create_directories(step / "actor" / "shards");
    for (const char* name : {"data.json", "actor/optim.safetensors", "actor/shards/weights_rank_0.safetensors"})
      fuzzing::write("global_step_3/" + std::string(name), "some bytes");
    return step;
  }();
  fuzzing::write("global_step_3/checkpoint.json", fuzzing::text_of(data, size));
  fuzzing::accepts(
      [&] { fuzzing::require(rlcore::checkpoint::check_step_manifest(folder, 3).empty(), "a manifest is not seen"); });
  return 0;
}

}  // namespace RLCORE_TEST_ID
