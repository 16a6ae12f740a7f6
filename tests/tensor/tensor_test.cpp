#include "rlcore/tensor/tensor.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <new>
#include <span>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

#include "rlcore/tensor/buffer.hpp"
#include "support/fake_device.hpp"

namespace RLCORE_TEST_ID {
namespace {

/// The smallest device whose memory the host can read.
struct host_device {
  static constexpr bool host_readable = true;
  int alive = 0;
  void* allocate(std::size_t bytes) {
    ++alive;
    return ::operator new(bytes, std::align_val_t{64});
  }
  void release(void* p) noexcept {
    --alive;
    ::operator delete(p, std::align_val_t{64});
  }
  void upload(void* to, const void* from, std::size_t bytes) { std::memcpy(to, from, bytes); }
  void download(void* to, const void* from, std::size_t bytes) { std::memcpy(to, from, bytes); }
  void fill_zero(void* p, std::size_t bytes) { std::memset(p, 0, bytes); }
  void wait() {}
};

static_assert(rlcore::memory_device<host_device> && rlcore::memory_device<fake_device>);
static_assert(!rlcore::memory_device<int>);
using host_buffer = rlcore::buffer<float, host_device>;
using fake_buffer = rlcore::buffer<float, fake_device>;
static_assert(!std::is_copy_constructible_v<host_buffer> && std::is_nothrow_move_constructible_v<host_buffer>);
static_assert(!std::is_constructible_v<host_buffer, fake_device&, std::size_t>);

TEST(buffer, gives_back_what_it_took) {
  host_device device;
  {
    host_buffer a(device, 10), b(device, 20);
    EXPECT_EQ(device.alive, 2);
    float* const second = b.data();
    a = std::move(b);
    EXPECT_EQ(device.alive, 1);
    EXPECT_EQ(a.data(), second);
    EXPECT_EQ(a.size(), 20u);
    EXPECT_EQ(b.data(), nullptr);
    host_buffer& self = a;
    a = std::move(self);
    EXPECT_EQ(a.data(), second);
    const host_buffer c(std::move(a));
    EXPECT_EQ(c.bytes(), 80u);
    EXPECT_EQ(device.alive, 1);
  }
  EXPECT_EQ(device.alive, 0);
}

TEST(buffer, moves_data_only_when_asked) {
  fake_device device;
  const std::vector<float> sent{1, 2, 3};
  std::vector<float> got(3, -1);
  fake_buffer b(device, 3);
  EXPECT_EQ(device.uploads + device.downloads, 0);
  b.upload(sent);
  b.download(got);
  EXPECT_EQ(got, sent);
  EXPECT_EQ(device.uploaded_bytes, 12u);
  EXPECT_EQ(device.downloaded_bytes, 12u);
  b.fill_zero();
  b.download(got);
  EXPECT_EQ(got, std::vector<float>(3));
  EXPECT_THROW(b.upload(std::span(sent).first(2)), std::invalid_argument);
  std::vector<float> longer(4);
  EXPECT_THROW(b.download(longer), std::invalid_argument);
}

TEST(buffer, of_nothing) {
  fake_device device;
  fake_buffer none, empty(device, 0);
  none.upload({});
  empty.download({});
  empty.fill_zero();
  EXPECT_EQ(none.size() + empty.size(), 0u);
  EXPECT_EQ(device.uploads + device.downloads, 0);
  host_device host;
  EXPECT_THROW(host_buffer(host, ~std::size_t{0} / 4), std::bad_array_new_length);
}

TEST(buffer, is_viewed_where_the_host_can_read) {
  host_device device;
  host_buffer b(device, 5);
  const host_buffer& c = b;
  static_assert(std::is_same_v<decltype(rlcore::as_view(b)), rlcore::vector_view<float>>);
  static_assert(std::is_same_v<decltype(rlcore::as_view(c)), rlcore::vector_view<const float>>);
  EXPECT_EQ(rlcore::as_view(b).data, b.data());
}

TEST(tensor, has_a_shape) {
  host_device device;
  rlcore::tensor<float, 3, host_device> t(device, {2, 3, 4});
  EXPECT_EQ(t.size(), 24u);
  const auto v = rlcore::as_view(t);
  static_assert(std::is_same_v<decltype(v), const rlcore::view<float, 3>>);
  EXPECT_EQ(&v(1, 2, 3), t.data() + 23);
  auto moved = std::move(t);
  EXPECT_EQ(moved.shape(), (rlcore::extents<3>{2, 3, 4}));
  EXPECT_EQ(t.shape(), (rlcore::extents<3>{}));
  EXPECT_EQ(t.size(), 0u);
  using matrix = rlcore::tensor<float, 2, host_device>;
  EXPECT_THROW(matrix(device, {2, -1}), std::invalid_argument);
  EXPECT_THROW(matrix(device, {rlcore::extent_t{1} << 40, rlcore::extent_t{1} << 40}), std::invalid_argument);
}

TEST(tensor, on_a_device_moves_as_one_row) {
  fake_device device;
  rlcore::tensor<int, 2, fake_device> t(device, {2, 2});
  const std::vector<int> sent{1, 2, 3, 4};
  std::vector<int> got(4);
  t.memory().upload(sent);
  t.memory().download(got);
  EXPECT_EQ(got, sent);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
