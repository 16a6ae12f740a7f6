// Gradient reduce-scatter: sums the gradients of leaves over ranks; each rank gets the sum of its shard.
#pragma once

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/parallel/device_memory.hpp"
#include "rlcore/parallel/layout/shard_layout.hpp"
#include "rlcore/parallel/reduction/piece_sum.hpp"
#include "rlcore/parallel/reduction/reduction.hpp"
#include "rlcore/parallel/world.hpp"
#include "rlcore/tensor/buffer.hpp"

RLCORE_BEGIN
namespace parallel {

/// One optimizer step: begin(); then take(), take_unit() for each unit, or skip() in every round of the schedule; then
/// finish(). With zero 0 and 1, where gradients are not sharded, a rank accumulates its own leaves and sends the sums
/// at the end: one vector if its leaves form one node of the tree, as they do for powers of two. With zero 2 and 3
/// every leaf is sharded immediately, and the owners of the pieces add. Then the sums of the groups are summed over
/// replicas (HSDP; in zero 0 these are all ranks) and gathered.
template <class Device>
class gradient_sums {
 public:
  /// Sums of vectors cut into units that end at `ends`, over all ranks of w.sums(); see shard_layout.
  gradient_sums(Device& device, world& w, std::vector<std::size_t> ends, std::span<const std::size_t> restarts = {})
      : gradient_sums(device, w, w.place_in_sums(), shard_layout(std::move(ends), w.place().shard_size, restarts)) {}
  /// The same over the ranks `among`; `layout` is the layout of among.shards.
  gradient_sums(Device& device, world& w, const sum_place& among, shard_layout layout)
      : device_(&device),
        world_(&w),
        among_(among),
        layout_(std::move(layout)),
        schedule_(w.place(), w.settings()),
        kind_(w.settings().reduction == reduction_kind::fast ? reduction_kind::ranked : w.settings().reduction),
        cut_(w.settings().zero >= 2 && layout_.ranks() > 1),
        tree_(schedule_.sums()),
        limit_(fixed_point::limit(schedule_.sums())) {
    if (layout_.ranks() > 1) pieces_.assign(layout_.units(), piece_sum(kind_, schedule_.sums()));
    replica_piece_ = piece_sum(kind_, schedule_.sums());
  }

  const shard_layout& layout() const noexcept { return layout_; }
  const leaf_schedule& schedule() const noexcept { return schedule_; }
  /// Is each leaf's gradient taken separately? Otherwise one gradient accumulates all leaves of this rank.
  bool by_leaf() const noexcept { return cut_ || kind_ != reduction_kind::ranked; }
  /// Are gradients reduce-scattered after each leaf?
  bool cut() const noexcept { return cut_; }
  std::size_t shard_rank() const { return static_cast<std::size_t>(among_.shards->rank()); }
  std::size_t shard_size() const { return layout_.shard_size(shard_rank()); }

  /// present[i]: does leaf i have rows?
  void begin(std::vector<bool> present) {
    present_ = std::move(present);
    for (auto& e : tree_.entries())
      if (e.value) idle_.push_back(std::move(*e.value));
    tree_.clear(), lent_ = nullptr;
    if (layout_.ranks() == 1 && sum_.size() == layout_.size()) idle_.push_back(std::move(sum_));
    fixed_any_ = false;
    for (std::size_t u = 0; u < pieces_.size(); ++u) pieces_[u].begin(layout_.part(u, shard_rank()).size());
  }

  /// Takes the gradient of this rank's leaf in a round, or of all its leaves if !by_leaf(). On return `gradient` is
  /// memory for the next one, or empty.
  void take(std::size_t round, buffer<float, Device>& gradient) {
    if (cut_) {
      for (std::size_t u = layout_.units(); u-- > 0;) {
        take_unit(round, u, gradient.data() + layout_.unit(u).first);
      }
    } else if (kind_ == reduction_kind::exact) {
      add_fixed(gradient.data());
    } else {
      const std::size_t at = by_leaf() ? number_of(among_.rank, 0, round) : 0;
      push(at, std::move(gradient));
      gradient = spare();
    }
  }
  /// Memory for the gradient of a leaf, or an empty buffer.
  buffer<float, Device> spare() {
    buffer<float, Device> memory;
    if (!idle_.empty()) memory = std::move(idle_.back()), idle_.pop_back();
    return memory;
  }
  /// Keeps memory for the gradient of a later leaf.
  void give_back(buffer<float, Device> memory) {
    if (memory.size() > 0) idle_.push_back(std::move(memory));
  }
  /// The whole gradient of this rank's leaf before, if the tree adds the leaf of this round to it next: then the caller
  /// may add it there and skip() the round. Null otherwise.
  float* left_of(std::size_t round) {
    const std::size_t at = number_of(among_.rank, 0, round);
    buffer<float, Device>* left = cut_ || !in_tree() || at == leaf_schedule::none ? nullptr : tree_.left_of(at);
    return left == nullptr ? nullptr : left->data();
  }
  /// Frees the memory of whole vectors; there is no sum until the next step.
  void release() {
    tree_.clear();
    idle_.clear();
    sum_ = {};
    fixed_ = {};
    lent_ = nullptr;
  }
  /// Contributes nothing in this round: the leaf has no rows or does not exist.
  void skip(std::size_t round) {
    if (cut_) {
      for (std::size_t u = layout_.units(); u-- > 0;) take_unit(round, u, nullptr);
    } else if (const std::size_t at = number_of(among_.rank, 0, round); at != leaf_schedule::none && by_leaf()) {
      push(at, std::nullopt);
    }
  }
  /// Replaces take() and skip() if the caller keeps the vectors. x[s] [layout().size()], device memory, is the gradient
  /// of source s of this rank; it is not read if the leaf has no rows.
  void copy(std::size_t round, std::span<const float* const> x) {
    for (std::size_t s = 0; s < x.size(); ++s) {
      const std::size_t at = number_of(among_.rank, s, round);
      const bool has_rows = at != leaf_schedule::none && schedule_.present(at, present_);
      if (cut_)
        for (std::size_t u = layout_.units(); u-- > 0;)
          take_unit(round, u, has_rows ? x[s] + layout_.unit(u).first : nullptr, s);
      else if (has_rows && !in_tree())
        add_up(x[s]);
      else if (at != leaf_schedule::none && in_tree())
        push(at, has_rows ? std::optional(copy_of(x[s])) : std::nullopt);
    }
  }
  /// The same for the sum of all leaves, if !by_leaf(). x is read until finish().
  void lend_sum(const float* x) { lent_ = x; }
  /// take() for one unit, in device memory; null for skip(). Only with cut().
  void take_unit(std::size_t round, std::size_t u, const float* x, std::size_t source = 0) {
    const std::size_t group = among_.rank / layout_.ranks() * layout_.ranks();
    const auto number = [&](std::size_t r) { return number_of(group + r, source, round); };
    const auto node = [&](std::size_t r) -> std::optional<reduction_node> {
      if (number(r) == leaf_schedule::none || !schedule_.present(number(r), present_)) return std::nullopt;
      return reduction_node{0, number(r)};
    };
    move(*among_.shards, x, layout_.counts(u), node, pieces_[u]);
    for (std::size_t r = 0; r < layout_.ranks(); ++r)
      if (number(r) != leaf_schedule::none && !node(r))
        pieces_[u].push({0, number(r)}, static_cast<const float*>(nullptr));
    pieces_[u].end_round();
  }

  /// This rank's shard of the sum, or the whole sum without shards, in device memory; valid until begin(), or where
  /// it is that of lend_sum() as long as that.
  const float* finish() {
    if (layout_.ranks() > 1 && !cut_) gather_nodes();
    if (layout_.ranks() == 1 && among_.replicas->size() == 1 && kind_ != reduction_kind::exact) {
      if (lent_) return lent_;
      if (!tree_.entries().empty() && tree_.entries()[0].value)
        sum_ = std::move(*tree_.entries()[0].value);
      else
        prepare_sum().fill_zero();
      tree_.clear();
      return sum_.data();
    }
    prepare_sum();
    for (std::size_t u = 0; u < layout_.units(); ++u) {
      finish_unit(u, sum_.data() + layout_.place(u, shard_rank()), layout_.part(u, shard_rank()).size());
    }
    return sum_.data();
  }

  /// Device and host memory allocated for sums.
  std::size_t bytes() const noexcept {
    std::size_t n = sum_.bytes() + (fixed_.capacity() * sizeof(fixed_point::value));
    for (const auto& b : idle_) n += b.bytes();
    for (const auto& e : tree_.entries())
      if (e.value) n += e.value->bytes();
    for (const piece_sum& p : pieces_) n += p.bytes();
    return n;
  }

 private:
  /// The tree index of the leaf of one source of a rank in a round, or none.
  std::size_t number_of(std::size_t rank, std::size_t source, std::size_t round) const {
    return schedule_.number(rank * among_.sources + source, round);
  }
  /// Do this rank's leaves have fixed positions in the tree?
  bool in_tree() const noexcept { return kind_ == reduction_kind::tree; }
  void add_up(const float* x) {
    if (kind_ == reduction_kind::exact) return add_fixed(x);
    if (tree_.entries().empty()) return push(0, copy_of(x));
    buffer<float, Device>& sum = *tree_.entries()[0].value;
    add_values(*device_, sum.data(), x, layout_.size());
    device_->wait();
  }
  void add_fixed(const float* gradient) {
    if (!std::exchange(fixed_any_, true)) fixed_.assign(layout_.size(), 0);
    fixed_point::add(fixed_.data(), host_view(*device_, gradient, layout_.size(), stage_), layout_.size(), limit_);
  }
  buffer<float, Device> copy_of(const float* x) {
    buffer<float, Device> copy;
    if (!idle_.empty()) copy = std::move(idle_.back()), idle_.pop_back();
    if (copy.size() != layout_.size()) copy = buffer<float, Device>(*device_, layout_.size());
    copy_values(*device_, copy.data(), x, layout_.size());
    device_->wait();
    return copy;
  }

  void push(std::size_t number, std::optional<buffer<float, Device>> value) {
    tree_.push_leaf(number, std::move(value), [this](buffer<float, Device>& left, buffer<float, Device>&& right) {
      add_values(*device_, left.data(), right.data(), left.size());
      device_->wait();
      idle_.push_back(std::move(right));
    });
  }
  buffer<float, Device>& prepare_sum() {
    if (sum_.size() != shard_size()) {
      if (!idle_.empty() && idle_.back().size() == shard_size())
        sum_ = std::move(idle_.back()), idle_.pop_back();
      else
        sum_ = buffer<float, Device>(*device_, shard_size());
    }
    return sum_;
  }

  struct host_floats {
    const float* values = nullptr;
  };
  /// Do the devices of `c` exchange gradients? Not those that are rounded on the way, or become integers.
  bool exchange_by_devices(const any_communicator& c) const {
    return c.size() > 1 && !world_->settings().bf16_wire && kind_ != reduction_kind::exact && linked(*device_, c);
  }
  /// Sends the parts of x, in device memory, to their owners, and adds what comes to `into`: node(r) is that of rank r,
  /// if it sends one. x is null if this rank sends none.
  template <class Node>
  void move(any_communicator& c, const float* x, std::span<const std::size_t> counts, Node&& node, piece_sum& into) {
    if (exchange_by_devices(c)) return add_on_device(c, x, counts, node, into);
    move_on_host(c, x ? host_view(*device_, x, total(counts), stage_) : nullptr, counts, node, into);
  }
  /// The same for values in host memory.
  template <class Node>
  void move(any_communicator& c, host_floats x, std::span<const std::size_t> counts, Node&& node, piece_sum& into) {
    if (!exchange_by_devices(c)) return move_on_host(c, x.values, counts, node, into);
    buffer<float, Device> sent(*device_, x.values ? total(counts) : 0);
    if (sent.size() > 0) sent.upload(std::span<const float>(x.values, sent.size()));
    add_on_device(c, x.values ? std::as_const(sent).data() : nullptr, counts, node, into);
  }
  template <class Node>
  void move_on_host(any_communicator& c, const float* x, std::span<const std::size_t> counts, Node&& node,
                    piece_sum& into) {
    const auto sends = [&](std::size_t r) { return node(r).has_value(); };
    const auto push = [&](std::size_t r, const float* piece) { into.push(*node(r), piece); };
    if (world_->settings().bf16_wire && c.size() > 1)
      exchange_halves(c, x, counts, scratch_, sends, push);
    else
      exchange(c, x, counts, scratch_, sends, push);
  }
  static std::size_t total(std::span<const std::size_t> counts) {
    return std::accumulate(counts.begin(), counts.end(), std::size_t{0});
  }
  /// The same for a sum in fixed point, in host memory.
  template <class Node>
  void move(any_communicator& c, const fixed_point::value* x, std::span<const std::size_t> counts, Node&& node,
            piece_sum& into) {
    exchange(
        c, x, counts, scratch_, [&](std::size_t r) { return node(r).has_value(); },
        [&](std::size_t r, const fixed_point::value* piece) { into.push(*node(r), piece); });
  }
  template <class Node>
  void add_on_device(any_communicator& c, const float* x, std::span<const std::size_t> counts, Node&& node,
                     piece_sum& into) {
    exchange_on_devices(*device_, c, x, counts, node, schedule_.sums(), in_tree(), stage_, into);
  }

  /// The nodes of the summing ranks [first, first + count).
  held_nodes nodes_of(std::size_t first, std::size_t count) const {
    return {schedule_, present_, kind_, first * among_.sources, count * among_.sources};
  }

  /// Sends the nodes of every rank of c, one at a time, to the owners of their parts. data(node) is this rank's data.
  template <class Data>
  void gather(any_communicator& c, const std::vector<held_nodes>& nodes, std::span<const std::size_t> counts,
              Data&& data, piece_sum& into) {
    std::size_t most = 0;
    for (const held_nodes& of : nodes) {
      most = std::max(most, of.sums.size());
      for (const reduction_node node : of.absent) into.push(node, static_cast<const float*>(nullptr));
    }
    const auto& mine = nodes[static_cast<std::size_t>(c.rank())].sums;
    for (std::size_t k = 0; k < most; ++k) {
      const auto node = [&](std::size_t r) {
        return k < nodes[r].sums.size() ? std::optional(nodes[r].sums[k]) : std::nullopt;
      };
      using pointer = decltype(data(reduction_node{}));
      move(c, k < mine.size() ? data(mine[k]) : pointer{nullptr}, counts, node, into);
      into.end_round();
    }
  }

  const float* local_node(reduction_node node, value_range r) {
    if (lent_) return lent_ + r.first;
    for (const auto& e : tree_.entries())
      if (e.node == node || kind_ == reduction_kind::ranked) return e.value->data() + r.first;
    return nullptr;
  }
  /// zero 1: sends the sums of this rank's leaves to the owners of shards.
  void gather_nodes() {
    std::vector<held_nodes> nodes;
    const std::size_t group = among_.rank / layout_.ranks() * layout_.ranks();
    for (std::size_t r = 0; r < layout_.ranks(); ++r) nodes.push_back(nodes_of(group + r, 1));
    for (std::size_t u = 0; u < layout_.units(); ++u) {
      const value_range r = layout_.unit(u);
      if (kind_ == reduction_kind::exact)
        gather(
            *among_.shards, nodes, layout_.counts(u),
            [&](reduction_node) -> const fixed_point::value* { return fixed_.data() + r.first; }, pieces_[u]);
      else
        gather(
            *among_.shards, nodes, layout_.counts(u), [&](reduction_node n) { return local_node(n, r); }, pieces_[u]);
    }
  }

  /// out [n] = this rank's piece of a unit, summed over replicas.
  void finish_unit(std::size_t u, float* out, std::size_t n) {
    any_communicator& c = *among_.replicas;
    if (c.size() == 1 && layout_.ranks() > 1) return write(pieces_[u], out, n);
    const auto ranks = static_cast<std::size_t>(c.size()), self = static_cast<std::size_t>(c.rank());
    std::vector<held_nodes> nodes;
    for (std::size_t r = 0; r < ranks; ++r) nodes.push_back(nodes_of(r * layout_.ranks(), layout_.ranks()));
    std::vector<std::size_t> counts;
    for (std::size_t r = 0; r < ranks; ++r) counts.push_back((r + 1) * n / ranks - r * n / ranks);
    replica_piece_.begin(counts[self]);
    const value_range r = layout_.unit(u);
    if (kind_ == reduction_kind::exact)
      gather(
          c, nodes, counts,
          [&](reduction_node) { return layout_.ranks() > 1 ? pieces_[u].fixed() : fixed_.data() + r.first; },
          replica_piece_);
    else if (layout_.ranks() > 1)
      gather(c, nodes, counts, [&](reduction_node k) { return host_floats{pieces_[u].find(k)}; }, replica_piece_);
    else
      gather(c, nodes, counts, [&](reduction_node k) { return local_node(k, r); }, replica_piece_);
    const std::size_t first = self * n / ranks;
    if (linked(*device_, c)) {
      write(replica_piece_, out + first, counts[self]);
      return gather_in_place(*device_, c, out, std::span<const std::size_t>(counts), out_);
    }
    with_host_view(*device_, out, n, out_, [&](std::span<float> values) {
      const std::span<float> mine = values.subspan(first, counts[self]);
      replica_piece_.write(mine);
      if (ranks > 1) c.all_gather_v(std::span<const float>(mine), values, std::span<const std::size_t>(counts));
    });
  }
  void write(const piece_sum& sum, float* out, std::size_t n) {
    with_host_view(*device_, out, n, out_, [&](std::span<float> values) { sum.write(values); });
  }

  Device* device_;
  world* world_;
  sum_place among_;
  shard_layout layout_;
  leaf_schedule schedule_;
  reduction_kind kind_;
  bool cut_;
  std::vector<bool> present_;
  reduction_tree<buffer<float, Device>> tree_;  // of this rank's leaves
  std::vector<buffer<float, Device>> idle_;
  const float* lent_ = nullptr;  // the sum of this rank's leaves, in memory of the caller
  double limit_;
  bool fixed_any_ = false;
  std::vector<fixed_point::value> fixed_;  // the same, exact
  std::vector<piece_sum> pieces_;          // per unit
  piece_sum replica_piece_;
  buffer<float, Device> sum_;
  exchange_scratch scratch_;
  std::vector<float> stage_, out_;
};

}  // namespace parallel
RLCORE_END

#if defined(RLCORE_MODELS)
#include "rlcore/device/any_device.hpp"
#include "rlcore/device/cpu.hpp"

RLCORE_BEGIN
namespace parallel {
extern template class gradient_sums<cpu>;
extern template class gradient_sums<any_device>;
}  // namespace parallel
RLCORE_END
#endif
