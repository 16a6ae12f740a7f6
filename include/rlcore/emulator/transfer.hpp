// memmove and memset of the emulated copy engine.
#pragma once

#include <cstddef>
#include <cstring>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace ascend::emulated {

// A program that copies without waiting for a stream is wrong, but the machine does not stop it, and tests of the
// emulator do it on purpose. Race detectors should report races of kernels, not these, so copies are atomic under them.
#if defined(__SANITIZE_THREAD__)
inline constexpr bool race_detector = true;
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
inline constexpr bool race_detector = true;
#else
inline constexpr bool race_detector = false;
#endif
#else
inline constexpr bool race_detector = false;
#endif

/// memmove of a copy engine.
void move_bytes(std::byte* to, const std::byte* from, std::size_t bytes);

/// memset of a copy engine.
void fill_bytes(std::byte* to, std::byte value, std::size_t bytes);

}  // namespace ascend::emulated
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_EMULATOR)
RLCORE_BEGIN
namespace ascend::emulated {

RLCORE_INLINE void move_bytes(std::byte* to, const std::byte* from, std::size_t bytes) {
  if constexpr (race_detector) {
    auto* const target = reinterpret_cast<unsigned char*>(to);
    const auto* const source = reinterpret_cast<const unsigned char*>(from);
    const auto move = [&](std::size_t i) {
      __atomic_store_n(target + i, __atomic_load_n(source + i, __ATOMIC_RELAXED), __ATOMIC_RELAXED);
    };
    if (to < from) {
      for (std::size_t i = 0; i < bytes; ++i) move(i);
    } else {
      for (std::size_t i = bytes; i-- > 0;) move(i);
    }
  } else {
    std::memmove(to, from, bytes);
  }
}

RLCORE_INLINE void fill_bytes(std::byte* to, std::byte value, std::size_t bytes) {
  if constexpr (race_detector) {
    auto* const target = reinterpret_cast<unsigned char*>(to);
    for (std::size_t i = 0; i < bytes; ++i)
      __atomic_store_n(target + i, static_cast<unsigned char>(value), __ATOMIC_RELAXED);
  } else {
    std::memset(to, static_cast<int>(value), bytes);
  }
}

}  // namespace ascend::emulated
RLCORE_END
#endif
