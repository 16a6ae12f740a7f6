// Weight synchronization: reshards weights from the training layout to the rollout layout, without a full copy on any
// rank.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <stdexcept>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "rlcore/nn/model/causal_lm.hpp"
#include "rlcore/nn/model/units.hpp"
#include "rlcore/parallel/communicator/any.hpp"
#include "rlcore/parallel/device_memory.hpp"
#include "rlcore/parallel/layout/reshard.hpp"
#include "rlcore/train/model/owned_runs.hpp"
#include "rlcore/train/model/trainable_model.hpp"

RLCORE_BEGIN
namespace train {

/// The weights this rank holds locally: its shard, or all of its parameters.
template <class Device>
std::vector<held_weights> weights_held(const trainable_model<Device>& t) {
  if (const sharded_weights<Device>* const shards = t.share().shards()) return shards->held();
  return held_whole(t.passing().parameters(), t.passing().weights().data());
}

/// Fills a model of any partition on every rank from a trained model of any partition, such as tensor parallel rollout
/// models from fully sharded training (verl's hybrid engine). Every rank receives missing weights directly from their
/// owners, in buckets: 2 M / r bytes in bf16 for M parameters and r tensor parallel ranks, where a broadcast takes 2 M.
/// A model whose weights are only packed (weights_in::packed) is filled unit by unit (units.hpp): no rank ever has more
/// floats of it than one unit's, and what is under way of them: in host memory, or where devices are linked
/// (parallel::device_links) in theirs.
template <class Device>
class weight_sync {
 public:
  /// Collective: created once by all ranks of the trained model's world. Throws std::invalid_argument when the models
  /// differ.
  weight_sync(const trainable_model<Device>& from, const nn::causal_lm<Device>& to) {
    std::vector<parallel::shard_piece> have, want;
    for (const held_weights& h : weights_held(from)) have.push_back(h.piece);
    for (const nn::parameter& p : to.parameters()) want.push_back(nn::piece_of(p));
    parallel::any_communicator& ranks = from.world()->all();
    const parallel::piece_layout before = parallel::gather_pieces(ranks, have),
                                 after = parallel::gather_pieces(ranks, want);
    deal(ranks, before, after, parts_of(to));
  }

  /// The numbers of elements that a run() receives from and sends to other ranks. A tied embedding whose rows are
  /// floats beside the packed copy travels twice, and counts once.
  std::size_t received() const noexcept { return total(&parallel::reshard_plan::received); }
  std::size_t sent() const noexcept { return total(&parallel::reshard_plan::sent); }

  /// Copies the current weights. Values are sent as `Wire`: float, or bf16, which rounds. At most `bucket` values come
  /// in and go out at a time. A model of weights_in::packed is packed in `format` (unset: the device's compute
  /// format); another has none. All ranks call it together.
  template <class Wire = float>
  void run(const trainable_model<Device>& from, nn::causal_lm<Device>& to, std::size_t bucket = std::size_t{1} << 24,
           std::optional<weight_format> format = {}) const {
    const std::vector<held_weights> held = weights_held(from);
    if (to.packed_alone())
      return to.fill(format.value_or(to.device().compute_format()), nn::bf16_weights::none,
                     incoming<Wire>(*this, from, to, held, bucket));
    if (format) throw std::invalid_argument("rlcore: weight_sync: a format is for a model of weights_in::packed");
    Device& device = to.device();
    float* const weights = to.weights().data();
    const auto place = [&](std::size_t piece, std::size_t first) {
      return weights + to.parameters()[piece].offset + first;
    };
    if (on_devices<Wire>(from)) return receive_on_device(steps_.front(), from, held, bucket, place);
    std::vector<float> values;
    receive<Wire>(steps_.front(), from, held, bucket,
                  [&](std::size_t piece, std::size_t first, std::span<const Wire> in) {
                    values.assign(in.begin(), in.end());
                    device.upload(place(piece, first), values.data(), values.size() * sizeof(float));
                  });
    device.wait();
  }

 private:
  static constexpr std::size_t rows_of_embedding = 1;  // the step of a model of weights_in::packed

  /// What is received at a time: `parameters` of the filled model, by number.
  struct step {
    parallel::reshard_plan plan;
    std::vector<std::size_t> parameters;
    std::vector<std::size_t> held;  ///< the sent pieces, by their number among this rank's
  };

  /// The reader of causal_lm::fill(): the floats of the step that is read from.
  template <class Wire>
  class incoming {
   public:
    incoming(const weight_sync& sync, const trainable_model<Device>& from, const nn::causal_lm<Device>& to,
             const std::vector<held_weights>& held, std::size_t bucket)
        : sync_(sync), from_(from), to_(to), held_(held), bucket_(bucket) {}

    /// Receives the step of the weights from number `first` on; fill() reads them in the order of the steps.
    void prepare(std::size_t first, std::size_t) {
      const auto& steps = sync_.steps_;
      std::size_t next = loaded_ ? step_ : 0;
      while (next < steps.size() && place_in(steps[next], first) == steps[next].parameters.size()) ++next;
      if (next == steps.size()) throw std::logic_error("rlcore: weight_sync: weights are read in another order");
      if (loaded_ && next == step_) return;
      step_ = next, loaded_ = true;
      starts_.assign(1, 0);
      for (const std::size_t i : steps[step_].parameters) starts_.push_back(starts_.back() + to_.parameters()[i].size);
      if (on_devices<Wire>(from_)) {
        if (there_.size() < starts_.back()) there_ = {}, there_ = {to_.device(), starts_.back()};
        return receive_on_device(steps[step_], from_, held_, bucket_, [&](std::size_t piece, std::size_t begin) {
          return there_.data() + starts_[piece] + begin;
        });
      }
      values_.resize(starts_.back());
      sync_.template receive<Wire>(steps[step_], from_, held_, bucket_,
                                   [&](std::size_t piece, std::size_t begin, std::span<const Wire> in) {
                                     std::copy(in.begin(), in.end(), values_.data() + starts_[piece] + begin);
                                   });
    }
    void operator()(std::size_t first, std::span<float> out) const {
      std::copy_n(values_.data() + place_of(first), out.size(), out.begin());
    }
    /// Where the weights from number `first` on are in the memory of a linked device; otherwise null.
    const float* on_device(std::size_t first) const {
      return there_.size() == 0 ? nullptr : there_.data() + place_of(first);
    }

   private:
    /// The place of weight number `first` among the floats of the step.
    std::size_t place_of(std::size_t first) const {
      const step& s = sync_.steps_[step_];
      const std::size_t i = place_in(s, first);
      return starts_[i] + (first - to_.parameters()[s.parameters[i]].offset);
    }
    /// Which of the step's parameters has weight number `at`; their number if none has.
    std::size_t place_in(const step& s, std::size_t at) const {
      const auto all = to_.parameters();
      const auto after = std::ranges::upper_bound(s.parameters, at, {}, [&](std::size_t i) { return all[i].offset; });
      if (after == s.parameters.begin()) return s.parameters.size();
      const nn::parameter& p = all[*(after - 1)];
      return at < p.offset + p.size ? static_cast<std::size_t>(after - 1 - s.parameters.begin()) : s.parameters.size();
    }

    const weight_sync& sync_;
    const trainable_model<Device>& from_;
    const nn::causal_lm<Device>& to_;
    const std::vector<held_weights>& held_;
    std::size_t bucket_, step_ = 0;
    bool loaded_ = false;
    std::vector<std::size_t> starts_;  // of the step's parameters in values_
    std::vector<float> values_;
    buffer<float, Device> there_;  // the same on a linked device
  };

  /// Do the ranks' devices exchange the weights themselves?
  template <class Wire>
  static bool on_devices(const trainable_model<Device>& from) {
    return std::is_same_v<Wire, float> && parallel::linked(from.model.device(), from.world()->all());
  }
  /// target(number in s.parameters, first) is where the weights of the step belong.
  template <class Target>
  static void receive_on_device(const step& s, const trainable_model<Device>& from,
                                const std::vector<held_weights>& held, std::size_t bucket, Target&& target) {
    constexpr std::size_t most = std::size_t{1} << 24;  // 64 MiB in, as many out
    s.plan.run_on_devices(
        from.model.device(), from.world()->all(), std::min(bucket, most),
        [&](std::size_t piece, std::size_t first) { return held[s.held[piece]].values + first; }, target);
  }

  /// write(number in s.parameters, first, values) for all weights of the step.
  template <class Wire, class Write>
  void receive(const step& s, const trainable_model<Device>& from, const std::vector<held_weights>& held,
               std::size_t bucket, Write&& write) const {
    Device& device = from.model.device();
    std::vector<float> values;
    s.plan.template run<Wire>(
        from.world()->all(), bucket,
        [&](std::size_t piece, std::size_t first, std::span<Wire> out) {
          const float* const source = held[s.held[piece]].values + first;
          if constexpr (std::is_same_v<Wire, float>) return device.download(out.data(), source, out.size_bytes());
          values.resize(out.size());
          device.download(values.data(), source, values.size() * sizeof(float));
          std::transform(values.begin(), values.end(), out.begin(), [](float x) { return Wire(x); });
        },
        write);
  }

  /// All parameters, or for packed weights, in the order of causal_lm::fill(): norms and biases, the embedding's rows,
  /// and the matrices of each unit.
  static std::vector<std::vector<std::size_t>> parts_of(const nn::causal_lm<Device>& to) {
    const std::span<const nn::parameter> all = to.parameters();
    std::vector<std::vector<std::size_t>> parts(1);
    for (std::size_t i = 0; i < all.size(); ++i)
      if (!to.packed_alone() || all[i].shape.size() == 1) parts.front().push_back(i);
    if (!to.packed_alone()) return parts;
    parts.push_back({0});
    const std::vector<std::size_t> ends = nn::unit_ends(all);
    std::size_t before = ends.size();
    for (const nn::matrix& m : to.matrices()) {
      const auto unit = static_cast<std::size_t>(std::ranges::upper_bound(ends, m.offset) - ends.begin());
      if (unit != before) parts.emplace_back();
      before = unit;
      const std::size_t end = m.offset + static_cast<std::size_t>(m.outputs * m.inputs);
      for (auto p = std::ranges::lower_bound(all, m.offset, {}, &nn::parameter::offset);
           p != all.end() && p->offset < end; ++p)
        parts.back().push_back(static_cast<std::size_t>(p - all.begin()));
    }
    for (std::vector<std::size_t>& part : parts) std::ranges::sort(part);
    return parts;
  }

  /// steps_ = the transfers of each part. Ranks have as many parts, but perhaps other experts in them.
  void deal(parallel::any_communicator& ranks, const parallel::piece_layout& before,
            const parallel::piece_layout& after, std::vector<std::vector<std::size_t>> parts) {
    const std::size_t n = parts.size(), size = after.size(), rank = static_cast<std::size_t>(ranks.rank());
    for (const std::size_t each : gather_parts(ranks, std::span<const std::size_t>(&n, 1)))
      if (each != n) throw std::invalid_argument("rlcore: weight_sync: the ranks have different models");
    std::vector<std::uint64_t> wanted;  // rank, part, number of the piece; of all ranks, in order
    for (std::size_t k = 0; k < n; ++k)
      for (const std::size_t i : parts[k]) wanted.insert(wanted.end(), {rank, k, i});
    wanted = gather_parts(ranks, std::span<const std::uint64_t>(wanted));
    std::vector<parallel::piece_layout> have(n, parallel::piece_layout(size)), want = have;
    std::unordered_map<std::string_view, std::set<std::size_t>> parts_with;
    for (std::size_t at = 0; at < wanted.size(); at += 3) {
      const std::size_t r = wanted[at], k = wanted[at + 1];
      const parallel::shard_piece& piece = after[r][wanted[at + 2]];
      want[k][r].push_back(piece);
      parts_with[piece.tensor].insert(k);
    }
    std::vector<std::vector<std::size_t>> held(n);
    for (std::size_t r = 0; r < size; ++r)
      for (std::size_t i = 0; i < before[r].size(); ++i) {
        const auto found = parts_with.find(before[r][i].tensor);
        if (found == parts_with.end()) continue;
        for (const std::size_t k : found->second) {
          have[k][r].push_back(before[r][i]);
          if (r == rank) held[k].push_back(i);
        }
      }
    for (std::size_t k = 0; k < n; ++k)
      steps_.push_back({{have[k], want[k], rank}, std::move(parts[k]), std::move(held[k])});
  }

  std::size_t total(std::size_t (parallel::reshard_plan::*count)() const noexcept) const noexcept {
    std::size_t n = 0;
    for (std::size_t k = 0; k < steps_.size(); ++k)
      if (k != rows_of_embedding) n += (steps_[k].plan.*count)();
    return n;
  }

  std::vector<step> steps_;
};

}  // namespace train
RLCORE_END
