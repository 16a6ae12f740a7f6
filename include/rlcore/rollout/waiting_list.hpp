// The sequences that wait for their start, in the order in which they start.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "rlcore/rollout/sequence.hpp"

RLCORE_BEGIN
namespace rollout {

/// A heap by (priority, arrival). A sequence that gave its pages back takes the place of its arrival again.
class waiting_list {
 public:
  bool empty() const noexcept { return heap_.empty(); }
  std::size_t size() const noexcept { return heap_.size(); }
  /// The one that starts next.
  sequence& next() const { return *heap_.front(); }

  /// Adds a sequence that has to live until it is taken or removed.
  void add(sequence& s) {
    heap_.push_back(&s);
    std::push_heap(heap_.begin(), heap_.end(), later);
  }
  /// Takes next() off the list.
  void take() {
    std::pop_heap(heap_.begin(), heap_.end(), later);
    heap_.pop_back();
  }
  /// Takes a sequence off the list, wherever it stands.
  void remove(const sequence& s) {
    std::erase(heap_, &s);
    std::make_heap(heap_.begin(), heap_.end(), later);
  }
  void clear() { heap_.clear(); }

 private:
  static bool later(const sequence* a, const sequence* b) { return b->before(*a); }

  std::vector<sequence*> heap_;
};

}  // namespace rollout
RLCORE_END
