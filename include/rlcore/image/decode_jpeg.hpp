// JPEG decoding by libjpeg (libjpeg-turbo).
#pragma once

#include <csetjmp>
#include <cstddef>
#include <cstdint>
#include <cstdio>  // before jpeglib.h, which needs FILE and size_t

#include <jerror.h>
#include <jpeglib.h>

#include <algorithm>
#include <string>
#include <vector>

#include "rlcore/image/pixels.hpp"

RLCORE_BEGIN
namespace image {

namespace detail {

/// libjpeg's state, and the jump target of its errors. No object with a destructor may live between setjmp and longjmp:
/// the functions below comply.
struct jpeg_reader {
  jpeg_decompress_struct info;
  jpeg_error_mgr errors;
  jpeg_progress_mgr progress;
  std::jmp_buf out;
  char message[JMSG_LENGTH_MAX];
};

[[noreturn]] inline void jpeg_fail(j_common_ptr info) {
  auto& reader = *static_cast<jpeg_reader*>(info->client_data);
  reader.errors.format_message(info, reader.message);
  std::longjmp(reader.out, 1);
}

/// libjpeg continues after damaged data and fills the rest with grey. Only warnings that leave every pixel correct are
/// ignored.
inline void jpeg_warn(j_common_ptr info, int level) {
  const int code = info->err->msg_code;
  if (level < 0 && code != JWRN_EXTRANEOUS_DATA && code != JWRN_ADOBE_XFORM && code != JWRN_JFIF_MAJOR) jpeg_fail(info);
}

/// Limits the scans: a small file may request any number of passes over a large image; real files have about ten.
inline void jpeg_count_scans(j_common_ptr info) {
  auto& reader = *static_cast<jpeg_reader*>(info->client_data);
  if (reader.info.input_scan_number <= 100) return;
  std::snprintf(reader.message, sizeof reader.message, "more than 100 scans");
  std::longjmp(reader.out, 1);
}

/// Reads the header. False if libjpeg failed; the reader then holds its message.
inline bool read_jpeg_header(jpeg_reader& reader, const unsigned char* bytes, std::size_t size) {
  reader.info.err = jpeg_std_error(&reader.errors);
  reader.info.client_data = &reader;
  reader.errors.error_exit = jpeg_fail;
  reader.errors.emit_message = jpeg_warn;
  reader.progress.progress_monitor = jpeg_count_scans;
  if (setjmp(reader.out) != 0) return false;
  jpeg_create_decompress(&reader.info);
  reader.info.client_data = &reader;
  reader.info.progress = &reader.progress;
  jpeg_mem_src(&reader.info, bytes, size);
  jpeg_read_header(&reader.info, TRUE);
  return true;
}

/// Decodes into rows of 3 bytes for each pixel.
inline bool read_jpeg_rows(jpeg_reader& reader, unsigned char* rows) {
  if (setjmp(reader.out) != 0) return false;
  reader.info.out_color_space = JCS_RGB;
  jpeg_start_decompress(&reader.info);
  while (reader.info.output_scanline < reader.info.output_height) {
    JSAMPROW row = rows + std::size_t{reader.info.output_scanline} * reader.info.output_width * 3;
    jpeg_read_scanlines(&reader.info, &row, 1);
  }
  return true;
}

/// Frees libjpeg's memory after success or failure.
struct jpeg_cleanup {
  jpeg_reader& reader;
  ~jpeg_cleanup() { jpeg_destroy_decompress(&reader.info); }
};

}  // namespace detail

RLCORE_INLINE pixels decode_jpeg(encoded bytes, const decode_settings& settings) {
  detail::jpeg_reader reader{};
  const detail::jpeg_cleanup cleanup{reader};
  const auto damaged = [&] { return format_error(std::string("a damaged JPEG: ") + reader.message); };
  if (!detail::read_jpeg_header(reader, bytes.data(), bytes.size())) throw damaged();
  check_size(reader.info.image_height, reader.info.image_width, settings);
  if (reader.info.num_components != 1 && reader.info.num_components != 3)
    throw format_error("a JPEG of " + std::to_string(reader.info.num_components) +
                       " colour channels (CMYK?); convert it to RGB");
  pixels result{reader.info.image_height, reader.info.image_width, {}};
  result.rgb.resize(result.height * result.width * 3);
  if (!detail::read_jpeg_rows(reader, result.rgb.data())) throw damaged();
  return result;
}

}  // namespace image
RLCORE_END
