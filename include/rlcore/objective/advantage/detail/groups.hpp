// The rows of each group of answers to one prompt, however the caller names the groups.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/order.hpp"
#include "rlcore/core/scratch_vector.hpp"
#include "rlcore/tensor/span.hpp"
#include "rlcore/tensor/traits.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
namespace detail {

/// All rows, one group after the other: group g is order[begin[g]] ... order[begin[g + 1] - 1], in the order in which
/// its rows were given.
struct grouped_rows {
  scratch_vector<extent_t> order;
  scratch_vector<std::size_t> begin{0};

  std::size_t groups() const noexcept { return begin.size() - 1; }
  std::span<const extent_t> group(std::size_t g) const noexcept {
    return {order.data() + begin[g], begin[g + 1] - begin[g]};
  }
};

inline grouped_rows group_consecutive(extent_t rows, std::int64_t group_size) {
  if (group_size < 1 || rows % group_size != 0)
    throw std::invalid_argument("rlcore: " + std::to_string(rows) + " rewards do not divide into groups of " +
                                std::to_string(group_size));
  grouped_rows result;
  result.order = counted<extent_t>(static_cast<std::size_t>(rows));
  for (extent_t row = group_size; row <= rows; row += group_size) result.begin.push_back(static_cast<std::size_t>(row));
  return result;
}

inline grouped_rows group_by_name(const scratch_vector<std::int64_t>& name) {
  grouped_rows result;
  result.order = counted<extent_t>(name.size());
  const auto name_of = [&](extent_t row) { return name[static_cast<std::size_t>(row)]; };
  sort_stably(result.order, [&](extent_t a, extent_t b) { return name_of(a) < name_of(b); });
  for (std::size_t k = 1; k <= result.order.size(); ++k)
    if (k == result.order.size() || name_of(result.order[k]) != name_of(result.order[k - 1])) result.begin.push_back(k);
  return result;
}

/// `groups` is either the number of consecutive rows in every group, or a vector: groups[i] is any integer that names
/// the prompt of row i. Throws std::invalid_argument if it does not fit the number of rows.
template <class Groups>
grouped_rows group_rows(extent_t rows, const Groups& groups) {
  if constexpr (std::is_convertible_v<const Groups&, std::int64_t>) {
    static_assert(!std::is_floating_point_v<Groups>, "rlcore: the size of a group is an integer; write 8, not 8.0");
    return group_consecutive(rows, static_cast<std::int64_t>(groups));
  } else {
    const auto group = tensor_views::vector_of(as_view(groups));
    using view_type = std::remove_cv_t<decltype(group)>;
    static_assert(view_type::rank == 1 && std::is_integral_v<typename view_type::value_type>,
                  "rlcore: groups is the size of a group, or a vector of integers with the prompt of each row");
    if (group.shape[0] != rows)
      throw std::invalid_argument("rlcore: groups are " + to_string<1>(group.shape) + ", rewards are " +
                                  to_string<1>({rows}));
    scratch_vector<std::int64_t> name(static_cast<std::size_t>(rows));
    for (extent_t i = 0; i < rows; ++i) name[static_cast<std::size_t>(i)] = static_cast<std::int64_t>(group(i));
    return group_by_name(name);
  }
}

}  // namespace detail

RLCORE_ALGORITHM_END
RLCORE_END
