// Ranks that are processes of one machine, any of which can be killed: as much of a communicator as saving needs.
#pragma once

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace process_ranks {

inline constexpr int most = 8;
inline constexpr std::size_t slot = 1 << 17;

struct shared_state {
  std::atomic<int> arrived{0}, round{0};
  std::byte slots[most][slot];
};
static_assert(std::atomic<int>::is_always_lock_free);

/// One process's end. A peer that was killed is waited for in vain, until somebody kills this process too.
class rank {
 public:
  rank(shared_state& state, int self, int size) : state_(&state), self_(self), size_(size) {}
  int size() const { return size_; }
  int rank_number() const { return self_; }
  void barrier() {
    const int round = state_->round.load();
    if (state_->arrived.fetch_add(1) + 1 == size_) {
      state_->arrived = 0;
      state_->round.fetch_add(1);
    } else {
      while (state_->round.load() == round) std::this_thread::yield();
    }
  }
  template <class T>
  void broadcast(std::span<T> data, int root) {
    meet(std::as_bytes(data), [&] { std::memcpy(data.data(), state_->slots[root], data.size_bytes()); });
  }
  template <class T>
  void all_gather(std::span<const T> in, std::span<T> out) {
    const std::vector<std::size_t> counts(static_cast<std::size_t>(size_), in.size());
    all_gather_v(in, out, std::span<const std::size_t>(counts));
  }
  template <class T>
  void all_gather_v(std::span<const T> in, std::span<T> out, std::span<const std::size_t> counts) {
    meet(std::as_bytes(in), [&] {
      T* to = out.data();
      for (std::size_t r = 0; r < counts.size(); to += counts[r++])
        std::memcpy(static_cast<void*>(to), state_->slots[r], counts[r] * sizeof(T));
    });
  }

 private:
  template <class F>
  void meet(std::span<const std::byte> mine, F&& read) {
    if (mine.size() > slot) throw std::length_error("process_ranks: " + std::to_string(mine.size()) + " bytes");
    if (!mine.empty()) std::memcpy(state_->slots[self_], mine.data(), mine.size());
    barrier();
    read();
    barrier();
  }

  shared_state* state_;
  int self_, size_;
};

/// The same with the name that the concept asks for.
class communicator : public process_ranks::rank {
 public:
  using process_ranks::rank::rank;
  int rank() const { return rank_number(); }
  template <class T>
  void all_to_all(std::span<const T>, std::span<T>) {
    std::abort();
  }
  template <class T>
  void all_to_all_v(std::span<const T>, std::span<const std::size_t>, std::span<T>, std::span<const std::size_t>) {
    std::abort();
  }
  template <class T>
  void shift(std::span<const T>, std::span<T>, int) {
    std::abort();
  }
  template <class T>
  void send(std::span<const T>, int) {
    std::abort();
  }
  template <class T>
  void receive(std::span<T>, int) {
    std::abort();
  }
  communicator split(int, int) { std::abort(); }
  [[noreturn]] void abort(const std::string&) { std::abort(); }
};

/// Processes that run f(communicator&), a job.
class job {
 public:
  template <class F>
  job(int size, F&& f) {
    void* const memory = mmap(nullptr, sizeof(shared_state), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::runtime_error("mmap");
    state_ = new (memory) shared_state;
    for (int r = 0; r < size; ++r) {
      const pid_t child = fork();
      if (child == 0) {
        communicator c(*state_, r, size);
        try {
          f(c);
        } catch (...) {
          _exit(1);
        }
        _exit(0);
      }
      processes_.push_back(child);
    }
  }
  job(const job&) = delete;
  job& operator=(const job&) = delete;
  ~job() {
    end();
    munmap(state_, sizeof(shared_state));
  }

  void kill_one(int rank) { kill(processes_.at(static_cast<std::size_t>(rank)), SIGKILL); }
  /// Kills and forgets all that are left, as mpirun does.
  void end() {
    for (const pid_t p : processes_) kill(p, SIGKILL);
    for (const pid_t p : processes_) waitpid(p, nullptr, 0);
    processes_.clear();
  }
  /// Whether all end well by themselves.
  bool wait() {
    bool well = true;
    for (const pid_t p : processes_) {
      int status = 0;
      waitpid(p, &status, 0);
      well = well && WIFEXITED(status) && WEXITSTATUS(status) == 0;
    }
    processes_.clear();
    return well;
  }

 private:
  shared_state* state_ = nullptr;
  std::vector<pid_t> processes_;
};

}  // namespace process_ranks
