// Counts the memory that a program asks for. Include it in exactly one source file of a test program: it replaces
// malloc and its relatives (glibc), and with them operator new, for the whole program.
//
//   allocation_counter counter;
//   work();
//   EXPECT_EQ(counter.count(), 0u);
#pragma once

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdlib>

#if defined(__x86_64__)
#include <mm_malloc.h>  // declares posix_memalign once more, which must come before the definition below
#endif

// A sanitizer replaces malloc itself; counting is then impossible and counts_allocations is false.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define RLCORE_TEST_COUNTS 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define RLCORE_TEST_COUNTS 0
#endif
#endif
#if !defined(RLCORE_TEST_COUNTS)
#if defined(__GLIBC__)
#define RLCORE_TEST_COUNTS 1
#else
#define RLCORE_TEST_COUNTS 0
#endif
#endif

inline constexpr bool counts_allocations = RLCORE_TEST_COUNTS;

struct allocation_totals {
  std::atomic<std::size_t> calls{0}, bytes{0};
  void add(std::size_t n) noexcept {
    calls.fetch_add(1, std::memory_order_relaxed);
    bytes.fetch_add(n, std::memory_order_relaxed);
  }
};
inline constinit allocation_totals all_allocations;

/// Allocations by all threads of the program since the object was made.
class allocation_counter {
 public:
  std::size_t count() const noexcept { return all_allocations.calls.load() - calls_; }
  std::size_t bytes() const noexcept { return all_allocations.bytes.load() - bytes_; }

 private:
  std::size_t calls_ = all_allocations.calls.load(), bytes_ = all_allocations.bytes.load();
};

#if RLCORE_TEST_COUNTS
extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);

// glibc's own operator new calls malloc, so these see every allocation of C++ as well.
__attribute__((used)) void* malloc(std::size_t n) {
  all_allocations.add(n);
  return __libc_malloc(n);
}
__attribute__((used)) void* calloc(std::size_t count, std::size_t n) {
  all_allocations.add(count * n);
  return __libc_calloc(count, n);
}
__attribute__((used)) void* realloc(void* p, std::size_t n) {
  all_allocations.add(n);
  return __libc_realloc(p, n);
}
__attribute__((used)) void* memalign(std::size_t alignment, std::size_t n) {
  all_allocations.add(n);
  return __libc_memalign(alignment, n);
}
__attribute__((used)) void* aligned_alloc(std::size_t alignment, std::size_t n) {
  all_allocations.add(n);
  return __libc_memalign(alignment, n);
}
__attribute__((used)) int posix_memalign(void** p, std::size_t alignment, std::size_t n) noexcept {
  all_allocations.add(n);
  *p = __libc_memalign(alignment, n);
  return *p == nullptr ? ENOMEM : 0;
}
}
#endif
