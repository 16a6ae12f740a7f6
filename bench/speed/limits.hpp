// What this machine can do at this moment: multiply-adds per second, and bytes per second read and rewritten.
#pragma once

#include <atomic>
#include <chrono>
#include <csetjmp>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <thread>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif
#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace speed {

namespace limit_loops {

/// Registers that cannot be optimised away nor merged; 12 chains hide a latency of 4 to 5 cycles on two ports.
#define SPEED_TWELVE(f) f(0) f(1) f(2) f(3) f(4) f(5) f(6) f(7) f(8) f(9) f(10) f(11)

#if defined(__x86_64__)
/// 12 x 2 x 16 operations per turn.
__attribute__((target("avx512f"))) inline void fma_avx512(long turns) {
  __m512 a = _mm512_set1_ps(0.999f), b = _mm512_set1_ps(0.001f);
#define SPEED_STEP(k) __m512 x##k = _mm512_set1_ps(1.0f + k);
  SPEED_TWELVE(SPEED_STEP)
#undef SPEED_STEP
  for (long i = 0; i < turns; ++i) {
#define SPEED_STEP(k) asm volatile("vfmadd213ps %2, %1, %0" : "+v"(x##k) : "v"(a), "v"(b));
    SPEED_TWELVE(SPEED_STEP)
#undef SPEED_STEP
  }
}
/// 12 x 2 x 32 operations per turn; an illegal instruction where the processor lacks it.
__attribute__((target("avx512f"))) inline void dot_bf16(long turns) {
  __m512 a = _mm512_setzero_ps(), b = a;
#define SPEED_STEP(k) __m512 x##k = _mm512_set1_ps(1.0f + k);
  SPEED_TWELVE(SPEED_STEP)
#undef SPEED_STEP
  for (long i = 0; i < turns; ++i) {
#define SPEED_STEP(k) asm volatile("vdpbf16ps %2, %1, %0" : "+v"(x##k) : "v"(a), "v"(b));
    SPEED_TWELVE(SPEED_STEP)
#undef SPEED_STEP
  }
}
/// 12 x 2 x 8 operations per turn.
__attribute__((target("avx2,fma"))) inline void fma_avx2(long turns) {
  __m256 a = _mm256_set1_ps(0.999f), b = _mm256_set1_ps(0.001f);
#define SPEED_STEP(k) __m256 x##k = _mm256_set1_ps(1.0f + k);
  SPEED_TWELVE(SPEED_STEP)
#undef SPEED_STEP
  for (long i = 0; i < turns; ++i) {
#define SPEED_STEP(k) asm volatile("vfmadd213ps %2, %1, %0" : "+x"(x##k) : "x"(a), "x"(b));
    SPEED_TWELVE(SPEED_STEP)
#undef SPEED_STEP
  }
}
__attribute__((target("avx512f"))) inline float read_avx512(const float* p, std::size_t n) {
  __m512 s0 = _mm512_setzero_ps(), s1 = s0, s2 = s0, s3 = s0;
  for (std::size_t i = 0; i + 64 <= n; i += 64) {
    s0 = _mm512_add_ps(s0, _mm512_loadu_ps(p + i));
    s1 = _mm512_add_ps(s1, _mm512_loadu_ps(p + i + 16));
    s2 = _mm512_add_ps(s2, _mm512_loadu_ps(p + i + 32));
    s3 = _mm512_add_ps(s3, _mm512_loadu_ps(p + i + 48));
  }
  float total[16];
  _mm512_storeu_ps(total, _mm512_add_ps(_mm512_add_ps(s0, s1), _mm512_add_ps(s2, s3)));
  return total[0];
}
#endif
#undef SPEED_TWELVE

/// Portable: 32 chains of multiply and add that the compiler may put into vectors.
inline void multiply_add(long turns) {
  float x[32];
  for (int k = 0; k < 32; ++k) x[k] = static_cast<float>(k);
  for (long i = 0; i < turns; ++i) {
    for (float& v : x) v = v * 0.999f + 0.001f;
    asm volatile("" : : "r"(x) : "memory");
  }
}
inline float read_portable(const float* p, std::size_t n) {
  float s[32] = {};
  for (std::size_t i = 0; i + 32 <= n; i += 32)
    for (std::size_t k = 0; k < 32; ++k) s[k] += p[i + k];
  float total = 0;
  for (const float v : s) total += v;
  return total;
}
inline void rewrite(float* p, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) p[i] = p[i] * 1.0f + 0.0f;
}
#if defined(__x86_64__)
__attribute__((target("avx512f"))) inline void rewrite_avx512(float* p, std::size_t n) {
  const __m512 one = _mm512_set1_ps(0.9999f);
  for (std::size_t i = 0; i + 16 <= n; i += 16) _mm512_storeu_ps(p + i, _mm512_mul_ps(_mm512_loadu_ps(p + i), one));
}
#endif

inline sigjmp_buf no_such_instruction;
inline void leave(int) { siglongjmp(no_such_instruction, 1); }

/// Does this processor execute vdpbf16ps? Some virtual machines hide it, so it is tried.
inline bool has_dot_bf16() {
#if defined(__x86_64__)
  if (!__builtin_cpu_supports("avx512f")) return false;
  struct sigaction now{}, before{};
  now.sa_handler = leave;
  sigaction(SIGILL, &now, &before);
  bool works = false;
  if (sigsetjmp(no_such_instruction, 1) == 0) {
    dot_bf16(1);
    works = true;
  }
  sigaction(SIGILL, &before, nullptr);
  return works;
#else
  return false;
#endif
}

}  // namespace limit_loops

/// Best time of `threads` threads that all do f(thread), from the moment they are all there to the end of the last.
template <class F>
double together(int threads, int repetitions, F&& f) {
  double best = 1e30;
  for (int r = 0; r < repetitions; ++r) {
    std::atomic<int> ready{0};
    std::atomic<bool> go{false};
    std::vector<std::thread> crew;
    for (int t = 1; t < threads; ++t)
      crew.emplace_back([&, t] {
        ++ready;
        while (!go.load()) {
        }
        f(t);
      });
    while (ready.load() + 1 < threads) {
    }
    const auto start = std::chrono::steady_clock::now();
    go.store(true);
    f(0);
    for (std::thread& t : crew) t.join();
    const double s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    best = s < best ? s : best;
  }
  return best;
}

struct machine_limits {
  double fma = 0;       ///< operations per second of fp32 multiply-adds
  double dot_bf16 = 0;  ///< of vdpbf16ps; 0 where there is none
  double read = 0;      ///< bytes per second read from memory
  double in_place = 0;  ///< bytes per second read and written by x = f(x)
};

/// About a second. `megabytes` of memory are read and rewritten: more than the caches hold.
inline machine_limits measure_limits(int threads, std::size_t megabytes) {
  namespace loops = limit_loops;
  machine_limits m;
  const long turns = 400000;
#if defined(__x86_64__)
  const bool wide = __builtin_cpu_supports("avx512f"), middle = __builtin_cpu_supports("fma");
  const auto burst = [&](int) {
    wide ? loops::fma_avx512(turns) : middle ? loops::fma_avx2(turns) : loops::multiply_add(turns);
  };
  const double operations = wide ? 12 * 2 * 16 : middle ? 12 * 2 * 8 : 64;
  if (loops::has_dot_bf16())
    m.dot_bf16 = 12 * 2 * 32.0 * turns * threads / together(threads, 15, [&](int) { loops::dot_bf16(turns); });
#else
  const auto burst = [&](int) { loops::multiply_add(turns); };
  const double operations = 64;
#endif
  m.fma = operations * turns * threads / together(threads, 25, burst);

  const std::size_t n = (megabytes << 20) / sizeof(float), part = n / static_cast<std::size_t>(threads) / 64 * 64;
  auto* area = static_cast<float*>(std::aligned_alloc(std::size_t{1} << 21, n * sizeof(float)));
  if (area == nullptr) return m;
#if defined(MADV_HUGEPAGE)
  madvise(area, n * sizeof(float), MADV_HUGEPAGE);
#endif
  for (std::size_t i = 0; i < n; ++i) area[i] = 1;
  volatile float sink = 0;
  const double bytes = static_cast<double>(part) * static_cast<double>(threads) * sizeof(float);
  m.read = bytes / together(threads, 7, [&](int t) {
             float* p = area + static_cast<std::size_t>(t) * part;
#if defined(__x86_64__)
             sink = wide ? loops::read_avx512(p, part) : loops::read_portable(p, part);
#else
             sink = loops::read_portable(p, part);
#endif
           });
  m.in_place = 2 * bytes / together(threads, 5, [&](int t) {
                 float* p = area + static_cast<std::size_t>(t) * part;
#if defined(__x86_64__)
                 wide ? loops::rewrite_avx512(p, part) : loops::rewrite(p, part);
#else
                 loops::rewrite(p, part);
#endif
               });
  std::free(area);
  return m;
}

}  // namespace speed
