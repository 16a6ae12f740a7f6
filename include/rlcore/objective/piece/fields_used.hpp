// Which fields a piece really uses, found by sending sets of names through its body instead of numbers.
//
// A body has no branches on values (masks select between results that are both computed), so the names that reach its
// value, slope and monitors are exact: not a sample of inputs, and the same for every token. All of it is a handful of
// constants, so a compiler that optimises leaves nothing of the check.
#pragma once

#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

#include "rlcore/objective/piece/piece.hpp"
#include "rlcore/objective/piece/score/gather.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// Stands for a number: the set of fields that it depends on.
struct traced {
  unsigned fields = 0;

  traced() = default;
  /// A constant: depends on no field.
  RLCORE_FN constexpr traced(double) noexcept {}
  /// What depends on the fields whose bits are set.
  RLCORE_FN static constexpr traced from(unsigned set) noexcept {
    traced t;
    t.fields = set;
    return t;
  }

  RLCORE_FN friend constexpr traced operator+(traced a, traced b) noexcept { return from(a.fields | b.fields); }
  RLCORE_FN friend constexpr traced operator-(traced a, traced b) noexcept { return from(a.fields | b.fields); }
  RLCORE_FN friend constexpr traced operator*(traced a, traced b) noexcept { return from(a.fields | b.fields); }
  RLCORE_FN friend constexpr traced operator/(traced a, traced b) noexcept { return from(a.fields | b.fields); }
  RLCORE_FN friend constexpr traced operator-(traced a) noexcept { return a; }
  RLCORE_FN friend constexpr traced operator+(traced a) noexcept { return a; }
  /// Depends on what either depends on.
  RLCORE_FN constexpr traced& operator+=(traced b) noexcept { return fields |= b.fields, *this; }
  /// Depends on what either depends on.
  RLCORE_FN constexpr traced& operator-=(traced b) noexcept { return fields |= b.fields, *this; }
  /// Depends on what either depends on.
  RLCORE_FN constexpr traced& operator*=(traced b) noexcept { return fields |= b.fields, *this; }
  /// Depends on what either depends on.
  RLCORE_FN constexpr traced& operator/=(traced b) noexcept { return fields |= b.fields, *this; }
};

/// What comparing two of them yields.
struct traced_mask {
  unsigned fields = 0;
  RLCORE_FN friend constexpr traced_mask operator&(traced_mask a, traced_mask b) noexcept {
    return {a.fields | b.fields};
  }
  RLCORE_FN friend constexpr traced_mask operator|(traced_mask a, traced_mask b) noexcept {
    return {a.fields | b.fields};
  }
  RLCORE_FN friend constexpr traced_mask operator!(traced_mask a) noexcept { return a; }
};
/// Depends on what either depends on.
RLCORE_FN constexpr traced_mask operator<(traced a, traced b) noexcept { return {a.fields | b.fields}; }
/// Depends on what either depends on.
RLCORE_FN constexpr traced_mask operator>(traced a, traced b) noexcept { return {a.fields | b.fields}; }
/// Depends on what either depends on.
RLCORE_FN constexpr traced_mask operator<=(traced a, traced b) noexcept { return {a.fields | b.fields}; }
/// Depends on what either depends on.
RLCORE_FN constexpr traced_mask operator>=(traced a, traced b) noexcept { return {a.fields | b.fields}; }
/// Depends on what either depends on.
RLCORE_FN constexpr traced_mask operator==(traced a, traced b) noexcept { return {a.fields | b.fields}; }
/// Depends on what either depends on.
RLCORE_FN constexpr traced_mask operator!=(traced a, traced b) noexcept { return {a.fields | b.fields}; }

/// The vocabulary of exact_math and fast_math for them.
struct traced_math {
  /// Depends on the condition and on both results, of which a mask takes one.
  RLCORE_FN static constexpr traced select(traced_mask condition, traced a, traced b) noexcept {
    return traced::from(condition.fields | a.fields | b.fields);
  }
  /// Depends on what any of the conditions depends on.
  template <class... M>
  RLCORE_FN static constexpr traced_mask all(M... conditions) noexcept {
    return {(0u | ... | conditions.fields)};
  }
  /// Depends on what any of the conditions depends on.
  template <class... M>
  RLCORE_FN static constexpr traced_mask any(M... conditions) noexcept {
    return {(0u | ... | conditions.fields)};
  }
  /// Depends on what x depends on.
  RLCORE_FN static constexpr traced exp(traced x) noexcept { return x; }
  /// Depends on what x depends on.
  RLCORE_FN static constexpr traced log(traced x) noexcept { return x; }
  /// Depends on what x depends on.
  RLCORE_FN static constexpr traced expm1(traced x) noexcept { return x; }
  /// Depends on what x depends on.
  RLCORE_FN static constexpr traced log1p(traced x) noexcept { return x; }
  /// Depends on what x depends on.
  RLCORE_FN static constexpr traced sqrt(traced x) noexcept { return x; }
  /// Depends on what x depends on.
  RLCORE_FN static constexpr traced excess(traced x) noexcept { return x; }
  /// Depends on what x depends on.
  RLCORE_FN static constexpr traced sigmoid(traced x) noexcept { return x; }
  /// Depends on what x depends on.
  RLCORE_FN static constexpr traced softplus(traced x) noexcept { return x; }
  /// Depends on what x depends on.
  RLCORE_FN static constexpr traced abs(traced x) noexcept { return x; }
  /// Depends on what x depends on.
  RLCORE_FN static constexpr traced sign(traced x) noexcept { return x; }
  /// Depends on what either depends on.
  RLCORE_FN static constexpr traced min(traced a, traced b) noexcept { return a + b; }
  /// Depends on what either depends on.
  RLCORE_FN static constexpr traced max(traced a, traced b) noexcept { return a + b; }
  /// Depends on what x or a bound depends on.
  RLCORE_FN static constexpr traced clamp(traced x, traced low, traced high) noexcept { return x + low + high; }
};

namespace detail {

/// Every field with its own name in it.
RLCORE_FN token<traced> traced_token() noexcept {
  token<traced> t;
  for (std::size_t f = 0; f < field_count; ++f) t.*field_member<traced>[f] = traced::from(1u << f);
  return t;
}

template <class Term>
RLCORE_FN unsigned traced_monitors(const Term& t) noexcept {
  unsigned used = 0;
  if constexpr (requires { t.monitor[0]; })
    for (const traced& m : t.monitor) used |= m.fields;
  return used;
}

/// Throws std::invalid_argument that names the first field of `extra`.
[[noreturn]] RLCORE_NOINLINE inline void refuse_unlisted_field(std::string_view piece, unsigned extra) {
  std::size_t f = 0;
  while ((extra >> f & 1u) == 0) ++f;
  const std::string name(field_names[f]);
  throw std::invalid_argument("rlcore: " + std::string(piece) + " uses " + name +
                              ", which its `reads` does not list, so it would find nothing there; add field::" + name +
                              " to `static constexpr field reads`");
}

}  // namespace detail

/// The fields that the value, the slope or a monitor of a token piece depends on with the piece's settings.
template <class P>
RLCORE_FN field fields_used(const P& piece) noexcept {
  const auto t = piece.template operator()<traced_math, traced>(detail::traced_token());
  return static_cast<field>(t.value.fields | t.slope.fields | detail::traced_monitors(t));
}

/// Throws std::invalid_argument if a piece uses a field that it does not list in `reads`; `also` are fields that it is
/// shown in any case.
template <class P>
RLCORE_FN void check_reads(const P& piece, field also = field::none) {
  const unsigned extra = static_cast<unsigned>(fields_used(piece)) & ~static_cast<unsigned>(P::reads | also);
  if (extra != 0) detail::refuse_unlisted_field(P::name, extra);
}

namespace detail {

/// The pieces of an objective of tokens, and what they gather.
template <class Objective, std::size_t... Index>
RLCORE_FN void check_reads_of_all(const Objective& objective, std::index_sequence<Index...>) {
  const auto one = [](const auto& piece) RLCORE_LAMBDA {
    check_reads(piece);
    if constexpr (!std::is_same_v<gathers_of<std::remove_cvref_t<decltype(piece)>>, no_gather>)
      check_reads(score_of(piece));
  };
  (one(piece_at<Index>(objective)), ...);
}

/// A link of rows or of pairs: besides its score and what it gathers, only what it lists.
template <class Link>
RLCORE_FN void check_reads_of_link(const Link& link) {
  unsigned used = 0, listed = static_cast<unsigned>(field::logp);
  if constexpr (requires { link.template operator()<traced_math, traced>(traced_token()).slope; }) {
    used = static_cast<unsigned>(fields_used(link));
  } else {
    const auto t = link.template operator()<traced_math, traced>(traced_token(), traced_token());
    used = t.value.fields | t.slope_chosen.fields | t.slope_rejected.fields | traced_monitors(t);
  }
  if constexpr (requires { Link::reads; }) listed |= static_cast<unsigned>(Link::reads);
  if constexpr (!std::is_same_v<gathers_of<Link>, no_gather>) listed |= static_cast<unsigned>(field::gathered);
  if ((used & ~listed) != 0) refuse_unlisted_field(Link::name, used & ~listed);
}

}  // namespace detail

RLCORE_ALGORITHM_END
RLCORE_END
