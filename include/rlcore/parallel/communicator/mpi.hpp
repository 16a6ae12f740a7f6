// MPI communicator: ranks as processes of an MPI job. With mpi_sends.hpp the only header that includes mpi.h; an
// adapter that nothing in the library requires.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/parallel/communicator/communicator.hpp"
#include "rlcore/parallel/communicator/flight_recorder.hpp"
#include "rlcore/parallel/communicator/mpi_sends.hpp"

RLCORE_BEGIN
namespace parallel {

/// The state that all groups of an MPI process share.
struct mpi_process {
  flight_recorder recorder;
  host_board board;
  std::size_t message_bytes = std::size_t{1} << 30;  ///< longer messages are sent in pieces of this size
  bool compare = false;                              ///< check that all ranks of the group enter the same collective
  std::uint64_t messages = 0;                        ///< of the recorder's calls those that are no collectives
};

/// One rank of a group; owns a duplicate of an MPI communicator. One thread makes blocking MPI calls (funneled) on
/// bytes, without MPI reductions. Counts may exceed the 31 bits of MPI 3. MPI errors become communication_error; the
/// watchdog detects hangs.
class mpi_rank : public typed_collectives<mpi_rank> {
 public:
  static constexpr const char* engine_name = "mpi";

  /// Duplicates the communicator `of`; a collective call of all its ranks. Throws communication_error.
  mpi_rank(mpi_process& process, MPI_Comm of) : process_(&process) {
    check(MPI_Comm_dup(of, &comm_), "MPI_Comm_dup");
    find_place();
  }
  mpi_rank(mpi_rank&& other) noexcept
      : process_(other.process_),
        comm_(std::exchange(other.comm_, MPI_COMM_NULL)),
        rank_(other.rank_),
        size_(other.size_),
        sequence_(other.sequence_),
        broken_(std::move(other.broken_)),
        sends_(std::move(other.sends_)) {}
  mpi_rank& operator=(mpi_rank&&) = delete;
  /// After a failure the communicator stays until the end of the process, since freeing it could wait for other ranks.
  ~mpi_rank() {
    end_sends();
    if (comm_ != MPI_COMM_NULL && broken_.empty() && std::uncaught_exceptions() == 0 &&
        process_->board.self().state != host_board::failing)
      MPI_Comm_free(&comm_);
  }

  int rank() const noexcept { return rank_; }
  int size() const noexcept { return size_; }
  MPI_Comm get() const noexcept { return comm_; }

  void barrier() {
    run({}, {}, [&] { check(MPI_Barrier(comm_), "MPI_Barrier"); });
  }
  /// The final collective. A rank that enters it while other ranks are in another collective has returned too early.
  void end() {
    run({collective::end, {}, 0, 0}, {}, [&] { check(MPI_Barrier(comm_), "MPI_Barrier"); });
  }
  /// As communicator's broadcast; sends long data in pieces.
  void broadcast_bytes(element e, std::byte* data, std::size_t count, int root) {
    run({collective::broadcast, e, count, root}, {}, [&] { broadcast_now(data, count * e.bytes, root); });
  }
  /// As communicator's all_gather, in place in `out`.
  void all_gather_bytes(element e, const std::byte* in, std::byte* out, std::size_t count) {
    const std::size_t n = count * e.bytes;
    run({collective::all_gather, e, count, 0}, {}, [&] {
      std::byte* const slot = out + static_cast<std::size_t>(rank_) * n;
      if (n != 0 && in != slot) std::memcpy(slot, in, n);
      in_pieces(n, [&](std::size_t at, int length, MPI_Datatype row) {
        check(MPI_Allgather(MPI_IN_PLACE, 0, MPI_BYTE, out + at, length, row, comm_), "MPI_Allgather");
      });
    });
  }
  /// As communicator's all_gather_v. Above message_bytes it is a broadcast of every rank's part.
  void all_gather_v_bytes(element e, const std::byte* in, std::byte* out, std::span<const std::size_t> counts) {
    const std::size_t total = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
    run({collective::all_gather_v, e, total, 0}, counts, [&] {
      const auto self = static_cast<std::size_t>(rank_);
      std::vector<std::size_t> at(counts.size() + 1, 0);
      for (std::size_t r = 0; r < counts.size(); ++r) at[r + 1] = at[r] + counts[r] * e.bytes;
      if (at[self + 1] != at[self] && in != out + at[self]) std::memcpy(out + at[self], in, at[self + 1] - at[self]);
      if (at.back() > process_->message_bytes) {
        for (int r = 0; r < size_; ++r) {
          const auto part = static_cast<std::size_t>(r);
          broadcast_now(out + at[part], at[part + 1] - at[part], r);
        }
        return;
      }
      std::vector<int> lengths, begins;
      for (std::size_t r = 0; r < counts.size(); ++r) {
        begins.push_back(static_cast<int>(at[r]));
        lengths.push_back(static_cast<int>(at[r + 1] - at[r]));
      }
      check(MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_BYTE, out, lengths.data(), begins.data(), MPI_BYTE, comm_),
            "MPI_Allgatherv");
    });
  }
  /// As communicator's all_to_all; sends long rows in pieces.
  void all_to_all_bytes(element e, const std::byte* in, std::byte* out, std::size_t count) {
    run({collective::all_to_all, e, count, 0}, {}, [&] {
      in_pieces(count * e.bytes, [&](std::size_t at, int length, MPI_Datatype row) {
        check(MPI_Alltoall(in + at, length, row, out + at, length, row, comm_), "MPI_Alltoall");
      });
    });
  }
  /// Exchanges between pairs of ranks in sequence, since only the two ends know whether a message is too long for one
  /// call.
  void all_to_all_v_bytes(element e, const std::byte* in, std::span<const std::size_t> in_counts, std::byte* out,
                          std::span<const std::size_t> out_counts) {
    run({collective::all_to_all_v, e, 0, 0}, {}, [&] {
      if (process_->compare) compare_lists(in_counts, out_counts);
      std::vector<std::size_t> from(in_counts.size() + 1, 0), to(out_counts.size() + 1, 0);
      for (std::size_t r = 0; r < in_counts.size(); ++r) {
        from[r + 1] = from[r] + in_counts[r] * e.bytes;
        to[r + 1] = to[r] + out_counts[r] * e.bytes;
      }
      for (int k = 0; k < size_; ++k) {
        const auto target = static_cast<std::size_t>(rank_after(rank_, k, size_)),
                   source = static_cast<std::size_t>(rank_after(rank_, -k, size_));
        exchange(in + from[target], from[target + 1] - from[target], static_cast<int>(target), out + to[source],
                 to[source + 1] - to[source], static_cast<int>(source));
      }
    });
  }
  /// As communicator's shift, by a simultaneous send and receive.
  void shift_bytes(element e, const std::byte* in, std::byte* out, std::size_t count, int distance) {
    run({collective::shift, e, count, distance}, {}, [&] {
      const int k = distance % size_;
      exchange(in, count * e.bytes, rank_after(rank_, k, size_), out, count * e.bytes, rank_after(rank_, -k, size_));
    });
  }

  /// As communicator's send: from a copy, which is kept until MPI has sent it.
  void send_bytes(element e, const std::byte* data, std::size_t count, int to, std::size_t most, int patience) {
    const auto move = [&] { sends_.send(comm_, data, count * e.bytes, to, process_->message_bytes, most); };
    run({collective::send, e, count, to}, {}, move, patience);
  }
  /// As communicator's receive.
  void receive_bytes(element e, std::byte* data, std::size_t count, int from, int patience) {
    const auto move = [&] { sends_.receive(comm_, data, count * e.bytes, from, process_->message_bytes); };
    run({collective::receive, e, count, from}, {}, move, patience);
  }

  /// As communicator's split; a color may be negative.
  mpi_rank split(int color, int key) {
    MPI_Comm made = MPI_COMM_NULL;
    // MPI colors are nonnegative; a second split separates colors that differ only in their sign.
    run({collective::split, {}, 0, 0}, {}, [&] {
      MPI_Comm half = MPI_COMM_NULL;
      check(MPI_Comm_split(comm_, color < 0 ? 1 : 0, key, &half), "MPI_Comm_split");
      check(MPI_Comm_split(half, color < 0 ? ~color : color, key, &made), "MPI_Comm_split");
      MPI_Comm_free(&half);
    });
    return mpi_rank(made, *process_);
  }

  /// Calls f, which waits for the ranks in another way: recorded, compared and ended by the watchdog like a collective.
  template <class F>
  void watch(collective operation, F&& f) {
    run({operation, {}, 0, 0}, {}, f);
  }
  /// Throws communication_error; every later collective of this rank in the group throws it too.
  [[noreturn]] void abort(const std::string& why) {
    broken_ = "rank " + std::to_string(process_->board.self().rank) + " aborted: " + why;
    throw communication_error("rlcore: " + broken_);
  }

 private:
  /// The call signature that ranks compare.
  struct fingerprint {
    std::uint64_t sequence = 0, count = 0, element_bytes = 0, lists = 0;
    std::int32_t root = 0, rank = 0;
    std::uint8_t operation = 0;
    char kind = 0;
    std::uint8_t unused[6] = {};
  };
  static_assert(sizeof(fingerprint) == 48);

  /// Takes ownership of the communicator.
  mpi_rank(MPI_Comm made, mpi_process& process) : process_(&process), comm_(made) { find_place(); }
  void find_place() {
    MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
    MPI_Comm_rank(comm_, &rank_);
    MPI_Comm_size(comm_, &size_);
  }

  /// Messages use the rank in the job.
  std::string name() const { return "rank " + std::to_string(process_->board.self().rank); }

  /// Waits for all sends, watched by the watchdog. After a failure MPI keeps them, and their memory.
  void end_sends() noexcept {
    if (sends_.empty()) return;
    if (!broken_.empty() || std::uncaught_exceptions() != 0 || process_->board.self().state == host_board::failing)
      return sends_.abandon();
    ++process_->messages;
    process_->recorder.begin({collective::send, {}, 0, 0}, size_);
    sends_.wait_for_all();
    process_->recorder.end();
  }

  template <class Move>
  void run(const collective_call& call, std::span<const std::size_t> lists, Move move, int patience = 1) {
    const bool message = is_message(call.operation);
    if (!message) ++sequence_;
    process_->board.self().operation = static_cast<int>(call.operation);
    process_->messages += message ? 1 : 0;
    process_->board.self().collectives = process_->recorder.begin(call, size_, patience) - process_->messages;
    try {
      if (!broken_.empty()) throw communication_error(broken_);
      if (process_->compare && !message) compare(call, lists);
      move();
    } catch (const communication_error& e) {
      process_->recorder.end();
      if (broken_.empty()) broken_ = e.what();
      throw communication_error("rlcore: " + std::string(name_of(call.operation)) + " of " + name() +
                                " cannot end: " + broken_);
    }
    process_->recorder.end();
  }
  static void check(int status, const char* call) { detail::check_mpi(status, call); }

  void compare(const collective_call& call, std::span<const std::size_t> lists) {
    fingerprint mine;
    mine.sequence = sequence_;
    mine.count = call.count;
    mine.element_bytes = call.of.bytes;
    for (const std::size_t n : lists) mine.lists = (mine.lists ^ n) * 0x9E3779B97F4A7C15ULL + 1;
    mine.root = call.root;
    mine.rank = process_->board.self().rank;
    mine.operation = static_cast<std::uint8_t>(call.operation);
    mine.kind = call.of.kind;
    std::vector<fingerprint> gathered(static_cast<std::size_t>(size_));
    check(MPI_Allgather(&mine, sizeof(mine), MPI_BYTE, gathered.data(), sizeof(mine), MPI_BYTE, comm_),
          "MPI_Allgather");
    const auto text = [&](const fingerprint& f) {
      return "rank " + std::to_string(f.rank) + " in collective " + std::to_string(f.sequence) + ", " +
             collective_call{static_cast<collective>(f.operation), {f.element_bytes, f.kind}, f.count, f.root}.text();
    };
    for (const fingerprint& f : gathered) {
      fingerprint as_first = f;
      as_first.rank = gathered[0].rank;
      if (std::memcmp(&as_first, &gathered[0], sizeof(f)) == 0) continue;
      std::string group;
      if (size_ != world_size())
        for (const fingerprint& member : gathered)
          group += (group.empty() ? " of the group of ranks " : " ") + std::to_string(member.rank);
      throw communication_error("ranks disagree: " + text(gathered[0]) + ", but " + text(f) +
                                (f.lists != gathered[0].lists ? ", with another list of counts" : "") + group);
    }
  }
  static int world_size() {
    int n = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &n);
    return n;
  }
  void compare_lists(std::span<const std::size_t> sent, std::span<const std::size_t> expected) {
    std::vector<std::uint64_t> mine(sent.begin(), sent.end()), theirs(mine.size());
    check(MPI_Alltoall(mine.data(), 8, MPI_BYTE, theirs.data(), 8, MPI_BYTE, comm_), "MPI_Alltoall");
    for (std::size_t r = 0; r < theirs.size(); ++r)
      if (theirs[r] != expected[r])
        throw communication_error("rank " + std::to_string(r) + " of the group sends " + std::to_string(theirs[r]) +
                                  " elements, rank " + std::to_string(rank_) + " expects " +
                                  std::to_string(expected[r]));
  }

  void broadcast_now(std::byte* data, std::size_t bytes, int root) {
    for (std::size_t at = 0; at < bytes; at += process_->message_bytes)
      check(
          MPI_Bcast(data + at, static_cast<int>(std::min(bytes - at, process_->message_bytes)), MPI_BYTE, root, comm_),
          "MPI_Bcast");
  }
  /// Calls move(begin, length, type) for the pieces of rows of n bytes, one row per rank: a piece is `length` elements
  /// of `type`, with a stride of n bytes between rows.
  template <class Move>
  void in_pieces(std::size_t n, Move move) {
    if (n <= process_->message_bytes) {
      if (n != 0) move(std::size_t{0}, static_cast<int>(n), MPI_BYTE);
      return;
    }
    for (std::size_t at = 0; at < n; at += process_->message_bytes) {
      const int length = static_cast<int>(std::min(n - at, process_->message_bytes));
      MPI_Datatype piece = MPI_DATATYPE_NULL, row = MPI_DATATYPE_NULL;
      check(MPI_Type_contiguous(length, MPI_BYTE, &piece), "MPI_Type_contiguous");
      check(MPI_Type_create_resized(piece, 0, static_cast<MPI_Aint>(n), &row), "MPI_Type_create_resized");
      check(MPI_Type_commit(&row), "MPI_Type_commit");
      move(at, 1, row);
      MPI_Type_free(&row);
      MPI_Type_free(&piece);
    }
  }
  /// Sends to one rank and receives from another simultaneously; the sizes may differ.
  void exchange(const std::byte* in, std::size_t in_bytes, int target, std::byte* out, std::size_t out_bytes,
                int source) {
    if (target == rank_) {
      if (in_bytes != out_bytes) throw communication_error("a rank sends itself what it does not expect");
      if (in_bytes != 0 && in != out) std::memcpy(out, in, in_bytes);
      return;
    }
    constexpr int tag = 1;
    const std::size_t limit = process_->message_bytes;
    for (std::size_t at = 0; at < std::max(in_bytes, out_bytes); at += limit) {
      MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
      if (at < out_bytes)
        check(MPI_Irecv(out + at, static_cast<int>(std::min(limit, out_bytes - at)), MPI_BYTE, source, tag, comm_,
                        &requests[0]),
              "MPI_Irecv");
      if (at < in_bytes)
        check(MPI_Isend(in + at, static_cast<int>(std::min(limit, in_bytes - at)), MPI_BYTE, target, tag, comm_,
                        &requests[1]),
              "MPI_Isend");
      check(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE), "MPI_Waitall");
    }
  }

  mpi_process* process_;
  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0, size_ = 1;
  std::uint64_t sequence_ = 0;
  std::string broken_;
  mpi_sends sends_;
};

static_assert(communicator<mpi_rank>);

}  // namespace parallel
RLCORE_END
