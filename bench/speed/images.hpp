// Images that look like photographs and like the figures of a textbook, as files.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace speed {

struct image_file {
  std::string name;  ///< "photo 640x480.jpeg"
  std::vector<unsigned char> bytes;
};

/// The same files in every run: photographs as PNG and JPEG, figures as PNG, each in two sizes.
std::vector<image_file> image_files();

}  // namespace speed
