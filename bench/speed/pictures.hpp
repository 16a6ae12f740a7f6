// Pictures that look like photographs and like the figures of a textbook, as files.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace speed {

struct picture_file {
  std::string name;  ///< "photo 640x480.jpeg"
  std::vector<unsigned char> bytes;
};

/// The same files in every run: photographs as PNG and JPEG, figures as PNG, each in two sizes.
std::vector<picture_file> picture_files();

}  // namespace speed
