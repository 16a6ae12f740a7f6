// First checks of an NPU: copy round trip and a matrix product.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "rlcore/core/dtype.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/device/npu/queue.hpp"
#include "rlcore/device/npu/stream.hpp"

/// Each returns "pass, ..." or throws what is wrong.
namespace npu_first_checks {

using namespace rlcore;

/// Bytes to the device and back, between two events.
inline std::string event_round_trip(ascend::queue& q) {
  constexpr std::uint32_t flags = ascend::event_sync | ascend::event_time_line;
  ascend::event start(q.device(), flags), end(q.device(), flags);
  std::vector<unsigned char> out(1 << 20), back(out.size());
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<unsigned char>(i * 2654435761u >> 24);
  const auto data = q.take<std::uint8_t>(static_cast<extent_t>(out.size()));
  start.record(q.stream());
  q.upload(data.data(), out.data(), out.size());
  end.record(q.stream());
  end.synchronize();
  q.download(back.data(), data.data(), back.size());
  if (back != out) throw error("1 MiB came back from the device changed");
  char text[64];
  std::snprintf(text, sizeof text, "pass, 1 MiB to the device in %.3f ms",
                static_cast<double>(end.milliseconds_since(start)));
  return text;
}

/// 16x16 in bfloat16 with small whole numbers: every sum is exact, so one right answer exists.
inline std::string matrix_product(ascend::queue& q) {
  constexpr int n = 16;
  std::vector<bf16> a(n * n), b(n * n), c(n * n);
  const auto left = [](int i, int k) { return static_cast<float>((3 * i + k) % 5 - 2); };
  const auto right = [](int k, int j) { return static_cast<float>((k + 2 * j) % 7 - 3); };
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < n; ++j) {
      a[static_cast<std::size_t>(i * n + j)] = bf16(left(i, j));
      b[static_cast<std::size_t>(i * n + j)] = bf16(right(i, j));
    }
  const auto da = q.take<bf16>(n * n), db = q.take<bf16>(n * n), dc = q.take<bf16>(n * n);
  q.upload(da.data(), a.data(), a.size() * sizeof(bf16));
  q.upload(db.data(), b.data(), b.size() * sizeof(bf16));
  q.run(q.table().op.aclnnMatmul, q.tensor(da.data(), {n, n}), q.tensor(db.data(), {n, n}), q.tensor(dc.data(), {n, n}),
        ascend::cube_math::keep);
  q.download(c.data(), dc.data(), c.size() * sizeof(bf16));
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < n; ++j) {
      float exact = 0;
      for (int k = 0; k < n; ++k) exact += left(i, k) * right(k, j);
      const float got = c[static_cast<std::size_t>(i * n + j)];
      if (got != exact)
        throw error("the matrix product is wrong: element " + std::to_string(i) + "," + std::to_string(j) + " is " +
                    std::to_string(got) + ", expected " + std::to_string(exact));
    }
  return "pass, 256 sums exact";
}

}  // namespace npu_first_checks
