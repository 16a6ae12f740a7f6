// The inner loop: one row of tokens through all pieces, one pack of lanes at a time.
//
// Every input layout goes through one compiled function: rows whose fields are contiguous hand it their own memory, all
// others (and the last, incomplete pack of every row) are staged through a small buffer. So the bits of a token depend
// neither on strides and masks nor on where the row begins, even if the compiler contracts multiplications and
// additions differently from one place to the next.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "rlcore/objective/piece/piece.hpp"
#include "rlcore/objective/piece/score.hpp"
#include "rlcore/simd/math.hpp"
#include "rlcore/simd/pack.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
namespace detail {

/// The single gather of several pieces, or no_gather; `agree` is false if two differ.
template <class... Gathers>
struct unique_gather {
  using type = no_gather;
  static constexpr bool agree = true;
};
template <class First, class... Rest>
struct unique_gather<First, Rest...> {
  using other = unique_gather<Rest...>;
  static constexpr bool has = !std::is_same_v<First, no_gather>,
                        has_other = !std::is_same_v<typename other::type, no_gather>;
  using type = std::conditional_t<has, First, typename other::type>;
  static constexpr bool agree = other::agree && (!has || !has_other || std::is_same_v<First, typename other::type>);
};

/// Compile-time traits of an objective for the loop.
template <class Objective>
struct structure {
  static constexpr std::size_t pieces = piece_count<Objective>;
  template <std::size_t Index>
  using piece = piece_type<Index, Objective>;

  static constexpr auto monitors_per_piece = []<std::size_t... Index>(std::index_sequence<Index...>) {
    return std::array<std::size_t, pieces>{monitor_count<piece<Index>>...};
  }(std::make_index_sequence<pieces>{});

  static constexpr auto wrt = []<std::size_t... Index>(std::index_sequence<Index...>) {
    return std::array<field, pieces>{wrt_of<piece<Index>>()...};
  }(std::make_index_sequence<pieces>{});

  /// Where piece i keeps its accumulators: its value, then its monitors.
  static constexpr std::size_t slot(std::size_t i) noexcept {
    std::size_t at = 0;
    for (std::size_t k = 0; k < i; ++k) at += 1 + monitors_per_piece[k];
    return at;
  }
  static constexpr std::size_t slots = slot(pieces);
  static constexpr std::size_t monitors = slots - pieces;

  /// Whether no piece before i has its slope by the same field.
  static constexpr bool first_with_output(std::size_t i) noexcept {
    for (std::size_t k = 0; k < i; ++k)
      if (wrt[k] == wrt[i]) return false;
    return true;
  }

  static constexpr field reads = []<std::size_t... Index>(std::index_sequence<Index...>) {
    return (field::none | ... | piece<Index>::reads);
  }(std::make_index_sequence<pieces>{});
  /// Fields that a piece needs with one value per row: its member `row_fields`.
  static constexpr field row_fields = []<std::size_t... Index>(std::index_sequence<Index...>) {
    return (field::none | ... | per_row_fields_of<piece<Index>>());
  }(std::make_index_sequence<pieces>{});
  using gathers = typename decltype([]<std::size_t... Index>(std::index_sequence<Index...>) {
    return unique_gather<gathers_of<piece<Index>>...>{};
  }(std::make_index_sequence<pieces>{}))::type;
  static constexpr field outputs = []<std::size_t... Index>(std::index_sequence<Index...>) {
    return (field::none | ... | wrt_of<piece<Index>>());
  }(std::make_index_sequence<pieces>{});
};

}  // namespace detail
namespace token_loop {

using detail::structure;

inline constexpr std::size_t gathered_index = 11;
static_assert(field_at(gathered_index) == field::gathered);

/// Where a run of packs lies. Steps are elements from pack to pack: the width of a pack for a value per token, 0 for a
/// value per row (the pointer then leads to a pack of copies) and for unwanted slopes.
template <class T>
struct lane_pointers {
  const T* input[field_count];
  std::size_t input_step[field_count];
  T* output[field_count];
  std::size_t output_step[field_count];
  const std::byte* mask;                                                     // integers as wide as T
  std::size_t mask_step;                                                     // bytes
  std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t> mask_bits;  // which bits make a slot live
  T weight;
};

/// Sums of one row. Floats are summed over a few packs in float, then in double.
template <class T, std::size_t Slots>
struct row_sums {
  static constexpr std::size_t packs_per_block = 8;
  std::array<pack<T>, Slots> partial;
  std::array<wide_sum<T>, Slots> wide;
  typename lane_types<T>::integers live;  // live slots seen

  double total(std::size_t slot) noexcept {
    wide[slot].add(partial[slot]);
    partial[slot] = pack<T>(T(0));
    return wide[slot].total();
  }
  RLCORE_FN void clear() noexcept {
    for (auto& p : partial) p = pack<T>(T(0));
    for (auto& w : wide) w = {};
    live = typename lane_types<T>::integers{};
  }
};

/// Without `Slopes` only the sums are computed.
template <class Objective, class T, bool Slopes = true>
struct row_loop {
  using shape = structure<Objective>;
  using lanes = pack<T>;
  using sums = row_sums<T, shape::slots>;
  static constexpr std::size_t width = lanes::lanes;

  /// Evaluates `packs` packs, from the row's pack number `first` on.
  static void run(const Objective& objective_, const lane_pointers<T>& at_, std::size_t first, std::size_t packs,
                  sums& sums_) noexcept {
    const Objective objective = objective_;
    lane_pointers<T> at = at_;
    auto partial = sums_.partial;
    auto counted = sums_.live;
    // The gathered value is constant along the row: read once, so that what a piece computes from it is computed once.
    lanes gathered;
    if constexpr (contains(shape::reads, field::gathered)) gathered = load(at.input[gathered_index]);
    for (std::size_t done = 0; done < packs;) {
      const std::size_t block = sums::packs_per_block - (first + done) % sums::packs_per_block;
      const std::size_t stop = packs - done < block ? packs : done + block;
      for (; done < stop; ++done)
        step(objective, at, gathered, partial, counted, std::make_index_sequence<shape::pieces>{});
      if ((first + done) % sums::packs_per_block == 0) {
        for (std::size_t s = 0; s < shape::slots; ++s) {
          sums_.wide[s].add(partial[s]);
          partial[s] = lanes(T(0));
        }
      }
    }
    sums_.partial = partial;
    sums_.live = counted;
  }

  /// `run` under a signature that is the same for all objectives, for row_driver.
  static void erased_run(const void* objective, const lane_pointers<T>& at, std::size_t first, std::size_t packs,
                         void* sums_) {
    run(*static_cast<const Objective*>(objective), at, first, packs, *static_cast<sums*>(sums_));
  }

 private:
  template <std::size_t... Index>
  RLCORE_FN static void step(const Objective& objective, lane_pointers<T>& at, lanes gathered,
                             std::array<lanes, shape::slots>& partial, typename lane_types<T>::integers& counted,
                             std::index_sequence<Index...>) noexcept {
    token<lanes> t = load_token(at, std::make_index_sequence<field_count>{});
    if constexpr (contains(shape::reads, field::gathered)) t.gathered = gathered;
    typename lane_types<T>::integers mask;
    std::memcpy(&mask, at.mask, sizeof(mask));
    at.mask += at.mask_step;
    const lane_mask<T> live{(mask & at.mask_bits) != 0};
    std::array<lanes, field_count> slope;
    (evaluate_piece<Index>(objective, t, live, partial, slope), ...);
    if constexpr (Slopes) store_slopes(at, live, slope, std::make_index_sequence<field_count>{});
    counted -= live.v;
  }

  template <std::size_t... F>
  RLCORE_FN static token<lanes> load_token(lane_pointers<T>& at, std::index_sequence<F...>) noexcept {
    token<lanes> t;
    (
        [&] {
          if constexpr (contains(shape::reads, field_at(F)) && F != gathered_index) {
            t.*field_member<lanes>[F] = load(at.input[F]);
            at.input[F] += at.input_step[F];
          }
        }(),
        ...);
    return t;
  }

  template <std::size_t Index>
  RLCORE_FN static void evaluate_piece(const Objective& objective, const token<lanes>& t, lane_mask<T> live,
                                       std::array<lanes, shape::slots>& partial,
                                       std::array<lanes, field_count>& slope) noexcept {
    using piece = typename shape::template piece<Index>;
    constexpr std::size_t slot = shape::slot(Index);
    constexpr std::size_t out = [] {
      std::size_t f = 0;
      while (field_at(f) != wrt_of<piece>()) ++f;
      return f;
    }();
    const auto result = piece_at<Index>(objective).template operator()<fast_math, lanes>(t);
    partial[slot] = choose(live, partial[slot] + result.value, partial[slot]);
    if constexpr (monitor_count < piece >> 0)
      for (std::size_t m = 0; m < monitor_count<piece>; ++m)
        partial[slot + 1 + m] = choose(live, partial[slot + 1 + m] + result.monitor[m], partial[slot + 1 + m]);
    const lanes coefficient(static_cast<T>(coefficient_at<Index>(objective)));
    if constexpr (shape::first_with_output(Index))
      slope[out] = result.slope * coefficient;
    else
      slope[out] = multiply_add(result.slope, coefficient, slope[out]);
  }

  template <std::size_t... F>
  RLCORE_FN static void store_slopes(lane_pointers<T>& at, lane_mask<T> live,
                                     const std::array<lanes, field_count>& slope, std::index_sequence<F...>) noexcept {
    (
        [&] {
          if constexpr (contains(shape::outputs, field_at(F))) {
            store(at.output[F], choose(live, slope[F] * lanes(at.weight), lanes(T(0))));
            at.output[F] += at.output_step[F];
          }
        }(),
        ...);
  }
};

}  // namespace token_loop

RLCORE_ALGORITHM_END
RLCORE_END
