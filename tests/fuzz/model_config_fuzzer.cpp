// config.json of a model, and generation_config.json behind a line "=====".
#include "fuzz/fuzzing.hpp"
#include "rlcore/checkpoint/hugging_face.hpp"
#include "rlcore/checkpoint/write_config.hpp"
#include "rlcore/planning/read_plan.hpp"

namespace RLCORE_TEST_ID {

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace c = rlcore::checkpoint;
  const auto parts = fuzzing::two_texts(fuzzing::text_of(data, size));
  const std::string_view config = parts.first, generation = parts.second;
  const auto& folder = fuzzing::folder();
  const auto path = fuzzing::write("config.json", config);
  std::filesystem::remove(folder / "generation_config.json");
  if (!generation.empty()) fuzzing::write("generation_config.json", generation);
  fuzzing::accepts([&] { rlcore::train::planning::read_model_shape(path); });
  rlcore::nn::config read;
  if (!fuzzing::accepts([&] { read = c::read_config(folder); })) return 0;
  const auto written = [&](const rlcore::nn::config& what) {
    c::write_config(folder, what);
    return fuzzing::read(path) + fuzzing::read(folder / "generation_config.json");
  };
  const std::string once = written(read);
  fuzzing::accepts(
      [&] { fuzzing::require(written(c::read_config(folder)) == once, "config.json does not read back"); });
  return 0;
}

}  // namespace RLCORE_TEST_ID
