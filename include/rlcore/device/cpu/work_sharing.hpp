// The CPU device's memory, and its thread pool, which splits the work of one kernel among threads.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/processor.hpp"
#include "rlcore/exec/threads.hpp"
#include "rlcore/tensor/view.hpp"

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

/// The thread pool of a cpu object and the scratch memory of its threads. The cost of a call is given in flops of a
/// matrix product, at about 100 per nanosecond; an element that is only read or written counts as 10. Waking waiting
/// threads costs 0.7 microseconds, so calls of less than 4 microseconds stay on the calling thread.
class work_sharing {
 public:
  /// `threads` worker threads, as rlcore::threads counts them. The processor is checked first.
  explicit work_sharing(int threads) : pool_((require_processor(), threads)), scratch_(pool_.concurrency() + 1) {}

  int threads() const noexcept { return static_cast<int>(pool_.concurrency()); }

 protected:
  static constexpr extent_t one_thread_flops = 400'000;

  /// f(c) for c in [0, count).
  template <class F>
  void for_each(extent_t count, F&& f) {
    pool_.for_each(static_cast<std::size_t>(count), [&](std::size_t c) { f(static_cast<extent_t>(c)); });
  }
  /// The number of pieces into which to split `units` indivisible units of `flops` in total.
  extent_t chunks_for(extent_t units, extent_t flops) const {
    return flops < one_thread_flops ? 1 : std::clamp<extent_t>(units, 1, threads());
  }
  /// f(begin, end) over [0, n) in consecutive ranges, with as many threads as pay off.
  template <class F>
  void split(extent_t n, extent_t flops, F&& f) {
    if (n <= 0) return;
    const extent_t chunks = chunks_for(n, flops);
    if (chunks == 1) return f(extent_t{0}, n);
    for_each(chunks, [&](extent_t c) { f(n * c / chunks, n * (c + 1) / chunks); });
  }
  /// The same at multiples of `unit`.
  template <class F>
  void split_by(extent_t unit, extent_t n, extent_t flops, F&& f) {
    split((n + unit - 1) / unit, flops,
          [&](extent_t begin, extent_t end) { f(begin * unit, std::min(end * unit, n)); });
  }
  /// Columns at multiples of 32: of two cache lines.
  template <class F>
  void split_columns(extent_t columns, extent_t flops, F&& f) {
    split_by(32, columns, flops, std::forward<F>(f));
  }
  /// Elements of a flat array, by pages.
  template <class F>
  void split_elements(extent_t n, extent_t flops, F&& f) {
    split_by(1024, n, flops, std::forward<F>(f));
  }

  /// Scratch of one piece of work, of at least n floats; grows only.
  float* scratch(std::size_t piece, extent_t n = 0) {
    auto& block = scratch_[piece];
    if (block.size < static_cast<std::size_t>(n)) {
      block.size = static_cast<std::size_t>(n);
      block.data.reset(static_cast<float*>(allocate(block.size * sizeof(float))));
    }
    return block.data.get();
  }
  /// Scratch that all pieces share.
  float* shared_scratch(extent_t n) { return scratch(scratch_.size() - 1, n); }

  rlcore::threads pool_;

 private:
  struct free_floats {
    void operator()(float* p) const noexcept { release(p); }
  };
  struct scratch_block {
    std::unique_ptr<float, free_floats> data;
    std::size_t size = 0;
  };

  std::vector<scratch_block> scratch_;  // one per thread, and one that all share
};

}  // namespace cpu_kernels

RLCORE_END
