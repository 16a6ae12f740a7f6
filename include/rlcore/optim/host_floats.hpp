// Floats in host memory that are offloaded from a device: pages of the process, or of a file.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <new>
#include <string>
#include <system_error>
#include <utility>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/error.hpp"

RLCORE_BEGIN
namespace optim {

/// `size` floats, 0 at first. With a folder they are the pages of a file there: the kernel writes what has changed to
/// the disk now and then, and drops pages when memory is short. The file has no name and ends with the process.
class host_floats {
 public:
  host_floats() = default;
  /// Throws std::bad_alloc, or error, which names the folder, if the file cannot be made or the disk has no room.
  explicit host_floats(std::size_t size, const std::filesystem::path& folder = {}) : size_(size) {
    if (size == 0) return;
    if (size > std::numeric_limits<std::size_t>::max() / sizeof(float)) throw std::bad_array_new_length();
    const file_descriptor file = folder.empty() ? file_descriptor{} : nameless_file(folder, bytes());
    void* const p = ::mmap(nullptr, bytes(), PROT_READ | PROT_WRITE,
                           file.number < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED, file.number, 0);
    if (p == MAP_FAILED && file.number >= 0) refuse(folder, bytes(), errno);
    if (p == MAP_FAILED) throw std::bad_alloc();
    data_ = static_cast<float*>(p);
  }
  host_floats(host_floats&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  host_floats& operator=(host_floats&& other) noexcept {
    host_floats taken(std::move(other));
    std::swap(data_, taken.data_);
    std::swap(size_, taken.size_);
    return *this;
  }
  ~host_floats() {
    if (data_ != nullptr) ::munmap(data_, bytes());
  }

  float* data() noexcept { return data_; }
  const float* data() const noexcept { return data_; }
  std::size_t size() const noexcept { return size_; }
  std::size_t bytes() const noexcept { return size_ * sizeof(float); }

 private:
  struct file_descriptor {
    int number = -1;
    file_descriptor() = default;
    explicit file_descriptor(int opened) noexcept : number(opened) {}
    file_descriptor(file_descriptor&& other) noexcept : number(std::exchange(other.number, -1)) {}
    file_descriptor& operator=(file_descriptor&&) = delete;
    ~file_descriptor() {
      if (number >= 0) ::close(number);
    }
  };
  [[noreturn]] static void refuse(const std::filesystem::path& folder, std::size_t bytes, int why) {
    throw error("cannot keep " + std::to_string(bytes) + " bytes in " + folder.string() + ": " +
                std::generic_category().message(why));
  }
  static file_descriptor nameless_file(const std::filesystem::path& folder, std::size_t bytes) {
    std::string name = (folder / "rlcore-offload-XXXXXX").string();
    file_descriptor file(::mkstemp(name.data()));
    if (file.number < 0) refuse(folder, bytes, errno);
    ::unlink(name.c_str());
    // Room is taken now: a write to a mapped page of a full disk would end the process.
    int why = 0;
    do why = ::posix_fallocate(file.number, 0, static_cast<off_t>(bytes));
    while (why == EINTR);
    if (why != 0) refuse(folder, bytes, why);
    return file;
  }

  float* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace optim
RLCORE_END
