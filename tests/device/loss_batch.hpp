// A random batch for every objective, on the host in float and double and on a device, in several layouts.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "device/npu/emulated_npu.hpp"
#include "rlcore/device/losses/evaluate_sequences.hpp"
#include "rlcore/objective/piece/slope_check.hpp"

namespace rlcore_test {

/// How rows lie: matrices with a mask, matrices with lengths, or packed.
enum class layout { masked, by_length, packed };

/// Random fields of `rows` rows of up to `width` tokens. Slots that do not count hold `nothing`.
class loss_batch {
 public:
  static constexpr std::size_t fields = field_count - 1;

  loss_batch(layout form, extent_t rows, extent_t width, field per_row, bool all_masked = false,
             float nothing = std::numeric_limits<float>::quiet_NaN())
      : form_(form), rows_(rows), width_(width), per_row_(per_row) {
    offsets_.push_back(0);
    for (extent_t i = 0; i < rows; ++i) {
      const extent_t length = all_masked || i % 5 == 3 ? 0 : 1 + (i * 7 + 5) % width;  // some rows are empty
      lengths_.push_back(static_cast<std::int32_t>(length));
      offsets_.push_back(static_cast<std::int32_t>(offsets_.back() + (form == layout::packed ? length + 2 : 0)));
    }
    for (extent_t i = 0; i < rows; ++i) add_row(i, nothing);
    for (extent_t i = 0; i < rows; ++i)
      for (std::size_t f = 0; f < fields; ++f) row_values_[f].push_back(row_value(i, f));
  }

  /// `edge` takes the place of one number of each field, of every field at another token that counts or another row.
  void put(float edge) {
    std::vector<std::size_t> counting;
    for (std::size_t k = 0; k < mask_.size(); ++k)
      if (mask_[k] != 0) counting.push_back(k);
    for (std::size_t f = 0; f < fields; ++f) {
      values_[f][counting[(f + 1) * counting.size() / (fields + 2)]] = edge;
      row_values_[f][f % row_values_[f].size()] = edge;
    }
  }

  extent_t rows() const { return rows_; }
  std::size_t slots() const { return mask_.size(); }
  bool packed() const { return form_ == layout::packed; }
  global_counts counts(extent_t every = 1) const {
    global_counts c;
    for (extent_t i = 0; i < rows_; i += every) c.add_row(live_[static_cast<std::size_t>(i)]);
    return c;
  }

  /// Every token of row i that counts.
  std::vector<token<double>> live_tokens(extent_t i) const {
    std::vector<token<double>> all;
    auto at = static_cast<std::size_t>(packed() ? offsets_[static_cast<std::size_t>(i)] : i * width_);
    for (const std::size_t end = at + static_cast<std::size_t>(slots_of(i)); at < end; ++at) {
      if (mask_[at] == 0) continue;
      token<double>& x = all.emplace_back();
      for (std::size_t f = 0; f < fields; ++f)
        x.*field_member<double>[f] = static_cast<double>(
            contains(per_row_, field_at(f)) ? row_values_[f][static_cast<std::size_t>(i)] : values_[f][at]);
    }
    return all;
  }
  /// Every token that counts.
  std::vector<token<double>> live_tokens() const {
    std::vector<token<double>> all;
    for (extent_t i = 0; i < rows_; ++i)
      for (const token<double>& x : live_tokens(i)) all.push_back(x);
    return all;
  }

  /// The batch on the host, as T.
  template <class T>
  struct on_host {
    std::array<std::vector<T>, fields> values, row_values;
    std::array<std::vector<T>, 3> gradient;
    token_batch<T> batch;
    token_gradients<T> gradients;
  };
  template <class T>
  std::unique_ptr<on_host<T>> host() const {
    auto h = std::make_unique<on_host<T>>();
    token_field<const T>* const to[fields] = {&h->batch.logp,         &h->batch.old_logp,  &h->batch.ref_logp,
                                              &h->batch.rollout_logp, &h->batch.advantage, &h->batch.weight,
                                              &h->batch.entropy,      &h->batch.value,     &h->batch.old_value,
                                              &h->batch.target,       &h->batch.selected};
    for (std::size_t f = 0; f < fields; ++f) {
      h->values[f].assign(values_[f].begin(), values_[f].end());
      h->row_values[f].assign(row_values_[f].begin(), row_values_[f].end());
      if (contains(per_row_, field_at(f)))
        *to[f] = per_row(h->row_values[f]);
      else if (packed())
        *to[f] = h->values[f];
      else
        *to[f] = view<const T, 2>{h->values[f].data(), {rows_, width_}};
      if (contains(per_row_, field_at(f)) && !packed()) *to[f] = h->row_values[f];
    }
    if (packed()) h->batch.offsets = offsets_;
    if (form_ == layout::by_length) h->batch.lengths = lengths_;
    if (form_ == layout::masked) h->batch.mask = view<const std::uint8_t, 2>{mask_.data(), {rows_, width_}};
    if (packed()) h->batch.mask = mask_;
    token_field<T>* const out[] = {&h->gradients.logp, &h->gradients.entropy, &h->gradients.value};
    for (std::size_t k = 0; k < 3; ++k) {
      h->gradient[k].assign(slots(), T(0.25));
      if (packed())
        *out[k] = h->gradient[k];
      else
        *out[k] = view<T, 2>{h->gradient[k].data(), {rows_, width_}};
    }
    return h;
  }

  /// The batch in the memory of a device.
  template <class Device>
  struct on_device {
    std::vector<std::unique_ptr<tensor<float, 1, Device>>> vectors;
    std::vector<std::unique_ptr<tensor<float, 2, Device>>> matrices;
    std::unique_ptr<tensor<std::uint8_t, 1, Device>> mask;
    std::array<float*, 3> gradient{};
    token_batch<float, Device> batch;
    token_gradients<float, Device> gradients;
  };
  template <class Device>
  std::unique_ptr<on_device<Device>> on(Device& d) const {
    auto h = std::make_unique<on_device<Device>>();
    device_field<const float, Device>* const to[fields] = {
        &h->batch.logp,      &h->batch.old_logp, &h->batch.ref_logp, &h->batch.rollout_logp,
        &h->batch.advantage, &h->batch.weight,   &h->batch.entropy,  &h->batch.value,
        &h->batch.old_value, &h->batch.target,   &h->batch.selected};
    for (std::size_t f = 0; f < fields; ++f) {
      if (contains(per_row_, field_at(f))) {
        auto& x = vector_on(d, *h, row_values_[f]);
        if (packed())
          *to[f] = per_row(x);
        else
          *to[f] = x;
      } else if (packed()) {
        *to[f] = vector_on(d, *h, values_[f]);
      } else {
        *to[f] = matrix_on(d, *h, values_[f]);
      }
    }
    if (packed()) h->batch.offsets = offsets_;
    if (form_ == layout::by_length) h->batch.lengths = lengths_;
    h->mask = std::make_unique<tensor<std::uint8_t, 1, Device>>(d, extents<1>{static_cast<extent_t>(slots())});
    h->mask->memory().upload(mask_);
    if (packed()) h->batch.mask = *h->mask;
    if (form_ == layout::masked)
      h->batch.mask = device_view<const std::uint8_t, 2, Device>(h->mask->data(), {rows_, width_});
    device_field<float, Device>* const out[] = {&h->gradients.logp, &h->gradients.entropy, &h->gradients.value};
    for (std::size_t k = 0; k < 3; ++k) {
      const floats start(slots(), 0.25f);
      if (packed()) {
        auto& x = vector_on(d, *h, start);
        *out[k] = x, h->gradient[k] = x.data();
      } else {
        auto& x = matrix_on(d, *h, start);
        *out[k] = x, h->gradient[k] = x.data();
      }
    }
    return h;
  }
  /// What lies at a gradient on the device.
  template <class Device>
  floats back(Device& d, const float* gradient) const {
    floats x(slots());
    if (!x.empty()) d.download(x.data(), gradient, x.size() * sizeof(float));
    return x;
  }

 private:
  void add_row(extent_t i, float nothing) {
    const extent_t length = lengths_[static_cast<std::size_t>(i)];
    std::int64_t live = 0;
    for (extent_t t = 0; t < slots_of(i); ++t) {
      const bool counts = t < length && (form_ == layout::by_length || length == 1 || (t + i) % 7 != 4);
      live += counts;
      mask_.push_back(counts);
      const token<double> x = random_token(static_cast<std::uint32_t>(mask_.size()));
      for (std::size_t f = 0; f < fields; ++f)
        values_[f].push_back(counts ? static_cast<float>(x.*field_member<double>[f]) : nothing);
    }
    live_.push_back(live);
  }
  extent_t slots_of(extent_t i) const { return packed() ? lengths_[static_cast<std::size_t>(i)] + 2 : width_; }
  static float row_value(extent_t i, std::size_t f) {
    const token<double> x = random_token(static_cast<std::uint32_t>(1000 + i));
    return field_at(f) == field::target ? static_cast<float>(i % 2) : static_cast<float>(x.*field_member<double>[f]);
  }
  template <class Device>
  static tensor<float, 1, Device>& vector_on(Device& d, on_device<Device>& h, const floats& x) {
    h.vectors.push_back(std::make_unique<tensor<float, 1, Device>>(d, extents<1>{static_cast<extent_t>(x.size())}));
    h.vectors.back()->memory().upload(x);
    return *h.vectors.back();
  }
  template <class Device>
  tensor<float, 2, Device>& matrix_on(Device& d, on_device<Device>& h, const floats& x) const {
    h.matrices.push_back(std::make_unique<tensor<float, 2, Device>>(d, extents<2>{rows_, width_}));
    h.matrices.back()->memory().upload(x);
    return *h.matrices.back();
  }

  layout form_;
  extent_t rows_, width_;
  field per_row_;
  std::vector<std::int32_t> lengths_, offsets_;
  std::vector<std::int64_t> live_;
  std::vector<std::uint8_t> mask_;
  std::array<floats, fields> values_, row_values_;
};

}  // namespace rlcore_test
