// Type-erased communicator, with a count of its traffic.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/timeline.hpp"
#include "rlcore/device/device_group.hpp"
#include "rlcore/parallel/communicator/communicator.hpp"

RLCORE_BEGIN
namespace parallel {

/// The collectives of one rank: calls, bytes sent to other ranks (without data for itself; a broadcast counts only in
/// the root), and time, including waiting.
struct traffic {
  /// The sums over the calls of one collective.
  struct line {
    std::uint64_t calls = 0, bytes = 0;
    double seconds = 0;
    /// Adds calls, bytes and seconds.
    line& operator+=(const line& x) noexcept {
      calls += x.calls;
      bytes += x.bytes;
      seconds += x.seconds;
      return *this;
    }
  };
  std::array<line, collective_kinds> lines{};

  /// The sums of one collective.
  const line& of(collective c) const noexcept { return lines[static_cast<std::size_t>(c)]; }
  line total() const noexcept {
    line sum;
    for (const line& l : lines) sum += l;
    return sum;
  }
  /// Adds the sums per collective.
  traffic& operator+=(const traffic& x) noexcept {
    for (std::size_t i = 0; i < lines.size(); ++i) lines[i] += x.lines[i];
    return *this;
  }
};

/// Wraps any engine with one virtual call per collective; models `communicator`. Counts calls, bytes and time.
class any_communicator : public typed_collectives<any_communicator> {
 public:
  any_communicator() = default;
  any_communicator(const any_communicator&) = delete;
  any_communicator& operator=(const any_communicator&) = delete;
  virtual ~any_communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// "alone", "threads" or "mpi".
  virtual const char* engine() const = 0;
  /// The group of the ranks with the same color. It has its own counters.
  std::unique_ptr<any_communicator> split(int color, int key) {
    std::unique_ptr<any_communicator> group;
    count(collective::split, 0, [&] { group = do_split(color, key); });
    group->connect_ = connect_;
    return group;
  }
  /// Aborts all ranks with communication_error and the message `why`.
  [[noreturn]] virtual void abort(const std::string& why) = 0;

  /// Why a rank has failed, as far as the engine knows without a collective; empty: none has.
  virtual std::string failure() const { return {}; }

  /// Lets the ranks' devices exchange their memory themselves, in this group and in those that are split from it from
  /// now on (device_links). `connect` makes this rank's end of a group, together with the other ranks, before its first
  /// exchange. Empty: ends it for this group.
  void link_devices(std::function<std::unique_ptr<device_group>(any_communicator&)> connect) {
    devices_.reset();
    connect_ = std::move(connect);
  }
  bool devices_linked() const noexcept { return connect_ != nullptr; }
  /// As device_group's all_gather, counted as all_gather_v; only if devices_linked().
  void device_all_gather(const void* in, void* out, std::span<const std::size_t> bytes) {
    on_devices(collective::all_gather_v, bytes[self()] * others(),
               [&](device_group& group) { group.all_gather(in, out, bytes); });
  }
  /// As device_group's all_to_all, counted as all_to_all_v; only if devices_linked().
  void device_all_to_all(const void* in, std::span<const std::size_t> sent, void* out,
                         std::span<const std::size_t> received) {
    const std::size_t total = std::accumulate(sent.begin(), sent.end(), std::size_t{0});
    on_devices(collective::all_to_all_v, total - sent[self()],
               [&](device_group& group) { group.all_to_all(in, sent, out, received); });
  }

  /// The counters of this group only, without the groups split from it.
  const traffic& counters() const noexcept { return counters_; }

  void barrier() {
    count(collective::barrier, 0, [&] { do_barrier(); });
  }
  /// Counts bytes only in the root, of n elements for each other rank.
  void broadcast_bytes(element e, std::byte* data, std::size_t n, int root) {
    count(collective::broadcast, rank() == root ? e.bytes * n * others() : 0, [&] { do_broadcast(e, data, n, root); });
  }
  /// Counts the bytes of n elements for each other rank.
  void all_gather_bytes(element e, const std::byte* in, std::byte* out, std::size_t n) {
    count(collective::all_gather, e.bytes * n * others(), [&] { do_all_gather(e, in, out, n); });
  }
  /// Counts the bytes of this rank's elements for each other rank.
  void all_gather_v_bytes(element e, const std::byte* in, std::byte* out, std::span<const std::size_t> counts) {
    count(collective::all_gather_v, e.bytes * counts[self()] * others(), [&] { do_all_gather_v(e, in, out, counts); });
  }
  /// Counts the bytes of n elements for each other rank.
  void all_to_all_bytes(element e, const std::byte* in, std::byte* out, std::size_t n) {
    count(collective::all_to_all, e.bytes * n * others(), [&] { do_all_to_all(e, in, out, n); });
  }
  /// Counts the bytes of all elements of `in` but those for this rank.
  void all_to_all_v_bytes(element e, const std::byte* in, std::span<const std::size_t> in_counts, std::byte* out,
                          std::span<const std::size_t> out_counts) {
    const std::size_t total = std::accumulate(in_counts.begin(), in_counts.end(), std::size_t{0});
    count(collective::all_to_all_v, e.bytes * (total - in_counts[self()]),
          [&] { do_all_to_all_v(e, in, in_counts, out, out_counts); });
  }
  /// Counts the bytes of n elements, or none if the distance leads back to this rank.
  void shift_bytes(element e, const std::byte* in, std::byte* out, std::size_t n, int distance) {
    count(collective::shift, distance % size() == 0 ? 0 : e.bytes * n, [&] { do_shift(e, in, out, n, distance); });
  }
  /// Counts the bytes of n elements.
  void send_bytes(element e, const std::byte* data, std::size_t n, int to, std::size_t most, int patience) {
    count(collective::send, e.bytes * n, [&] { do_send(e, data, n, to, most, patience); });
  }
  /// Counts no bytes: the sender does.
  void receive_bytes(element e, std::byte* data, std::size_t n, int from, int patience) {
    count(collective::receive, 0, [&] { do_receive(e, data, n, from, patience); });
  }

 private:
  virtual std::unique_ptr<any_communicator> do_split(int color, int key) = 0;
  virtual void do_barrier() = 0;
  virtual void do_broadcast(element e, std::byte* data, std::size_t n, int root) = 0;
  virtual void do_all_gather(element e, const std::byte* in, std::byte* out, std::size_t n) = 0;
  virtual void do_all_gather_v(element e, const std::byte* in, std::byte* out, std::span<const std::size_t> counts) = 0;
  virtual void do_all_to_all(element e, const std::byte* in, std::byte* out, std::size_t n) = 0;
  virtual void do_all_to_all_v(element e, const std::byte* in, std::span<const std::size_t> in_counts, std::byte* out,
                               std::span<const std::size_t> out_counts) = 0;
  virtual void do_shift(element e, const std::byte* in, std::byte* out, std::size_t n, int distance) = 0;
  virtual void do_send(element e, const std::byte* data, std::size_t n, int to, std::size_t most, int patience) = 0;
  virtual void do_receive(element e, std::byte* data, std::size_t n, int from, int patience) = 0;
  /// Calls f, which waits for the ranks of `operation` in another way than the engine's. If it fails or hangs, the
  /// engine ends the other ranks as for an operation of its own.
  virtual void do_watch(collective operation, const std::function<void()>& f) = 0;

  /// f(the group of devices), which is formed before its first exchange.
  void on_devices(collective operation, std::size_t bytes, const std::function<void(device_group&)>& f) {
    if (!devices_) {
      const traffic before = counters_;  // of what is asked for
      devices_ = connect_(*this);
      counters_ = before;
    }
    count(operation, bytes, [&] { do_watch(operation, [&] { f(*devices_); }); });
  }
  std::size_t others() const { return static_cast<std::size_t>(size() - 1); }
  std::size_t self() const { return static_cast<std::size_t>(rank()); }
  /// Counts a call unless it throws.
  template <class Call>
  void count(collective operation, std::size_t bytes, Call call) {
    const auto begin = std::chrono::steady_clock::now();
    call();
    const auto end = std::chrono::steady_clock::now();
    const std::chrono::duration<double> taken = end - begin;
    if (timeline::on()) timeline::record(name_of(operation), begin, end, "bytes", static_cast<std::int64_t>(bytes));
    counters_.lines[static_cast<std::size_t>(operation)] += {1, bytes, taken.count()};
  }

  traffic counters_;
  std::function<std::unique_ptr<device_group>(any_communicator&)> connect_;
  std::unique_ptr<device_group> devices_;
};

static_assert(communicator<any_communicator>);

/// Wraps the engine C as an any_communicator. C is an engine of this library or a reference to one.
template <class C>
  requires communicator<std::remove_reference_t<C>>
class any_communicator_of final : public any_communicator {
  using engine_type = std::remove_reference_t<C>;

 public:
  /// Owns or references the engine `inside`.
  explicit any_communicator_of(C inside) : inside_(std::forward<C>(inside)) {}
  /// For an engine that cannot be moved; make() returns it.
  template <class Make>
  any_communicator_of(std::in_place_t, Make&& make) : inside_(std::forward<Make>(make)()) {}

  int rank() const override { return inside_.rank(); }
  int size() const override { return inside_.size(); }
  const char* engine() const override { return engine_type::engine_name; }
  /// Forwards to the engine's abort().
  [[noreturn]] void abort(const std::string& why) override { inside_.abort(why); }
  std::string failure() const override {
    if constexpr (requires { inside_.failure(); }) return inside_.failure();
    return {};
  }

 private:
  std::unique_ptr<any_communicator> do_split(int color, int key) override {
    return std::make_unique<any_communicator_of<engine_type>>(std::in_place, [&] { return inside_.split(color, key); });
  }
  void do_barrier() override { inside_.barrier(); }
  void do_broadcast(element e, std::byte* data, std::size_t n, int root) override {
    inside_.broadcast_bytes(e, data, n, root);
  }
  void do_all_gather(element e, const std::byte* in, std::byte* out, std::size_t n) override {
    inside_.all_gather_bytes(e, in, out, n);
  }
  void do_all_gather_v(element e, const std::byte* in, std::byte* out, std::span<const std::size_t> counts) override {
    inside_.all_gather_v_bytes(e, in, out, counts);
  }
  void do_all_to_all(element e, const std::byte* in, std::byte* out, std::size_t n) override {
    inside_.all_to_all_bytes(e, in, out, n);
  }
  void do_all_to_all_v(element e, const std::byte* in, std::span<const std::size_t> in_counts, std::byte* out,
                       std::span<const std::size_t> out_counts) override {
    inside_.all_to_all_v_bytes(e, in, in_counts, out, out_counts);
  }
  void do_shift(element e, const std::byte* in, std::byte* out, std::size_t n, int distance) override {
    inside_.shift_bytes(e, in, out, n, distance);
  }
  void do_send(element e, const std::byte* data, std::size_t n, int to, std::size_t most, int patience) override {
    inside_.send_bytes(e, data, n, to, most, patience);
  }
  void do_receive(element e, std::byte* data, std::size_t n, int from, int patience) override {
    inside_.receive_bytes(e, data, n, from, patience);
  }

  void do_watch(collective operation, const std::function<void()>& f) override {
    if constexpr (requires { inside_.watch(operation, f); })
      inside_.watch(operation, f);
    else
      f();
  }

  C inside_;
};

}  // namespace parallel
RLCORE_END
