// What every item of speed_bench needs: its options, the clock, the memory, and one JSON line per result.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#if defined(__GLIBC__)
#include <malloc.h>
#endif

namespace speed {

struct options {
  std::string item, only;       ///< only: cases whose name contains it
  std::string device = "cuda";  ///< of the item cuda
  int threads = 1;
  bool quick = false;
  double budget() const { return quick ? 0.1 : 0.3; }  ///< seconds for one case
  bool wants(std::string_view name) const { return only.empty() || name.find(only) != name.npos; }
};

/// What a case must at least do, in units of the limits measured beside it. The shortest time that the machine allows
/// is the sum of its parts, or the longest of them if they can go on at the same time.
struct limit {
  double fma = 0, read = 0, in_place = 0;  ///< operations, bytes, bytes (read + written)
  bool overlap = false;
};

struct line {
  std::string name;
  double seconds = 0;
  double work = 0;            ///< in units of `unit`, for the rate
  const char* unit = "flop";  ///< flop, byte, token or image
  limit least{};
  double memory = -1;  ///< peak bytes, < 0: not measured
};

inline void print(const options& o, const line& l) {
  std::printf(
      "{\"item\":\"%s\",\"case\":\"%s\",\"who\":\"rlcore\",\"threads\":%d,\"seconds\":%.6e,\"work\":%.6e,\"unit\":\"%"
      "s\"",
      o.item.c_str(), l.name.c_str(), o.threads, l.seconds, l.work, l.unit);
  std::printf(",\"limit\":{\"fma\":%.6e,\"read\":%.6e,\"in_place\":%.6e,\"overlap\":%s}", l.least.fma, l.least.read,
              l.least.in_place, l.least.overlap ? "true" : "false");
  if (l.memory >= 0)
    std::printf(",\"memory\":%.0f}\n", l.memory);
  else
    std::printf(",\"memory\":null}\n");
  std::fflush(stdout);
}

template <class F>
double seconds(F&& f, int calls = 1) {
  const auto start = std::chrono::steady_clock::now();
  for (int k = 0; k < calls; ++k) f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / calls;
}

/// The best time of f(), as the peers measure theirs: as many calls as fit into `budget` seconds and at least three,
/// after two that do not count; of calls that take seconds two or one, after one. Short calls are timed in groups.
template <class F>
double best_seconds(F&& f, double budget) {
  double first = seconds(f);
  if (first < 4) first = std::min(first, seconds(f));
  const int calls = std::max(1, static_cast<int>(2e-4 / std::max(first, 1e-9)));
  const int least = first < 1 ? 3 : first < 4 ? 2 : 1;
  double best = std::numeric_limits<double>::infinity(), spent = 0;
  for (int k = 0; k < least || spent < budget; ++k) {
    const double t = seconds(f, calls);
    best = std::min(best, t);
    spent += t * calls;
  }
  return best;
}

/// A line of /proc/self/status in bytes.
inline double status_bytes(const char* key) {
  std::FILE* f = std::fopen("/proc/self/status", "r");
  if (f == nullptr) return 0;
  char text[256];
  double kilobytes = 0;
  while (std::fgets(text, sizeof(text), f) != nullptr)
    if (std::strncmp(text, key, std::strlen(key)) == 0) std::sscanf(text + std::strlen(key), " %lf", &kilobytes);
  std::fclose(f);
  return 1024 * kilobytes;
}

/// Peak of resident memory since the object was made, above what was resident then.
class memory_peak {
 public:
  memory_peak() {
#if defined(__GLIBC__)
    malloc_trim(0);  // what earlier cases left in the heap
#endif
    if (std::FILE* f = std::fopen("/proc/self/clear_refs", "w")) {
      std::fputs("5", f);
      std::fclose(f);
    }
    before_ = status_bytes("VmRSS:");
  }
  double extra() const { return std::max(0.0, total() - before_); }
  static double total() { return status_bytes("VmHWM:"); }

 private:
  double before_ = 0;
};

/// Numbers that look random, the same in every run: cheap, for arrays of gigabytes.
inline void fill(float* x, std::size_t n, float scale, std::uint32_t seed = 1) {
  std::uint32_t s = seed * 2654435761u + 1;
  for (std::size_t k = 0; k < n; ++k) {
    s = s * 1664525u + 1013904223u;
    x[k] = scale * (static_cast<float>(s >> 8) * 0x1p-23f - 1);
  }
}
inline std::vector<float> numbers(std::size_t n, float scale, std::uint32_t seed = 1) {
  std::vector<float> x(n);
  fill(x.data(), n, scale, seed);
  return x;
}

/// The compute types, as they stand in the names of cases.
inline constexpr const char* computes[] = {"fp32", "bf16"};

// The items.
void limits(const options&);
void gemm(const options&);
void head(const options&);
void optimizer(const options&);
void attention(const options&);
void cuda(const options&);
void train(const options&);
void tower(const options&);
void images(const options&);
void generate(const options&);
void folder(const std::string& kind, const std::string& path);

}  // namespace speed
