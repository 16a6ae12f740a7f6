// What Ascend is asked for, counted from the log of calls: operators with the bytes of their operands, and transfers.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

#include "device/npu/emulated_npu.hpp"
#include "rlcore/device/npu/trace.hpp"

namespace rlcore_test {

/// Counts while it lives.
class counted_calls {
 public:
  explicit counted_calls(const ascend::calls& table)
      : table_(ascend::call_log::instance().start(table, [this](std::string_view line) { count(line); })) {}
  ~counted_calls() { ascend::call_log::instance().stop(); }
  const ascend::calls& table() const { return table_; }
  void clear() { operators = uploads = downloads = 0, operand_bytes = upload_bytes = download_bytes = 0; }

  int operators = 0, uploads = 0, downloads = 0;
  /// Of tensors that operators read or write, one that repeats along a dimension counted once.
  std::int64_t operand_bytes = 0;
  std::int64_t upload_bytes = 0, download_bytes = 0;

 private:
  void count(std::string_view line) {
    const std::string_view call = line.substr(line.find(' ') + 1);
    if (call.starts_with("aclnn") && call.find('(') < call.find(' ')) {
      ++operators;
      count_operands(call);
    }
    if (!call.starts_with("aclrtMemcpy")) return;
    if (call.find(", 1, stream") != call.npos) ++uploads, upload_bytes += transferred(call);
    if (call.find(", 2, stream") != call.npos) ++downloads, download_bytes += transferred(call);
  }
  /// Of aclrtMemcpyAsync(to, room, from, bytes, kind, stream).
  static std::int64_t transferred(std::string_view call) {
    for (int comma = 0; comma < 3; ++comma) call.remove_prefix(call.find(',') + 1);
    return std::atoll(std::string(call).c_str());
  }
  /// Every type[extents]@address of the call.
  void count_operands(std::string_view call) {
    constexpr std::pair<std::string_view, std::int64_t> sizes[] = {{"float32[", 4}, {"bfloat16[", 2}, {"bool[", 1},
                                                                   {"uint8[", 1},   {"int32[", 4},    {"int64[", 8}};
    for (std::size_t at = call.find('['); at != call.npos; at = call.find('[', at + 1)) {
      const std::string_view before = call.substr(0, at + 1);
      for (const auto& [name, size] : sizes) {
        if (!before.ends_with(name)) continue;
        if (before.ends_with("b" + std::string(name)) || before.ends_with("u" + std::string(name))) continue;
        std::int64_t bytes = size;
        std::string extents(call.substr(at + 1, call.find(']', at) - at - 1));
        for (char* p = extents.data(); *p != 0; p += *p == ',') bytes *= std::strtoll(p, &p, 10);
        operand_bytes += bytes;
      }
    }
  }
  const ascend::calls& table_;
};

}  // namespace rlcore_test
