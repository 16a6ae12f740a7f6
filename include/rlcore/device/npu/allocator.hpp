// Caching allocator of device memory, stream-aware.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "rlcore/core/memory_text.hpp"
#include "rlcore/device/npu/stream.hpp"

RLCORE_BEGIN
namespace ascend {

/// The memory of one device, shared by its streams. Blocks are cut from segments of aclrtMalloc and cached when
/// released. A stream may reuse a block that it released at once, since stream order separates the uses. A block that a
/// second stream also uses is reused after that stream's event. Block sizes are multiples of 512 bytes that hold the
/// request, rounded up to 32 bytes, and the 32 bytes after it that Ascend's kernels may access. Thread-safe.
class allocator {
 public:
  /// Memory statistics of an allocator.
  struct usage {
    std::size_t in_use = 0;    ///< bytes of allocated blocks
    std::size_t peak = 0;      ///< largest in_use so far
    std::size_t reserved = 0;  ///< bytes of segments
    std::size_t most_reserved = 0;
    std::size_t segments = 0;  ///< segments now
    std::size_t mallocs = 0;   ///< calls of aclrtMalloc so far
  };

  /// The allocator of a device.
  static std::shared_ptr<allocator> of(const device_handle& device);
  allocator(const allocator&) = delete;
  allocator& operator=(const allocator&) = delete;
  /// Every stream that uses the memory must be done.
  ~allocator() {
    for (const segment& s : segments_)
      device_.leave("aclrtFree", [&s](const calls& table) { return table.rt.aclrtFree(s.base); });
  }

  static constexpr std::size_t granule = 512;
  /// Bytes of the block that holds `bytes`.
  static constexpr std::size_t block_bytes(std::size_t bytes) {
    return ((bytes + 31) / 32 * 32 + 32 + granule - 1) / granule * granule;
  }

  /// At least `bytes` bytes, aligned to 64 or more, for use on `stream`; null for 0. With `exact` the block is a
  /// segment of its own, which is freed by aclrtFree when released, so that memory checkers see the exact size and
  /// lifetime. Throws npu_error 207001 with sizes if memory is exhausted even after the cache is freed.
  void* allocate(std::size_t bytes, aclrtStream stream, bool exact = false);

  /// Releases a block. Earlier work of its stream may still use it. Null is allowed. Any thread may call this.
  void release(void* data) noexcept;

  /// Another stream uses the block until `mark`; the block is not reused before.
  void used_until(void* data, event mark) {
    const std::lock_guard hold(lock_);
    if (const auto entry = in_use_.find(data); entry != in_use_.end()) entry->second->marks.push_back(std::move(mark));
  }

  /// Waits for the device and frees every segment without a block in use.
  void release_cache() {
    const std::lock_guard hold(lock_);
    give_back_cache();
  }

  /// Frees the unused segments of a stream that is done and is about to be destroyed.
  void forget(aclrtStream stream) noexcept;

  usage statistics() const {
    const std::lock_guard hold(lock_);
    return usage_;
  }
  /// The free bytes: those of the device and those between blocks in use.
  std::optional<std::size_t> available() const;

 private:
  static constexpr std::size_t mebi = std::size_t{1} << 20;
  struct block {
    std::byte* data = nullptr;
    std::size_t bytes = 0;
    block *before = nullptr, *after = nullptr;  // neighbours in the segment
    aclrtStream stream = nullptr;
    bool little = false, exact = false, cached = false;
    std::vector<event> marks;
  };
  struct segment {
    void* base;
    std::size_t bytes;
    block* first;
  };
  struct pool {  // free blocks, by size and address
    aclrtStream stream;
    bool little;
    std::vector<block*> blocks;
  };
  static constexpr bool is_full(aclError status) { return status == 207001 || status == 207018; }
  static bool less(const block* a, const block* b) {
    return a->bytes != b->bytes ? a->bytes < b->bytes : a->data < b->data;
  }

  explicit allocator(device_handle device) : device_(std::move(device)) {}

  pool& pool_of(aclrtStream stream, bool little) {
    for (pool& p : pools_)
      if (p.stream == stream && p.little == little) return p;
    return pools_.emplace_back(pool{stream, little, {}});
  }
  block* new_block();
  void give_out(block* b);

  block* reuse(std::size_t bytes, aclrtStream stream);
  /// Splits off the rest of `b` after the first `bytes` as a free block, if it is large enough.
  void split(block* b, std::size_t bytes);
  void cache(block* b) {
    b->cached = true;
    auto& to = pool_of(b->stream, b->little).blocks;
    to.insert(std::lower_bound(to.begin(), to.end(), b, less), b);
  }
  void uncache(block* b) {
    b->cached = false;
    auto& from = pool_of(b->stream, b->little).blocks;
    from.erase(std::lower_bound(from.begin(), from.end(), b, less));
  }
  /// Puts a block into the cache, merged with free neighbours.
  void keep(block* b);
  void join(block* b, block* next);

  block* grow(std::size_t bytes, aclrtStream stream, bool exact);
  std::string full(std::size_t bytes) const;

  void give_back(block* b) noexcept;
  std::vector<segment>::iterator drop_segment(std::vector<segment>::iterator s);
  void take_back();
  void give_back_cache();

  device_handle device_;
  mutable std::mutex lock_;
  std::deque<block> blocks_;
  std::vector<block*> spare_blocks_, waiting_;
  std::unordered_map<void*, block*> in_use_;
  std::vector<std::unordered_map<void*, block*>::node_type> spare_nodes_;
  std::vector<segment> segments_;
  std::vector<pool> pools_;
  usage usage_;
};

}  // namespace ascend
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_DEVICE)
RLCORE_BEGIN
namespace ascend {

RLCORE_INLINE std::shared_ptr<allocator> allocator::of(const device_handle& device) {
  session& owner = *device.session();
  const std::lock_guard hold(owner.lock_);
  auto& known = owner.allocators_[device.index()];
  if (auto alive = known.lock()) return alive;
  std::shared_ptr<allocator> made(new allocator(device));
  known = made;
  return made;
}

RLCORE_INLINE void* allocator::allocate(std::size_t bytes, aclrtStream stream, bool exact) {
  if (bytes == 0) return nullptr;
  const std::lock_guard hold(lock_);
  if (!waiting_.empty()) take_back();
  if (bytes > static_cast<std::size_t>(-1) / 2) throw npu_error(full(bytes), domain::runtime, 207001, "aclrtMalloc");
  block* found = exact ? nullptr : reuse(block_bytes(bytes), stream);
  if (found == nullptr) found = grow(bytes, stream, exact);
  give_out(found);
  return found->data;
}

RLCORE_INLINE void allocator::release(void* data) noexcept {
  if (data == nullptr) return;
  const std::lock_guard hold(lock_);
  const auto entry = in_use_.find(data);
  if (entry == in_use_.end()) return;
  block* b = entry->second;
  spare_nodes_.push_back(in_use_.extract(entry));
  usage_.in_use -= b->bytes;
  if (b->exact) return give_back(b);
  if (b->marks.empty())
    keep(b);
  else
    waiting_.push_back(b);
}

RLCORE_INLINE void allocator::forget(aclrtStream stream) noexcept {
  const std::lock_guard hold(lock_);
  for (auto s = segments_.begin(); s != segments_.end();)
    if (s->first->stream == stream && s->first->cached && s->first->after == nullptr) {
      uncache(s->first);
      device_.leave("aclrtFree", [&s](const calls& table) { return table.rt.aclrtFree(s->base); });
      s = drop_segment(s);
    } else {
      ++s;
    }
  std::erase_if(pools_, [stream](const pool& p) { return p.stream == stream && p.blocks.empty(); });
}

RLCORE_INLINE std::optional<std::size_t> allocator::available() const {
  std::size_t left = 0, total = 0;
  const auto guard = device_.enter();
  if (ignore(device_.table(), device_.table().rt.aclrtGetMemInfo(memory_kind::hbm, &left, &total))) return std::nullopt;
  const usage now = statistics();
  return left + now.reserved - now.in_use;
}

RLCORE_INLINE auto allocator::new_block() -> block* {
  if (spare_blocks_.empty()) return &blocks_.emplace_back();
  block* b = spare_blocks_.back();
  spare_blocks_.pop_back();
  *b = block{};
  return b;
}

RLCORE_INLINE void allocator::give_out(block* b) {
  if (spare_nodes_.empty()) {
    in_use_.emplace(b->data, b);
  } else {
    auto node = std::move(spare_nodes_.back());
    spare_nodes_.pop_back();
    node.key() = b->data;
    node.mapped() = b;
    in_use_.insert(std::move(node));
  }
  usage_.in_use += b->bytes;
  usage_.peak = std::max(usage_.peak, usage_.in_use);
}

RLCORE_INLINE auto allocator::reuse(std::size_t bytes, aclrtStream stream) -> block* {
  const bool little = bytes <= mebi;
  pool& from = pool_of(stream, little);
  const auto fit = std::lower_bound(from.blocks.begin(), from.blocks.end(), bytes,
                                    [](const block* b, std::size_t size) { return b->bytes < size; });
  if (fit == from.blocks.end()) return nullptr;
  block* b = *fit;
  from.blocks.erase(fit);
  b->cached = false;
  split(b, bytes);
  return b;
}

RLCORE_INLINE void allocator::split(block* b, std::size_t bytes) {
  const std::size_t rest = b->bytes - bytes;
  if (rest < (b->little ? granule : mebi)) return;
  block* r = new_block();
  r->data = b->data + bytes;
  r->bytes = rest;
  r->before = b;
  r->after = b->after;
  r->stream = b->stream;
  r->little = b->little;
  if (r->after != nullptr) r->after->before = r;
  b->after = r;
  b->bytes = bytes;
  cache(r);
}

RLCORE_INLINE void allocator::keep(block* b) {
  if (block* next = b->after; next != nullptr && next->cached) {
    uncache(next);
    join(b, next);
  }
  if (block* previous = b->before; previous != nullptr && previous->cached) {
    uncache(previous);
    join(previous, b);
    b = previous;
  }
  cache(b);
}

RLCORE_INLINE void allocator::join(block* b, block* next) {
  b->bytes += next->bytes;
  b->after = next->after;
  if (b->after != nullptr) b->after->before = b;
  spare_blocks_.push_back(next);
}

RLCORE_INLINE auto allocator::grow(std::size_t bytes, aclrtStream stream, bool exact) -> block* {
  const std::size_t need = block_bytes(bytes);
  const bool little = need <= mebi;
  // Huge pages have 2 MiB. Ascend adds the 32 bytes after a segment itself.
  std::size_t size = little ? 2 * mebi : need < 10 * mebi ? 20 * mebi : (need + 2 * mebi - 1) / (2 * mebi) * 2 * mebi;
  if (exact) size = bytes;
  const auto guard = device_.enter();
  const calls& table = device_.table();
  void* base = nullptr;
  ++usage_.mallocs;
  aclError status = table.rt.aclrtMalloc(&base, size, memory_policy::huge_first);
  if (is_full(status)) {
    drop_messages(table);
    give_back_cache();
    if (!exact) size = need;
    ++usage_.mallocs;
    status = table.rt.aclrtMalloc(&base, size, memory_policy::huge_first);
    if (is_full(status)) {
      drop_messages(table);
      throw npu_error(full(bytes), domain::runtime, 207001, "aclrtMalloc");
    }
  }
  check(table, status, "aclrtMalloc", " of " + memory_text(size));
  block* b = new_block();
  b->data = static_cast<std::byte*>(base);
  b->bytes = size;
  b->stream = stream;
  b->little = little;
  b->exact = exact;
  segments_.push_back({base, size, b});
  usage_.reserved += size;
  usage_.most_reserved = std::max(usage_.most_reserved, usage_.reserved);
  usage_.segments = segments_.size();
  if (!exact) split(b, need);
  return b;
}

RLCORE_INLINE std::string allocator::full(std::size_t bytes) const {
  std::size_t available = 0, total = 0;
  std::string line = "npu: out of memory on device " + std::to_string(device_.index()) + ": " + memory_text(bytes) +
                     " asked for while " + memory_text(usage_.in_use) + " are in use";
  if (usage_.reserved > usage_.in_use)
    line += " and " + memory_text(usage_.reserved - usage_.in_use) + " lie between them";
  if (!ignore(device_.table(), device_.table().rt.aclrtGetMemInfo(memory_kind::hbm, &available, &total)))
    line += "; the device has " + memory_text(available) + " of " + memory_text(total) + " left";
  return line + " (aclrtMalloc: 207001); smaller micro-batches need less";
}

RLCORE_INLINE void allocator::give_back(
    block* b) noexcept {  // an exact block: all streams that use it must have finished
  device_.leave("aclrtSynchronizeStream", [b](const calls& table) {
    for (const event& mark : b->marks) mark.synchronize();
    return table.rt.aclrtSynchronizeStream(b->stream);
  });
  device_.leave("aclrtFree", [b](const calls& table) { return table.rt.aclrtFree(b->data); });
  drop_segment(std::find_if(segments_.begin(), segments_.end(), [b](const segment& s) { return s.first == b; }));
}

RLCORE_INLINE auto allocator::drop_segment(std::vector<segment>::iterator s) -> std::vector<segment>::iterator {
  usage_.reserved -= s->bytes;
  spare_blocks_.push_back(s->first);
  s = segments_.erase(s);
  usage_.segments = segments_.size();
  return s;
}

RLCORE_INLINE void allocator::take_back() {  // blocks whose marks have passed
  std::erase_if(waiting_, [this](block* b) {
    std::erase_if(b->marks, [](const event& mark) { return mark.passed(); });
    if (b->marks.empty()) keep(b);
    return b->marks.empty();
  });
}

RLCORE_INLINE void allocator::give_back_cache() {
  const auto guard = device_.enter();
  const calls& table = device_.table();
  check(table, table.rt.aclrtSynchronizeDevice(), "aclrtSynchronizeDevice");
  take_back();
  for (auto s = segments_.begin(); s != segments_.end();) {
    block* b = s->first;
    if (!b->cached || b->after != nullptr) {
      ++s;
      continue;
    }
    uncache(b);
    check(table, table.rt.aclrtFree(s->base), "aclrtFree");
    s = drop_segment(s);
  }
}

}  // namespace ascend
RLCORE_END
#endif
