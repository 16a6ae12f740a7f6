// The bytes of an image's file: its header, its pixels, its patches. Whoever decodes it finds what the header told.
#include "fuzz/fuzzing.hpp"
#include "rlcore/image/processor.hpp"

namespace RLCORE_TEST_ID {

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace image = rlcore::image;
  fuzzing::text_of(data, size);
  const image::encoded bytes(data, size);
  image::processor_settings settings{.min_pixels = 784, .max_pixels = 3136};  // small, for many inputs a second
  settings.decode = {.opacity = size % 2 == 0 ? image::alpha::drop : image::alpha::white, .max_pixels = 1 << 14};
  settings.resample = size % 4 < 2 ? image::resampling::torchvision : image::resampling::pillow;
  image::size told;
  image::pixels seen;
  const bool header = fuzzing::accepts([&] { told = image::read_size(bytes, settings.decode); });
  const bool decoded = fuzzing::accepts([&] { seen = image::decode(bytes, settings.decode); });
  if (!decoded) return 0;
  fuzzing::require(header, "an image whose header is refused");
  fuzzing::require(
      told.height == static_cast<std::int64_t>(seen.height) && told.width == static_cast<std::int64_t>(seen.width),
      "an image of another size than its header tells");
  fuzzing::require(seen.rgb.size() == seen.height * seen.width * 3, "pixels of another size");
  const image::processor process(settings);
  image::patches cut;
  if (fuzzing::accepts([&] { cut = process(seen); }))
    fuzzing::require(process.tokens(cut) == image::token_count(told, settings), "other tokens than the header tells");
  return 0;
}

}  // namespace RLCORE_TEST_ID
