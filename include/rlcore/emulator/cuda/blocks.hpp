// Runs the blocks of a CUDA kernel on the host: each thread of a block on a stack of its own, from barrier to barrier.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace nvidia::emulated {

/// blockIdx, blockDim, gridDim or threadIdx.
struct dimensions {
  unsigned x = 0, y = 0, z = 0;
};

/// Of the thread that runs, as a kernel finds them.
inline thread_local dimensions threadIdx, blockIdx, blockDim, gridDim;

#if defined(__x86_64__)
/// Keeps the registers that a call must keep on this stack, whose top goes to *from, and goes on with those of `to`.
__attribute__((naked, noinline)) inline void switch_stack([[maybe_unused]] void** from, [[maybe_unused]] void* to) {
  asm volatile(
      "pushq %rbp\n\tpushq %rbx\n\tpushq %r12\n\tpushq %r13\n\tpushq %r14\n\tpushq %r15\n\t"
      "movq %rsp, (%rdi)\n\tmovq %rsi, %rsp\n\t"
      "popq %r15\n\tpopq %r14\n\tpopq %r13\n\tpopq %r12\n\tpopq %rbx\n\tpopq %rbp\n\tret");
}
#endif

/// The block that runs in this thread of the host. Threads of a block run one after another; with a seed their order
/// is another one after every barrier, so that a result that depends on it differs from seed to seed.
class running_block {
 public:
  /// Of the thread of the host that calls it.
  static running_block& here() {
    static thread_local running_block block;
    return block;
  }

  /// Runs body() for every thread of every block.
  void run(dimensions blocks, unsigned threads, std::uint64_t seed, void (*body)(const void*), const void* arguments) {
    gridDim = blocks;
    blockDim = {threads, 1, 1};
    body_ = body;
    arguments_ = arguments;
    random_ = seed;
    if (fibers_.size() < threads) fibers_.resize(threads);
    for (blockIdx.z = 0; blockIdx.z < gridDim.z; ++blockIdx.z)
      for (blockIdx.y = 0; blockIdx.y < gridDim.y; ++blockIdx.y)
        for (blockIdx.x = 0; blockIdx.x < gridDim.x; ++blockIdx.x) run_block(threads, seed != 0);
  }

  /// Waits until every thread of the block that has not ended waits.
  void barrier() { leave(); }
  /// How often the threads that run here have gone from barrier to barrier; from 1 on.
  std::uint64_t round() const { return round_; }

 private:
  static constexpr std::size_t stack_bytes = std::size_t{1} << 16;
  struct fiber {
    std::unique_ptr<std::byte[]> stack;
    bool ended = false;
#if defined(__x86_64__)
    void* top = nullptr;
#else
    ucontext_t context;
#endif
  };

  void run_block(unsigned threads, bool shuffled) {
    order_.resize(threads);
    for (unsigned t = 0; t < threads; ++t) {
      order_[t] = t;
      start(fibers_[t]);
    }
    threadIdx = {};
    for (std::size_t left = threads; left > 0;) {
      ++round_;
      if (shuffled)
        for (std::size_t i = left; i > 1; --i) std::swap(order_[i - 1], order_[next_random() % i]);
      std::size_t kept = 0;
      for (std::size_t i = 0; i < left; ++i) {
        now_ = order_[i];
        threadIdx.x = now_;
        enter();
        if (!fibers_[now_].ended) order_[kept++] = now_;
      }
      left = kept;
    }
  }
  std::uint64_t next_random() {  // splitmix64
    std::uint64_t z = random_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  static void first() {
    running_block& b = here();
    b.body_(b.arguments_);
    b.fibers_[b.now_].ended = true;
    b.leave();
  }

#if defined(__x86_64__)
  void start(fiber& f) {
    if (!f.stack) f.stack = std::make_unique_for_overwrite<std::byte[]>(stack_bytes);
    f.ended = false;
    const auto end = (reinterpret_cast<std::uintptr_t>(f.stack.get()) + stack_bytes - 64) & ~std::uintptr_t{63};
    auto** words = reinterpret_cast<void**>(end);
    words[0] = reinterpret_cast<void*>(&first);
    for (int i = 1; i <= 6; ++i) words[-i] = nullptr;
    f.top = words - 6;
  }
  void enter() { switch_stack(&host_, fibers_[now_].top); }
  void leave() { switch_stack(&fibers_[now_].top, host_); }
  void* host_ = nullptr;
#else
  void start(fiber& f) {
    if (!f.stack) f.stack = std::make_unique_for_overwrite<std::byte[]>(stack_bytes);
    f.ended = false;
    getcontext(&f.context);
    f.context.uc_stack.ss_sp = f.stack.get();
    f.context.uc_stack.ss_size = stack_bytes;
    f.context.uc_link = &host_;
    makecontext(&f.context, &first, 0);
  }
  void enter() { swapcontext(&host_, &fibers_[now_].context); }
  void leave() { swapcontext(&fibers_[now_].context, &host_); }
  ucontext_t host_;
#endif

  std::vector<fiber> fibers_;
  std::vector<unsigned> order_;
  unsigned now_ = 0;
  std::uint64_t random_ = 0, round_ = 0;
  void (*body_)(const void*) = nullptr;
  const void* arguments_ = nullptr;
};

}  // namespace nvidia::emulated
RLCORE_END
