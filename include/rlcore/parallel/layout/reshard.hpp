// Gathers pieces of parameters, or moves them to another layout.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/device/operations.hpp"
#include "rlcore/parallel/communicator/any.hpp"
#include "rlcore/parallel/communicator/communicator.hpp"
#include "rlcore/parallel/device_memory.hpp"
#include "rlcore/parallel/layout/held_pieces.hpp"
#include "rlcore/tensor/buffer.hpp"

RLCORE_BEGIN
namespace parallel {

/// All-gathers bytes, one entry per rank.
template <communicator C>
std::vector<std::string> gather_texts(C& c, const std::string& mine) {
  const auto ranks = static_cast<std::size_t>(c.size());
  std::vector<std::size_t> sizes(ranks);
  const std::size_t size = mine.size();
  c.all_gather(std::span<const std::size_t>(&size, 1), std::span<std::size_t>(sizes));
  std::string gathered(std::accumulate(sizes.begin(), sizes.end(), std::size_t{0}), '\0');
  c.all_gather_v(std::span<const char>(mine), std::span<char>(gathered), std::span<const std::size_t>(sizes));
  std::vector<std::string> texts;
  for (std::size_t r = 0, at = 0; r < ranks; at += sizes[r++]) texts.push_back(gathered.substr(at, sizes[r]));
  return texts;
}

/// All-gathers the piece lists, one entry per rank.
template <communicator C>
piece_layout gather_pieces(C& c, std::span<const shard_piece> mine) {
  std::string text;
  const auto number = [&](std::uint64_t n) {
    for (int i = 0; i < 8; ++i) text += static_cast<char>(n >> (8 * i) & 0xff);
  };
  for (const shard_piece& p : mine) {
    number(p.tensor.size());
    text += p.tensor;
    number(p.shape.size());
    for (const auto* list : {&p.shape, &p.start, &p.extent})
      for (const std::int64_t n : *list) number(static_cast<std::uint64_t>(n));
    number(p.first);
    number(p.last);
  }
  piece_layout layout;
  for (const std::string& theirs : gather_texts(c, text)) {
    layout.emplace_back();
    std::size_t at = 0;
    const auto next = [&] {
      std::uint64_t n = 0;
      for (std::size_t i = 0; i < 8; ++i) n |= std::uint64_t{static_cast<unsigned char>(theirs[at++])} << (8 * i);
      return n;
    };
    while (at < theirs.size()) {
      shard_piece p;
      const std::size_t length = next();
      p.tensor = theirs.substr(at, length);
      at += length;
      p.shape.resize(next());
      p.start.resize(p.shape.size());
      p.extent.resize(p.shape.size());
      for (auto* list : {&p.shape, &p.start, &p.extent})
        for (std::int64_t& n : *list) n = static_cast<std::int64_t>(next());
      p.first = next();
      p.last = next();
      layout.back().push_back(std::move(p));
    }
  }
  return layout;
}

/// The transfers of one rank that fill the pieces `to` from the pieces `from`. A rank receives only elements that it
/// does not hold, each once. If several ranks hold a piece, owners read it from different holders. From fully sharded
/// training over P ranks to tensor parallel rollout over r ranks, M parameters cost 2 M / r bytes per rank in bf16, and
/// no rank holds the whole model.
class reshard_plan {
 public:
  /// The layouts of all ranks, the same in every rank. Throws std::invalid_argument if their numbers of ranks differ or
  /// `from` lacks an element of `to`.
  reshard_plan(const piece_layout& from, const piece_layout& to, std::size_t rank)
      : sent_(from.size()), received_(from.size()) {
    if (from.size() != to.size() || rank >= from.size())
      throw std::invalid_argument("rlcore: reshard: rank " + std::to_string(rank) + " of " +
                                  std::to_string(from.size()) + " that hold and " + std::to_string(to.size()) +
                                  " that receive");
    from_ = from[rank];
    to_ = to[rank];
    const auto held = held_pieces(from);
    for (std::size_t owner = 0; owner < to.size(); ++owner)
      for (std::size_t i = 0; i < to[owner].size(); ++i) {
        const shard_piece& wanted = to[owner][i];
        check_piece(wanted);
        if (wanted.size() == 0) continue;
        const auto at = held.find(wanted.tensor);
        std::size_t found = 0;
        if (at != held.end()) found = plan(at->second, wanted, owner, i, rank);
        if (owner == rank && found != wanted.size())
          throw std::invalid_argument("rlcore: reshard: " + std::to_string(wanted.size() - found) + " elements of " +
                                      text_of(wanted) + " are on no rank");
      }
  }

  /// The numbers of elements received from and sent to other ranks.
  std::size_t received() const noexcept { return total(received_); }
  std::size_t sent() const noexcept { return total(sent_); }

  /// Moves all elements, in rounds of at most `bucket` elements in and `bucket` elements out. A collective call.
  /// read(piece, first, span<Wire>) reads elements of this rank's piece number `piece` of `from`, write(piece, first,
  /// span<const Wire>) stores those of `to`. Throws communication_error naming the rank on a checksum mismatch.
  template <wire Wire, communicator C, class Read, class Write>
  void run(C& c, std::size_t bucket, Read&& read, Write&& write) const {
    check_ranks(c.size());
    const auto ranks = static_cast<std::size_t>(c.size());
    std::vector<Wire> scratch(std::min(std::max<std::size_t>(bucket, 1), std::size_t{1} << 16));
    for (const link& l : local_) copy_local<Wire>(l, std::span(scratch), read, write);

    const auto [longest, quota] = agree(c, bucket);
    if (longest == 0) return;
    direction out(sent_, true), in(received_, false);
    std::vector<Wire> sent, came;
    std::vector<std::uint64_t> sums(ranks), known(ranks), told(ranks);
    for (std::size_t done = 0; done < longest; done += quota) {
      sent.resize(out.open(done, quota)), came.resize(in.open(done, quota));
      out.for_each_part([&](const auto& part, std::size_t r, std::size_t at) {
        const std::span<Wire> values(sent.data() + at, part.count);
        read(part.piece, part.first, values);
        add(sums[r], std::as_bytes(values));
      });
      c.all_to_all_v(std::span<const Wire>(sent), std::span<const std::size_t>(out.counts), std::span<Wire>(came),
                     std::span<const std::size_t>(in.counts));
      in.for_each_part([&](const auto& part, std::size_t r, std::size_t at) {
        const std::span<const Wire> values(came.data() + at, part.count);
        write(part.piece, part.first, values);
        add(known[r], std::as_bytes(values));
      });
    }
    c.all_to_all(std::span<const std::uint64_t>(sums), std::span<std::uint64_t>(told));
    for (std::size_t r = 0; r < ranks; ++r)
      if (told[r] != known[r])
        throw communication_error("rlcore: reshard: rank " + std::to_string(c.rank()) +
                                  " received other bytes than rank " + std::to_string(r) + " sent");
  }

  /// The same between memories of linked devices, without a checksum. source(piece, first) is where this rank's piece
  /// of `from` has its elements from `first` on, target(piece, first) that of `to`.
  template <class Device, class Source, class Target>
  void run_on_devices(Device& device, any_communicator& c, std::size_t bucket, Source&& source, Target&& target) const {
    check_ranks(c.size());
    for (const link& l : local_) {
      piece_overlap common(l.held, l.wanted);
      for (auto part = common.next(l.wanted.size()); part.count != 0; part = common.next(l.wanted.size()))
        copy_values(device, target(l.to, part.b), source(l.from, l.offset + part.a), part.count);
    }
    const auto [longest, quota] = agree(c, bucket);
    direction out(sent_, true), in(received_, false);
    for (std::size_t done = 0; done < longest; done += quota) {
      buffer<float, Device> sent(device, out.open(done, quota)), came(device, in.open(done, quota));
      out.for_each_part([&](const auto& part, std::size_t, std::size_t at) {
        copy_values(device, sent.data() + at, source(part.piece, part.first), part.count);
      });
      c.device_all_to_all(std::as_const(sent).data(), bytes_of<float>(out.counts), came.data(),
                          bytes_of<float>(in.counts));
      in.for_each_part([&](const auto& part, std::size_t, std::size_t at) {
        copy_values(device, target(part.piece, part.first), came.data() + at, part.count);
      });
    }
  }

  /// The same between memory: in[i] holds piece i of `from`, out[i] receives piece i of `to`; they must not overlap.
  template <communicator C, wire T>
  void run(C& c, std::span<const std::span<const T>> in, std::span<const std::span<T>> out,
           std::size_t bucket = std::size_t{1} << 24) const {
    check_memory("in", in, from_);
    check_memory("out", out, to_);
    run<T>(
        c, bucket,
        [&](std::size_t piece, std::size_t first, std::span<T> values) {
          std::copy_n(in[piece].begin() + static_cast<std::ptrdiff_t>(first), values.size(), values.begin());
        },
        [&](std::size_t piece, std::size_t first, std::span<const T> values) {
          std::copy(values.begin(), values.end(), out[piece].begin() + static_cast<std::ptrdiff_t>(first));
        });
  }

 private:
  /// The common elements of a held and a wanted piece; `offset` is the start of the held one in the holder's piece.
  struct link {
    shard_piece held, wanted;
    std::size_t from = 0, offset = 0, to = 0;
  };
  struct stream {
    std::vector<link> links;
    std::size_t size = 0;
  };
  /// Iterates over the elements of a stream in order, in batches. Sender and receiver iterate over the same stream.
  class cursor {
   public:
    struct part {
      std::size_t piece = 0, first = 0, count = 0;
    };
    cursor(const stream& s, bool sends) : stream_(&s), sends_(sends) {}
    part next(std::size_t limit) {
      for (;; ++link_, open_.clear()) {
        const link& l = stream_->links[link_];
        if (open_.empty()) open_.emplace_back(l.held, l.wanted);
        const auto found = open_.front().next(limit);
        if (found.count == 0) continue;
        return sends_ ? part{l.from, l.offset + found.a, found.count} : part{l.to, found.b, found.count};
      }
    }

   private:
    const stream* stream_;
    bool sends_;
    std::size_t link_ = 0;
    std::vector<piece_overlap> open_;
  };

  /// What is sent or received in one round, by the peer rank.
  struct direction {
    const std::vector<stream>& streams;
    std::vector<cursor> cursors;
    std::vector<std::size_t> counts;

    direction(const std::vector<stream>& of, bool sends) : streams(of), counts(of.size()) {
      for (const stream& s : of) cursors.emplace_back(s, sends);
    }
    /// Takes the next `quota` elements of every stream, after the first `done`; returns how many there are.
    std::size_t open(std::size_t done, std::size_t quota) {
      for (std::size_t r = 0; r < streams.size(); ++r)
        counts[r] = std::min(quota, streams[r].size - std::min(streams[r].size, done));
      return std::accumulate(counts.begin(), counts.end(), std::size_t{0});
    }
    /// Calls visit(part, peer, its place among the elements of the round) for each piece.
    template <class Visit>
    void for_each_part(Visit&& visit) {
      std::size_t at = 0;
      for (std::size_t r = 0; r < cursors.size(); ++r)
        for (std::size_t left = counts[r]; left > 0;) {
          const auto part = cursors[r].next(left);
          visit(part, r, at);
          at += part.count;
          left -= part.count;
        }
    }
  };
  struct agreement {
    std::uint64_t longest = 0;  ///< elements of the longest stream in any rank
    std::size_t quota = 0;      ///< elements per pair of ranks and round
  };

  void check_ranks(int size) const {
    if (static_cast<std::size_t>(size) != sent_.size())
      throw std::invalid_argument("rlcore: reshard: planned for " + std::to_string(sent_.size()) + " ranks, run on " +
                                  std::to_string(size));
  }
  /// Every pair of ranks has the same quota, so that both ends agree without exchanging lists.
  template <class C>
  agreement agree(C& c, std::size_t bucket) const {
    struct extent {
      std::uint64_t longest = 0, peers = 0;
    };
    extent mine;
    for (const auto* streams : {&sent_, &received_}) {
      std::uint64_t peers = 0;
      for (const stream& s : *streams) {
        mine.longest = std::max<std::uint64_t>(mine.longest, s.size);
        peers += s.size != 0 ? 1 : 0;
      }
      mine.peers = std::max(mine.peers, peers);
    }
    std::vector<extent> extents(sent_.size());
    c.all_gather(std::span<const extent>(&mine, 1), std::span<extent>(extents));
    for (const extent& e : extents) {
      mine.longest = std::max(mine.longest, e.longest);
      mine.peers = std::max(mine.peers, e.peers);
    }
    return {mine.longest, std::max<std::size_t>(bucket / std::max<std::size_t>(mine.peers, 1), 1)};
  }

  static std::size_t total(const std::vector<stream>& streams) noexcept {
    std::size_t n = 0;
    for (const stream& s : streams) n += s.size;
    return n;
  }
  /// Plans the transfers of one wanted piece. Returns how many of its elements were found, if this rank takes part.
  std::size_t plan(const std::vector<held_piece>& held, const shard_piece& wanted, std::size_t owner,
                   std::size_t number, std::size_t rank) {
    const piece_positions positions(wanted);
    const std::uint64_t begin = positions.at(wanted.first).global, end = positions.at(wanted.last - 1).global + 1;
    std::size_t found = 0;
    // held is sorted by `begin`, but not by `end`: the search is linear in the pieces of one tensor.
    for (const held_piece& h : held) {
      if (h.begin >= end) break;
      if (h.end <= begin) continue;
      const held_piece::holder* who = &h.holders[owner % h.holders.size()];
      for (const held_piece::holder& each : h.holders)
        if (each.rank == owner) who = &each;
      if (owner != rank && who->rank != rank) continue;
      std::size_t common = 0;
      for_each_overlap(h.piece, wanted, [&](std::size_t, std::size_t, std::size_t n) { common += n; });
      if (common == 0) continue;
      found += common;
      link l{h.piece, wanted, who->piece, who->offset, number};
      if (who->rank == owner) {
        local_.push_back(std::move(l));
        continue;
      }
      stream& s = owner == rank ? received_[who->rank] : sent_[owner];
      s.links.push_back(std::move(l));
      s.size += common;
    }
    return found;
  }
  static void add(std::uint64_t& sum, std::span<const std::byte> bytes) noexcept {
    for (std::size_t i = 0; i < bytes.size(); i += sizeof(std::uint64_t)) {
      std::uint64_t word = 0;
      std::memcpy(&word, bytes.data() + i, std::min(sizeof word, bytes.size() - i));
      sum = (sum ^ word) * 0xd6e8feb86659fd93u;
      sum ^= sum >> 32;
    }
  }
  template <class Wire, class Read, class Write>
  static void copy_local(const link& l, std::span<Wire> scratch, Read& read, Write& write) {
    piece_overlap common(l.held, l.wanted);
    for (auto part = common.next(scratch.size()); part.count != 0; part = common.next(scratch.size())) {
      const auto values = scratch.first(part.count);
      read(l.from, l.offset + part.a, values);
      write(l.to, part.b, std::span<const Wire>(values));
    }
  }
  template <class Spans>
  static void check_memory(const char* name, const Spans& memory, const std::vector<shard_piece>& pieces) {
    if (memory.size() != pieces.size())
      throw std::invalid_argument(std::string("rlcore: reshard: ") + name + " has " + std::to_string(memory.size()) +
                                  " arrays, expected " + std::to_string(pieces.size()));
    for (std::size_t i = 0; i < pieces.size(); ++i)
      if (memory[i].size() != pieces[i].size())
        throw std::invalid_argument(std::string("rlcore: reshard: ") + name + " has " +
                                    std::to_string(memory[i].size()) + " elements for " + text_of(pieces[i]));
  }

  std::vector<shard_piece> from_, to_;
  std::vector<link> local_;
  std::vector<stream> sent_, received_;  // by peer rank
};

}  // namespace parallel
RLCORE_END
