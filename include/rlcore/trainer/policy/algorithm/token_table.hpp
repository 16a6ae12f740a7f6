// The responses of a step as padded matrices, for token-level estimators.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "rlcore/objective/loop/batch.hpp"
#include "rlcore/tensor/span.hpp"
#include "rlcore/trainer/policy/trajectory/trajectory.hpp"

RLCORE_BEGIN
namespace trainer {

/// [trajectories, longest response] with a mask of the response tokens.
class token_table {
 public:
  /// Rows as many as trajectories, columns as many as the longest response has tokens.
  explicit token_table(std::span<const trajectory> batch);

  extents<2> shape() const noexcept { return {static_cast<extent_t>(rows_), static_cast<extent_t>(columns_)}; }
  token_mask mask() const { return token_mask(matrix_view<const std::uint8_t>(live_.data(), shape())); }
  /// A matrix of this table's shape as a view.
  matrix_view<float> view(std::vector<float>& matrix) const { return {matrix.data(), shape()}; }
  /// The same for reading.
  matrix_view<const float> view(const std::vector<float>& matrix) const { return {matrix.data(), shape()}; }
  std::vector<float> matrix() const { return std::vector<float>(rows_ * columns_); }

  /// A field of the trajectories as a matrix, 0 where a row has ended.
  std::vector<float> gather(std::span<const trajectory> batch, const std::vector<float> trajectory::*field) const;
  /// The token rewards: those of the trajectory if it has any, else its reward at its last token.
  std::vector<float> rewards(std::span<const trajectory> batch) const;
  /// Back into a field of the trajectories.
  void scatter(const std::vector<float>& matrix, std::span<trajectory> batch,
               std::vector<float> trajectory::*field) const;

 private:
  std::size_t rows_, columns_ = 0;
  std::vector<std::uint8_t> live_;
};

}  // namespace trainer
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TRAINER)
RLCORE_BEGIN
namespace trainer {

RLCORE_INLINE token_table::token_table(std::span<const trajectory> batch) : rows_(batch.size()) {
  std::int64_t width = 0;
  for (const trajectory& t : batch) width = std::max(width, t.response_length());
  columns_ = static_cast<std::size_t>(width);
  live_.resize(rows_ * columns_);
  for (std::size_t i = 0; i < rows_; ++i)
    std::fill_n(live_.data() + i * columns_, static_cast<std::size_t>(batch[i].response_length()), std::uint8_t{1});
}

RLCORE_INLINE std::vector<float> token_table::gather(std::span<const trajectory> batch,
                                                     const std::vector<float> trajectory::*field) const {
  std::vector<float> out = matrix();
  for (std::size_t i = 0; i < rows_; ++i)
    std::copy((batch[i].*field).begin(), (batch[i].*field).end(), out.data() + i * columns_);
  return out;
}

RLCORE_INLINE std::vector<float> token_table::rewards(std::span<const trajectory> batch) const {
  std::vector<float> out = gather(batch, &trajectory::token_reward);
  for (std::size_t i = 0; i < rows_; ++i)
    if (const auto length = static_cast<std::size_t>(batch[i].response_length());
        batch[i].token_reward.empty() && length > 0)
      out[i * columns_ + length - 1] = batch[i].reward;
  return out;
}

RLCORE_INLINE void token_table::scatter(const std::vector<float>& matrix, std::span<trajectory> batch,
                                        std::vector<float> trajectory::*field) const {
  for (std::size_t i = 0; i < rows_; ++i) {
    const float* row = matrix.data() + i * columns_;
    (batch[i].*field).assign(row, row + batch[i].response_length());
  }
}

}  // namespace trainer
RLCORE_END
#endif
