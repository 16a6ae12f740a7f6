// Weights packed one unit at a time, in memory that the units share.
#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/device/device.hpp"
#include "rlcore/nn/model/packed_weights.hpp"
#include "rlcore/nn/model/parameter.hpp"
#include "rlcore/nn/model/units.hpp"
#include "rlcore/tensor/buffer.hpp"
#include "rlcore/tensor/view.hpp"

RLCORE_BEGIN
namespace nn {

/// Buffers that are not in use.
template <class T, class Device>
class buffer_pool {
 public:
  explicit buffer_pool(Device& device) : device_(&device) {}  ///< For memory of `device`.

  /// Memory for n values: the smallest idle buffer that holds them, unless it is more than twice too large.
  buffer<T, Device> take(std::size_t n) {
    auto best = idle_.end();
    for (auto b = idle_.begin(); b != idle_.end(); ++b)
      if (b->size() >= n && b->size() <= 2 * n && (best == idle_.end() || b->size() < best->size())) best = b;
    if (best == idle_.end()) return buffer<T, Device>(*device_, n);
    buffer<T, Device> found = std::move(*best);
    idle_.erase(best);
    return found;
  }
  void give(buffer<T, Device>&& memory) { idle_.push_back(std::move(memory)); }  ///< Takes it back.
  /// Frees the idle buffers.
  void clear() noexcept { idle_.clear(); }

 private:
  Device* device_;
  std::vector<buffer<T, Device>> idle_;
};

/// Packed copies of the units (units.hpp) that a pass is in, in the device's compute format.
template <class Device>
class packed_units {
 public:
  /// For a causal_lm of this layout; `matrices` are causal_lm::matrices().
  packed_units(Device& device, std::span<const parameter> parameters, std::span<const matrix> matrices)
      : device_(&device), matrices_(matrices.begin(), matrices.end()), idle_(device) {
    const std::vector<std::size_t> ends = unit_ends(parameters);
    units_.resize(ends.size());
    for (const matrix& m : matrices_) {
      std::size_t u = 0;
      while (ends[u] <= m.offset) ++u;
      unit_of_.push_back(u);
      offsets_.push_back(units_[u].bytes);
      units_[u].bytes += packed_bytes_of(device, device.compute_format(), m);
    }
  }

  /// The packed copy of unit u of `weights`, addressed by their offsets in the model, made now unless it exists.
  packed_view enter(std::size_t u, offset_pointer<const float> weights) {
    const weight_format format = device_->compute_format();
    unit& to = units_[u];
    if (to.bytes > 0 && to.copy.size() == 0) {
      buffer<std::byte, Device> copy = idle_.take(to.bytes);
      for (std::size_t n = 0; n < matrices_.size(); ++n)
        if (unit_of_[n] == u) pack_matrix(*device_, copy.data() + offsets_[n], format, matrices_[n], weights, columns_);
      to.copy = std::move(copy);
    }
    return view(u);
  }
  /// The copy of unit u, or an empty view.
  packed_view view(std::size_t u) const { return {device_->compute_format(), units_[u].copy.data(), offsets_.data()}; }
  /// Another unit may have the memory of the copy, if there is one.
  void leave(std::size_t u) {
    if (units_[u].copy.size() > 0) idle_.give(std::exchange(units_[u].copy, {}));
  }
  /// Frees memory that no unit has.
  void rest() { idle_.clear(), columns_ = {}; }

 private:
  struct unit {
    std::size_t bytes = 0;
    buffer<std::byte, Device> copy;
  };

  Device* device_;
  std::vector<matrix> matrices_;
  std::vector<std::size_t> unit_of_, offsets_;  // of each matrix: its unit, its place in the unit's copy
  std::vector<unit> units_;
  buffer_pool<std::byte, Device> idle_;
  buffer<float, Device> columns_;  // of a chunk of a matrix
};

/// For passes over a model that holds its weights, see workspace::units: there is no packed copy of the whole model,
/// which a long pass does not need for its speed.
template <class Device>
class unit_packer final : public unit_source {
 public:
  /// `model`, a causal_lm that is not expert parallel, must outlive this.
  template <class Model>
  explicit unit_packer(const Model& model)
      : device_(&model.device()),
        weights_(&model.weights()),
        packed_(model.device(), model.parameters(), model.matrices()) {}

  unit_view enter(std::size_t u, bool packed) override {
    const offset_pointer<const float> weights = weights_->data();
    return {weights, packed ? packed_.enter(u, weights) : packed_.view(u)};
  }
  void leave(std::size_t u) override { packed_.leave(u); }
  void pause(std::size_t u) override { packed_.leave(u); }
  std::size_t most_passes(std::size_t passes) override { return passes; }
  void rest() override {
    device_->wait();
    packed_.rest();
  }

 private:
  Device* device_;
  const buffer<float, Device>* weights_;
  packed_units<Device> packed_;
};

}  // namespace nn
RLCORE_END
