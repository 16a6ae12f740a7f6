// Host memory allocation for tensors: aligned to cache lines, with huge pages for large blocks.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <new>

#include "rlcore/core/abi.hpp"

#if defined(__linux__)
#include <sys/mman.h>
#endif

RLCORE_BEGIN

namespace cpu_kernels {

inline constexpr std::size_t cache_line = 64, huge_page = std::size_t{2} << 20;

/// `bytes` uninitialised bytes aligned to 64, from 2 MiB on to 2 MiB. Linux is asked to back the whole huge pages of a
/// large block by huge pages: one TLB entry then covers 2 MiB instead of 4 KiB, and first touch takes one fault instead
/// of 512. Free it with release(). Throws std::bad_alloc.
inline void* allocate(std::size_t bytes) {
  void* p = nullptr;
  const std::size_t alignment = bytes >= huge_page ? huge_page : cache_line;
  if (::posix_memalign(&p, alignment, bytes > 0 ? bytes : 1) != 0) throw std::bad_alloc();
#if defined(__linux__) && defined(MADV_HUGEPAGE)
  // Only advice: if it is refused, the memory is still usable.
  if (bytes >= huge_page) static_cast<void>(::madvise(p, bytes / huge_page * huge_page, MADV_HUGEPAGE));
#endif
  return p;
}
/// Frees memory of allocate(); null is allowed.
inline void release(void* p) noexcept { std::free(p); }

}  // namespace cpu_kernels

RLCORE_END
