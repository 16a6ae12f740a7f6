// The inputs and outputs of an objective: named fields over rows of tokens, or one vector over the vocabulary per
// position; seen through views, never copied.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/compiler.hpp"
#include "rlcore/tensor/traits.hpp"

RLCORE_BEGIN
/// Wraps a vector that has one value per row, for a field of packed rows: per_row(advantage).
template <class V>
struct per_row_view {
  V values;
};
template <class>
inline constexpr bool is_per_row = false;
template <class V>
inline constexpr bool is_per_row<per_row_view<V>> = true;

/// A view of `x`, a vector with one value per row; nothing is copied.
template <class X>
RLCORE_FN auto per_row(X&& x) {
  const auto v = tensor_views::vector_of(as_view(std::forward<X>(x)));
  using view_type = std::remove_cv_t<decltype(v)>;
  static_assert(view_type::rank == 1, "rlcore: per_row takes a vector with one value for each row");
  return per_row_view<view_type>{v};
}

/// One named array: a matrix [rows, tokens], a flat vector of the tokens of packed rows, or one value per row. Made
/// implicitly from any container that as_view understands; T is const for inputs.
template <class T>
struct token_field {
  /// The form of the array: none, [rows, tokens], the tokens of packed rows, or one value per row.
  enum class kind { absent, matrix, vector, row };

  T* data = nullptr;
  kind form = kind::absent;
  extents<2> shape{};  // matrix: [rows, tokens]; vector and row: [size, 1]
  extents<2> stride{};

  RLCORE_FN token_field() = default;
  /// A view of a matrix or vector of T; nothing is copied.
  template <class X>
    requires(!std::is_same_v<std::remove_cvref_t<X>, token_field> && !is_per_row<std::remove_cvref_t<X>>)
  RLCORE_FN token_field(X&& x) {
    tensor_views::with_vector_or_matrix(as_view(std::forward<X>(x)),
                                        [this](const auto& v) RLCORE_LAMBDA { this->assign(v); });
  }
  /// A view of a vector with one value per row, for packed rows.
  template <class V>
  RLCORE_FN token_field(const per_row_view<V>& x) {
    assign(x.values);
    form = kind::row;
  }

  RLCORE_FN bool present() const noexcept { return form != kind::absent; }

 private:
  template <class U, std::size_t Rank>
  RLCORE_FN void assign(const view<U, Rank>& v) {
    static_assert(Rank == 1 || Rank == 2,
                  "rlcore: a token field is a matrix [rows, tokens] or a vector; this container has another rank");
    constexpr bool nested = requires(U& u) { u.begin(); };
    static_assert(!nested,
                  "rlcore: the elements of this container are containers; a matrix is one array, "
                  "matrix_view<T>(data, {rows, tokens}), and rows of several lengths are one vector with offsets");
    static_assert(
        nested || std::is_same_v<std::remove_cv_t<T>, std::remove_cv_t<U>>,
        "rlcore: the element type of this container differs from the batch's: all fields of token_batch<T> and "
        "token_gradients<T> hold T");
    if constexpr (std::is_same_v<std::remove_cv_t<T>, std::remove_cv_t<U>>)
      static_assert(std::is_convertible_v<U*, T*>, "rlcore: a gradient is written, this container is const");
    if constexpr ((Rank == 1 || Rank == 2) && std::is_convertible_v<U*, T*>) {
      data = v.data;
      form = Rank == 2 ? kind::matrix : kind::vector;
      shape = {v.shape[0], 1};
      stride = {v.stride[0], 0};
      if constexpr (Rank == 2) shape[1] = v.shape[1], stride[1] = v.stride[1];
    }
  }
};

/// Which slots are live: a container of any arithmetic type, non-zero where the token counts. Absent: all are.
struct token_mask {
  const std::byte* data = nullptr;
  std::uint8_t bytes = 0;  // size of one element
  bool floating = false;
  bool matrix = false;
  extents<2> shape{};
  extents<2> stride{};  // in elements

  RLCORE_FN token_mask() = default;
  /// A view of a matrix [rows, tokens] or of a vector over the tokens of packed rows; nothing is copied.
  template <class X>
    requires(!std::is_same_v<std::remove_cvref_t<X>, token_mask>)
  RLCORE_FN token_mask(X&& x) {
    tensor_views::with_vector_or_matrix(as_view(std::forward<X>(x)),
                                        [this](const auto& v) RLCORE_LAMBDA { this->assign(v); });
  }

  RLCORE_FN bool present() const noexcept { return bytes != 0; }

 private:
  template <class V>
  RLCORE_FN void assign(const V& v) {
    using view_type = V;
    using element = typename view_type::value_type;
    static_assert(std::is_arithmetic_v<element> && sizeof(element) <= 8,
                  "rlcore: a mask holds bool, integers, float or double; non-zero means the token counts");
    static_assert(view_type::rank == 1 || view_type::rank == 2,
                  "rlcore: a mask is a matrix [rows, tokens], or a vector over the tokens of packed rows");
    data = reinterpret_cast<const std::byte*>(v.data);
    bytes = static_cast<std::uint8_t>(sizeof(element));
    floating = std::is_floating_point_v<element>;
    matrix = view_type::rank == 2;
    shape = {v.shape[0], 1};
    stride = {v.stride[0], 0};
    if constexpr (view_type::rank == 2) shape[1] = v.shape[1], stride[1] = v.stride[1];
  }
};

/// A vector of int32 or int64: lengths or offsets of rows.
struct integer_list {
  const void* data = nullptr;
  extent_t size = 0, stride = 1;
  bool wide = false;
  bool given = false;  ///< an empty vector is a list of no rows, not a list that was left out

  RLCORE_FN integer_list() = default;
  /// A view of a vector of 32- or 64-bit integers; nothing is copied.
  template <class X>
    requires(!std::is_same_v<std::remove_cvref_t<X>, integer_list>)
  RLCORE_FN integer_list(X&& x) {
    const auto v = tensor_views::vector_of(as_view(std::forward<X>(x)));
    using view_type = std::remove_cv_t<decltype(v)>;
    using element = typename view_type::value_type;
    static_assert(view_type::rank == 1 && std::is_integral_v<element> && (sizeof(element) == 4 || sizeof(element) == 8),
                  "rlcore: lengths and offsets are vectors of 32- or 64-bit integers");
    data = v.data, size = v.shape[0], stride = v.stride[0], wide = sizeof(element) == 8, given = true;
  }

  RLCORE_FN bool present() const noexcept { return given; }
  /// The i-th integer; i is not checked.
  RLCORE_FN std::int64_t operator[](extent_t i) const noexcept {
    return wide ? static_cast<const std::int64_t*>(data)[i * stride]
                : static_cast<const std::int32_t*>(data)[i * stride];
  }
};

/// Host-readable memory.
struct host_memory {
  static constexpr bool host_readable = true;
};
template <class T, class Device>
struct device_field;
template <class Device>
struct device_mask;

/// A field in the memory of `Device`: anything that as_view understands, or of a device whose memory the host cannot
/// read a tensor of that device (objective/loop/device_batch.hpp).
template <class T, class Device>
using field_in = std::conditional_t<Device::host_readable, token_field<T>, device_field<T, Device>>;
/// The same for a mask.
template <class Device>
using mask_in = std::conditional_t<Device::host_readable, token_mask, device_mask<Device>>;

/// Inputs of an objective. Only the fields that its pieces read must be present; others are not touched.
///
/// Rectangular: fields are [rows, tokens] of any strides, or vectors [rows] with one value per row; `lengths` (how many
/// leading slots of each row exist) and `mask` are optional.
/// Packed: with `offsets` (flash attention calls them cu_seqlens: rows + 1 of them, starting at 0), fields are flat
/// vectors over all tokens, row by row; a field with one value per row is wrapped: per_row(x).
/// On a device, token_batch<float, npu>, fields and mask are tensors of that device; lengths and offsets are the
/// host's.
template <class T, class Device = host_memory>
struct token_batch {
  static_assert(std::is_same_v<T, float> || std::is_same_v<T, double>, "rlcore: token_batch<float> or <double>");
  using field_type = field_in<const T, Device>;

  field_type logp{}, old_logp{}, ref_logp{}, rollout_logp{}, advantage{}, weight{}, entropy{}, value{}, old_value{},
      target{}, selected{};
  mask_in<Device> mask{};
  integer_list lengths{};
  integer_list offsets{};
};

/// Where dL / d field is written: overwritten, masked slots get 0. With `add`, it accumulates, so that terms with
/// different denominators share one gradient; masked slots then stay as they are. All absent: only the report is
/// computed.
template <class T, class Device = host_memory>
struct token_gradients {
  field_in<T, Device> logp{}, entropy{}, value{};
  bool add = false;
};

/// Whether X stands where a call has the counts of the step: everything but gradients, so that a wrong type is refused
/// with a sentence about counts.
template <class X>
inline constexpr bool stands_for_counts = true;
template <class T, class Memory>
inline constexpr bool stands_for_counts<token_gradients<T, Memory>> = false;

/// A matrix [positions, something] of any strides, or a vector, which is one column; T is const for inputs. Made
/// implicitly from any container that as_view understands.
template <class T>
struct position_matrix {
  T* data = nullptr;
  extents<2> shape{}, stride{};
  bool vector = false, set = false;

  RLCORE_FN position_matrix() = default;
  /// A view of a matrix or vector of T; nothing is copied.
  template <class X>
    requires(!std::is_same_v<std::remove_cvref_t<X>, position_matrix>)
  RLCORE_FN position_matrix(X&& x) {
    tensor_views::with_vector_or_matrix(as_view(std::forward<X>(x)),
                                        [this](const auto& v) RLCORE_LAMBDA { this->assign(v); });
  }
  RLCORE_FN bool present() const noexcept { return set; }
  /// The first value of row i; i is not checked.
  RLCORE_FN T* row(extent_t i) const noexcept { return data + i * stride[0]; }

 private:
  template <class U, std::size_t Rank>
  RLCORE_FN void assign(const view<U, Rank>& v) {
    static_assert(Rank == 1 || Rank == 2,
                  "rlcore: logits are a matrix [positions, vocabulary]; this container has another rank. Rows of equal "
                  "length are one matrix [rows * length, vocabulary] with offsets 0, length, 2 length, ...");
    static_assert(std::is_same_v<std::remove_cv_t<T>, std::remove_cv_t<U>>,
                  "rlcore: the element type of this container differs from the batch's: all fields of logits_batch<T> "
                  "and logits_gradients<T> hold T");
    if constexpr (std::is_same_v<std::remove_cv_t<T>, std::remove_cv_t<U>>)
      static_assert(std::is_convertible_v<U*, T*>, "rlcore: a gradient is written, this container is const");
    if constexpr ((Rank == 1 || Rank == 2) && std::is_convertible_v<U*, T*>) {
      data = v.data;
      set = true;
      vector = Rank == 1;
      shape = {v.shape[0], 1};
      stride = {v.stride[0], 0};
      if constexpr (Rank == 2) shape[1] = v.shape[1], stride[1] = v.stride[1];
    }
  }
};

/// A vector of int32 or int64 that is present even if it is empty: no positions are not all positions.
struct index_list : integer_list {
  bool set = false;

  RLCORE_FN index_list() = default;
  /// A view of a vector of 32- or 64-bit integers; nothing is copied.
  template <class X>
    requires(!std::is_same_v<std::remove_cvref_t<X>, index_list>)
  RLCORE_FN index_list(X&& x) : integer_list(std::forward<X>(x)), set(true) {}
  RLCORE_FN bool present() const noexcept { return set; }
};

/// Entries of the vocabulary, a few per position: a matrix [positions, k] of 32- or 64-bit integers, or a flat vector
/// with `offsets` (positions + 1 of them) where their number varies.
struct entry_lists {
  const std::byte* data = nullptr;
  bool wide = false, vector = false;
  extents<2> shape{}, stride{};
  integer_list offsets{};

  RLCORE_FN entry_lists() = default;
  /// A view of a matrix [positions, k], or of a flat vector with `offsets_`; nothing is copied.
  template <class X>
    requires(!std::is_same_v<std::remove_cvref_t<X>, entry_lists>)
  RLCORE_FN entry_lists(X&& x, integer_list offsets_ = {}) : offsets(offsets_) {
    tensor_views::with_vector_or_matrix(as_view(std::forward<X>(x)),
                                        [this](const auto& v) RLCORE_LAMBDA { this->assign(v); });
  }
  bool present() const noexcept { return shape[1] != 0 && (data != nullptr || vector); }

 private:
  template <class V>
  void assign(const V& v) {
    using view_type = V;
    using element = typename view_type::value_type;
    static_assert((view_type::rank == 1 || view_type::rank == 2) && std::is_integral_v<element> &&
                      (sizeof(element) == 4 || sizeof(element) == 8),
                  "rlcore: a support is a matrix [positions, k] of 32- or 64-bit integers, or a vector of them with "
                  "offsets");
    data = reinterpret_cast<const std::byte*>(v.data);
    wide = sizeof(element) == 8;
    vector = view_type::rank == 1;
    shape = {v.shape[0], 1};
    stride = {v.stride[0], 0};
    if constexpr (view_type::rank == 2) shape[1] = v.shape[1], stride[1] = v.stride[1];
  }
};

/// Inputs of an objective on logits. Only the inputs that its pieces read must be present.
///
/// `logits` (and `teacher`) have one row per position: all tokens of the packed rows of the batch, row by row. All
/// further inputs have one value, or one list, per position too. A few positions only (the steps of a process reward):
/// `positions` names them in increasing order; all further inputs, `mask` and `offsets` then have one entry per named
/// position. `offsets` (rows + 1 of them, starting at 0) assigns them to sequences; without it, all are one sequence.
template <class T>
struct logits_batch {
  static_assert(std::is_same_v<T, float> || std::is_same_v<T, double>, "rlcore: logits_batch<float> or <double>");

  position_matrix<const T> logits{};
  position_matrix<const T> teacher{};
  extent_t common = 0;    ///< leading entries that both vocabularies share; needed where their sizes differ
  index_list labels{};    ///< entries of the vocabulary; read only where the mask is non-zero
  entry_lists support{};  ///< without repetitions
  position_matrix<const T> support_logp{};  ///< in the form of `support`
  position_matrix<const T> targets{};       ///< [positions, R], soft labels
  position_matrix<const T> weight{};        ///< [positions]
  token_mask mask{};                        ///< [positions]; absent: all count
  index_list positions{};
  integer_list offsets{};
  std::span<std::byte> scratch{};  ///< of scratch_bytes(); only objectives that sort need it
};

/// Where dL / d logits is written: overwritten, 0 at positions that do not count; with `add`, accumulated.
template <class T>
struct logits_gradients {
  position_matrix<T> logits{};
  bool add = false;
};
RLCORE_END
