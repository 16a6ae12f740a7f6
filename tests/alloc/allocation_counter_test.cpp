#include "support/allocation_counter.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "rlcore/exec/serial.hpp"
#include "rlcore/exec/threads.hpp"
#include "rlcore/tensor/ragged.hpp"
#include "rlcore/tensor/span.hpp"

namespace {

/// Keeps the compiler from removing an allocation that nobody looks at.
template <class T>
T* keep(T* p) {
  asm volatile("" : "+r"(p) : : "memory");
  return p;
}

#define NEEDS_COUNTS \
  if (!counts_allocations) GTEST_SKIP() << "a sanitizer owns malloc"

TEST(allocation_counter, sees_every_way_to_allocate) {
  NEEDS_COUNTS;
  const auto calls = [](auto f) {
    const allocation_counter counter;
    f();
    return counter.count();
  };
  EXPECT_EQ(calls([] {}), 0u);
  EXPECT_EQ(calls([] { std::free(keep(std::malloc(10))); }), 1u);
  EXPECT_EQ(calls([] { std::free(keep(std::calloc(2, 10))); }), 1u);
  EXPECT_EQ(calls([] { std::free(keep(std::realloc(keep(std::malloc(10)), 100000))); }), 2u);
  EXPECT_EQ(calls([] { std::free(keep(std::aligned_alloc(64, 128))); }), 1u);
  EXPECT_EQ(calls([] { delete keep(new int(3)); }), 1u);
  EXPECT_EQ(calls([] { delete[] keep(new char[1000]); }), 1u);
  EXPECT_EQ(calls([] { ::operator delete (keep(::operator new (64, std::align_val_t{64})), std::align_val_t{64}); }),
            1u);
  EXPECT_EQ(calls([] {
              std::vector<double> v(100);
              keep(v.data());
            }),
            1u);
  const allocation_counter counter;
  std::free(keep(std::malloc(1000)));
  EXPECT_EQ(counter.bytes(), 1000u);
}

TEST(allocation, an_executor_asks_for_none) {
  NEEDS_COUNTS;
  const rlcore::threads three(3);
  const rlcore::serial one;
  std::vector<double> out(512);
  double* const result = out.data();
  double factor = 2;
  const auto work = [result, &factor](std::size_t i) { result[i] += factor * static_cast<double>(i); };
  for (int warm = 0; warm < 10; ++warm) three.for_each(out.size(), work);
  const allocation_counter counter;
  for (int k = 0; k < 1000; ++k) {
    three.for_each(out.size(), work);
    one.for_each(out.size(), work);
  }
  EXPECT_EQ(counter.count(), 0u);
  EXPECT_EQ(out[1], 2.0 * 2010);
}

TEST(allocation, views_ask_for_none) {
  NEEDS_COUNTS;
  std::vector<float> v(12);
  const allocation_counter counter;
  const auto m = rlcore::matrix(v, 3, 4);
  const rlcore::matrix_view<const float> readable = rlcore::as_view(m);
  EXPECT_EQ(keep(readable.data), v.data());
  EXPECT_EQ(counter.count(), 0u);
}

TEST(allocation, packed_rows_keep_their_memory) {
  NEEDS_COUNTS;
  rlcore::ragged<int> packed;
  const std::vector<int> row(7);
  const auto fill = [&] {
    packed.clear();
    for (int i = 0; i < 100; ++i) packed.push_back(row);
  };
  fill();
  const allocation_counter counter;
  fill();
  EXPECT_EQ(counter.count(), 0u);
}

}  // namespace
