// Images from the bytes of their files to the patches that Qwen2.5-VL reads.
#include "speed/images.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include <jpeglib.h>

#include "rlcore/core/random.hpp"
#include "rlcore/image/encode.hpp"
#include "rlcore/image/processor.hpp"
#include "speed/bench.hpp"

namespace speed {

namespace {

namespace image = rlcore::image;

std::uint8_t level(double x) { return static_cast<std::uint8_t>(std::fmin(std::fmax(x, 0), 255)); }

/// Light that falls off, surfaces with edges, and the noise of a sensor.
image::pixels photo(std::size_t width, std::size_t height) {
  const rlcore::random_key key{7};
  image::pixels p{height, width, std::vector<std::uint8_t>(3 * width * height)};
  for (std::size_t y = 0; y < height; ++y)
    for (std::size_t x = 0; x < width; ++x) {
      const double u = static_cast<double>(x) / static_cast<double>(height),
                   v = static_cast<double>(y) / static_cast<double>(height);
      double waves = 0;
      for (int octave = 0; octave < 6; ++octave) {
        const double f = 4.1 * std::pow(1.9, octave);
        waves += 50 / std::pow(1.7, octave) * std::sin(f * (u + 0.3 * octave)) * std::cos(f * (v - 0.2 * octave * u));
      }
      const bool wall = std::fmod(5 * u + 2 * v, 1) < 0.4;
      for (std::size_t c = 0; c < 3; ++c) {
        const double noise = 2.5 * key.normal(static_cast<std::uint32_t>(y * width + x), static_cast<std::uint32_t>(c));
        p.rgb[3 * (y * width + x) + c] =
            level(120 + waves + (wall ? 25.0 - 20.0 * static_cast<double>(c) : 0.0) - 60 * v + noise);
      }
    }
  return p;
}

/// Dark lines on white paper, grey at their edges.
image::pixels figure(std::size_t width, std::size_t height) {
  image::pixels p{height, width, std::vector<std::uint8_t>(3 * width * height)};
  const auto w = static_cast<double>(width), h = static_cast<double>(height);
  const double corners[][2] = {
      {0.1 * w, 0.8 * h}, {0.85 * w, 0.75 * h}, {0.4 * w, 0.1 * h}, {0.1 * w, 0.8 * h}, {0.62 * w, 0.42 * h}};
  for (std::size_t y = 0; y < height; ++y)
    for (std::size_t x = 0; x < width; ++x) {
      const auto px = static_cast<double>(x), py = static_cast<double>(y);
      double near = std::fabs(std::hypot(px - 0.45 * w, py - 0.55 * h) - 0.3 * h);
      for (std::size_t k = 0; k + 1 < std::size(corners); ++k) {
        const double ax = corners[k][0], ay = corners[k][1], bx = corners[k + 1][0] - ax, by = corners[k + 1][1] - ay;
        const double t = std::fmin(std::fmax(((px - ax) * bx + (py - ay) * by) / (bx * bx + by * by), 0), 1);
        near = std::fmin(near, std::hypot(px - ax - t * bx, py - ay - t * by));
      }
      for (std::size_t c = 0; c < 3; ++c) p.rgb[3 * (y * width + x) + c] = level(255 * (near - 1));
    }
  return p;
}

std::vector<unsigned char> jpeg(const image::pixels& p) {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* out = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &out, &size);
  info.image_width = static_cast<JDIMENSION>(p.width), info.image_height = static_cast<JDIMENSION>(p.height);
  info.input_components = 3, info.in_color_space = JCS_RGB;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, 90, TRUE);
  jpeg_start_compress(&info, TRUE);
  while (info.next_scanline < info.image_height) {
    auto* row = const_cast<unsigned char*>(p.rgb.data() + std::size_t{info.next_scanline} * p.width * 3);
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  std::vector<unsigned char> bytes(out, out + size);
  std::free(out);
  return bytes;
}

}  // namespace

std::vector<image_file> image_files() {
  std::vector<image_file> files;
  for (const auto& [width, height] : {std::pair<std::size_t, std::size_t>{640, 480}, {1024, 768}}) {
    const std::string size = " " + std::to_string(width) + "x" + std::to_string(height);
    const image::pixels seen = photo(width, height);
    files.push_back({"photo" + size + ".jpeg", jpeg(seen)});
    files.push_back({"photo" + size + ".png", image::encode_png(seen)});
    files.push_back({"figure" + size + ".png", image::encode_png(figure(width, height))});
  }
  return files;
}

void images(const options& o) {
  if (o.threads > 1) return;  // an image is one thread's work
  const image::processor process;
  for (const image_file& file : image_files())
    if (o.wants(file.name))
      print(o, {file.name, best_seconds([&] { (void)process(file.bytes); }, 2 * o.budget()), 1, "image"});
}

}  // namespace speed
