// The inputs and outputs of an objective on logits: one vector over the vocabulary per position, seen through views.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>

#include "rlcore/objective/loop/batch.hpp"

RLCORE_BEGIN

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
