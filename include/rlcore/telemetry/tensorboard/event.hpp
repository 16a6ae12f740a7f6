// The few messages of TensorBoard's event files, encoded as protocol buffers, and the frame of a record.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

#include "rlcore/telemetry/metrics.hpp"
#include "rlcore/telemetry/tensorboard/crc32c.hpp"

RLCORE_BEGIN
namespace trainer {

namespace detail {

/// Appends the fields of a message. Wire types: 0 varint, 1 eight bytes, 2 length and bytes, 5 four bytes.
class message_writer {
 public:
  message_writer& varint(std::uint32_t field, std::uint64_t x) {
    key(field, 0);
    number(x);
    return *this;
  }
  message_writer& real(std::uint32_t field, double x) {
    key(field, 1);
    little_endian(std::bit_cast<std::uint64_t>(x), 8);
    return *this;
  }
  message_writer& real(std::uint32_t field, float x) {
    key(field, 5);
    little_endian(std::bit_cast<std::uint32_t>(x), 4);
    return *this;
  }
  message_writer& bytes(std::uint32_t field, std::string_view content);
  void little_endian(std::uint64_t x, int count) {
    for (int i = 0; i < count; ++i) text_ += static_cast<char>((x >> (8 * i)) & 0xff);
  }
  const std::string& text() const noexcept { return text_; }

 private:
  void key(std::uint32_t field, std::uint32_t wire_type) { number(field << 3 | wire_type); }
  void number(std::uint64_t x) {
    for (; x >= 0x80; x >>= 7) text_ += static_cast<char>((x & 0x7f) | 0x80);
    text_ += static_cast<char>(x);
  }
  std::string text_;
};

}  // namespace detail

/// One record: length (8 bytes) and its checksum, the data and its checksum; all little-endian.
std::string event_record(std::string_view data);

/// Event{wall_time = 1, file_version = 3}: the first record of every file.
inline std::string version_event(double wall_time) {
  return detail::message_writer().real(1, wall_time).bytes(3, "brain.Event:2").text();
}

/// Event{wall_time, step = 2, session_log = 7 {status = 1: START}}: what earlier files say of this step and of later
/// ones no longer counts.
std::string start_event(double wall_time, std::int64_t step);

/// Event{wall_time, step, summary = 5 {value = 1 {tag = 1, simple_value = 2}, ...}}: all numbers of a step, as floats.
std::string scalars_event(double wall_time, std::int64_t step, const metrics& m);

}  // namespace trainer
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TELEMETRY)
RLCORE_BEGIN
namespace trainer::detail {

RLCORE_INLINE message_writer& message_writer::bytes(std::uint32_t field, std::string_view content) {
  key(field, 2);
  number(content.size());
  text_ += content;
  return *this;
}

}  // namespace trainer::detail

namespace trainer {

RLCORE_INLINE std::string event_record(std::string_view data) {
  detail::message_writer frame;
  frame.little_endian(data.size(), 8);
  const std::uint32_t of_length = masked_crc32c(frame.text());
  frame.little_endian(of_length, 4);
  std::string out = frame.text();
  out += data;
  detail::message_writer end;
  end.little_endian(masked_crc32c(data), 4);
  return out + end.text();
}

RLCORE_INLINE std::string start_event(double wall_time, std::int64_t step) {
  return detail::message_writer()
      .real(1, wall_time)
      .varint(2, static_cast<std::uint64_t>(step))
      .bytes(7, detail::message_writer().varint(1, 1).text())
      .text();
}

RLCORE_INLINE std::string scalars_event(double wall_time, std::int64_t step, const metrics& m) {
  detail::message_writer summary;
  for (const auto& [name, x] : m)
    summary.bytes(1, detail::message_writer().bytes(1, name).real(2, static_cast<float>(m.get(name))).text());
  return detail::message_writer()
      .real(1, wall_time)
      .varint(2, static_cast<std::uint64_t>(step))
      .bytes(5, summary.text())
      .text();
}

}  // namespace trainer
RLCORE_END
#endif
