// preprocessor_config.json of a model with images, or processor_config.json, which may hold the same.
#include "fuzz/fuzzing.hpp"
#include "rlcore/checkpoint/preprocessor_config.hpp"

namespace RLCORE_TEST_ID {

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace c = rlcore::checkpoint;
  std::string_view text = fuzzing::text_of(data, size);
  static const rlcore::nn::config model = [] {
    rlcore::nn::config m;
    m.model = rlcore::nn::qwen2_5_vl{};
    m.vision.emplace();
    return m;
  }();
  const auto& folder = fuzzing::folder();
  constexpr const char* names[] = {"preprocessor_config.json", "processor_config.json"};
  const std::size_t chosen = fuzzing::choice(text, 2);
  std::filesystem::remove(folder / names[1 - chosen]);
  fuzzing::write(names[chosen], text);
  rlcore::image::processor_settings s;
  if (!fuzzing::accepts([&] { s = c::read_processor(folder, model).settings; })) return 0;
  std::filesystem::remove(folder / names[1]);
  fuzzing::accepts([&] {
    c::write_processor(folder, s);
    const auto again = c::read_processor(folder, model).settings;
    fuzzing::require(again.min_pixels == s.min_pixels && again.max_pixels == s.max_pixels &&
                         again.normalise.mean == s.normalise.mean &&
                         again.normalise.deviation == s.normalise.deviation &&
                         again.normalise.rescale == s.normalise.rescale,
                     "preprocessor_config.json does not read back");
    rlcore::image::normalised_values(s.normalise, s.resample);
  });
  return 0;
}

}  // namespace RLCORE_TEST_ID
