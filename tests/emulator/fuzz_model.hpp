// What a program knows of its own calls: who comes before whom, and which errors may come of it. Reference for the
// fuzzer; it knows nothing of how the emulator is built.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "rlcore/core/random.hpp"

namespace npu_test {

/// Tasks that surely come before: for each stream (by number) how many of its tasks.
class clock_vector {
 public:
  void join(const clock_vector& other) {
    for (const auto& [stream, n] : other.known_) known_[stream] = std::max(known_[stream], n);
  }
  void set(int stream, std::uint64_t n) { known_[stream] = n; }
  bool covers(int stream, std::uint64_t n) const {
    const auto at = known_.find(stream);
    return at != known_.end() && at->second >= n;
  }

 private:
  std::map<int, std::uint64_t> known_;
};

struct model_stream {
  void* handle = nullptr;  ///< null: the default stream of its context
  int number = 0, context = 0;
  bool alive = true;
  std::uint64_t tasks = 0;
  clock_vector known;
  /// The failures of tasks that nobody has been told of, in order: number of the task, code, whether it is certain.
  struct failure {
    std::uint64_t task;
    int code;
    bool certain;
  };
  std::vector<failure> failures;

  /// What a synchronisation may return: the last failure wins, those that may not happen leave the earlier ones.
  std::set<int> outcomes() const {
    std::set<int> possible{0};
    for (const failure& f : failures) {
      if (f.certain) possible.clear();
      possible.insert(f.code);
    }
    return possible;
  }
};

struct model_event {
  void* handle = nullptr;
  std::uint32_t flags = 0;
  bool alive = true, recorded = false;
  clock_vector known;
};

/// An allocation of floats.
struct model_block {
  struct use {
    int stream;
    std::uint64_t task;
    bool writes;
  };
  void* address = nullptr;
  std::vector<float> values;
  bool alive = true;
  bool known = false;  ///< whether `values` is what memory will hold once everything has run
  std::vector<use> uses;

  /// Somebody who knows `clock` reads or writes all of it: false if that races with what is under way.
  bool ordered(const clock_vector& clock, bool writes) const {
    return std::all_of(uses.begin(), uses.end(),
                       [&](const use& u) { return (!writes && !u.writes) || clock.covers(u.stream, u.task); });
  }
};

struct model_context {
  void* handle = nullptr;
  bool implicit = false, alive = true;
};

/// Numbers of one sequence of calls.
class fuzz_random {
 public:
  explicit fuzz_random(std::uint64_t seed) : key_{seed} {}
  std::uint32_t below(std::size_t n) { return key_.below(static_cast<std::uint32_t>(n), n_++, 17); }
  bool one_in(std::uint32_t n) { return below(n) == 0; }

 private:
  rlcore::random_key key_;
  std::uint32_t n_ = 0;
};

}  // namespace npu_test
