// Archives as torch.save makes them, from pickles written by hand: for tests of what must be refused.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "rlcore/checkpoint/crc32.hpp"

namespace torch_archive {

inline std::string little(std::uint64_t x, int bytes) {
  std::string out;
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(i < 8 ? x >> (8 * i) : 0);
  return out;
}

/// A ZIP of stored records; `zip64` writes the sizes of the end record in 64 bits.
inline std::string zip(const std::vector<std::pair<std::string, std::string>>& records, bool zip64 = false) {
  std::string out, directory;
  for (const auto& [name, content] : records) {
    const std::uint32_t crc = rlcore::checkpoint::crc32(std::as_bytes(std::span(content)));
    const std::string sizes = little(crc, 4) + little(content.size(), 4) + little(content.size(), 4);
    const std::size_t begin = out.size();
    out += little(0x04034b50, 4) + little(0, 10) + sizes + little(name.size(), 2) + little(0, 2) + name + content;
    const std::string extra =
        zip64 ? little(1, 2) + little(24, 2) + little(content.size(), 8) + little(content.size(), 8) + little(begin, 8)
              : "";
    directory += little(0x02014b50, 4) + little(0, 12) +
                 (zip64 ? little(crc, 4) + little(0xFFFFFFFF, 4) + little(0xFFFFFFFF, 4) : sizes) +
                 little(name.size(), 2) + little(extra.size(), 2) + little(0, 10) +
                 little(zip64 ? 0xFFFFFFFF : begin, 4) + name + extra;
  }
  const std::size_t begin = out.size();
  out += directory;
  if (zip64) {
    const std::size_t end = out.size();
    out += little(0x06064b50, 4) + little(44, 8) + little(0, 12) + little(records.size(), 8) +
           little(records.size(), 8) + little(directory.size(), 8) + little(begin, 8);
    out += little(0x07064b50, 4) + little(0, 4) + little(end, 8) + little(1, 4);
    return out + little(0x06054b50, 4) + little(0, 4) + little(0xFFFF, 2) + little(0xFFFF, 2) + little(0xFFFFFFFF, 4) +
           little(0xFFFFFFFF, 4) + little(0, 2);
  }
  return out + little(0x06054b50, 4) + little(0, 4) + little(records.size(), 2) + little(records.size(), 2) +
         little(directory.size(), 4) + little(begin, 4) + little(0, 2);
}

/// BINUNICODE
inline std::string text(const std::string& s) { return "X" + little(s.size(), 4) + s; }
inline std::string global(const std::string& module, const std::string& name) {
  return "c" + module + "\n" + name + "\n";
}
/// PROTO 2 ... STOP
inline std::string pickle(const std::string& body) { return "\x80\x02" + body + "."; }
inline std::string number(int x) { return "J" + little(static_cast<std::uint32_t>(x), 4); }

/// torch._utils._rebuild_tensor_v2 of a storage.
inline std::string tensor(const std::string& key, const std::string& storage, int offset, int rows, int columns,
                          int row_stride, int column_stride) {
  return global("torch._utils", "_rebuild_tensor_v2") + "((" + text("storage") + global("torch", storage) + text(key) +
         text("cpu") + number(4) + "tQ" + number(offset) + number(rows) + number(columns) + "\x86" +
         number(row_stride) + number(column_stride) + "\x86\x89" + global("collections", "OrderedDict") + ")Rt" + "R";
}

inline void write(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}
/// A file with this pickle and one storage "0" of four floats 0, 1, 2, 3.
inline void write_file(const std::filesystem::path& path, const std::string& data_pickle, bool zip64 = false) {
  const float values[] = {0, 1, 2, 3};
  const std::string storage(reinterpret_cast<const char*>(values), sizeof values);
  write(path, zip({{"m/data.pkl", data_pickle}, {"m/byteorder", "little"}, {"m/data/0", storage}}, zip64));
}

}  // namespace torch_archive
