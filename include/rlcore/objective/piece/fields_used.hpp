// Finds the fields that a piece uses, by evaluating its body on sets of field names instead of numbers.
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
#include "rlcore/objective/piece/score.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// Stands for a number: the set of fields that it depends on.
struct dependence {
  unsigned fields = 0;

  dependence() = default;
  /// A constant: depends on no field.
  RLCORE_FN constexpr dependence(double) noexcept {}
  /// What depends on the fields whose bits are set.
  RLCORE_FN static constexpr dependence from(unsigned set) noexcept {
    dependence t;
    t.fields = set;
    return t;
  }

  RLCORE_FN friend constexpr dependence operator+(dependence a, dependence b) noexcept {
    return from(a.fields | b.fields);
  }
  RLCORE_FN friend constexpr dependence operator-(dependence a, dependence b) noexcept {
    return from(a.fields | b.fields);
  }
  RLCORE_FN friend constexpr dependence operator*(dependence a, dependence b) noexcept {
    return from(a.fields | b.fields);
  }
  RLCORE_FN friend constexpr dependence operator/(dependence a, dependence b) noexcept {
    return from(a.fields | b.fields);
  }
  RLCORE_FN friend constexpr dependence operator-(dependence a) noexcept { return a; }
  RLCORE_FN friend constexpr dependence operator+(dependence a) noexcept { return a; }
  /// Depends on what either depends on.
  RLCORE_FN constexpr dependence& operator+=(dependence b) noexcept { return fields |= b.fields, *this; }
  /// Depends on what either depends on.
  RLCORE_FN constexpr dependence& operator-=(dependence b) noexcept { return fields |= b.fields, *this; }
  /// Depends on what either depends on.
  RLCORE_FN constexpr dependence& operator*=(dependence b) noexcept { return fields |= b.fields, *this; }
  /// Depends on what either depends on.
  RLCORE_FN constexpr dependence& operator/=(dependence b) noexcept { return fields |= b.fields, *this; }
};

/// Result of a comparison.
struct dependence_mask {
  unsigned fields = 0;
  RLCORE_FN friend constexpr dependence_mask operator&(dependence_mask a, dependence_mask b) noexcept {
    return {a.fields | b.fields};
  }
  RLCORE_FN friend constexpr dependence_mask operator|(dependence_mask a, dependence_mask b) noexcept {
    return {a.fields | b.fields};
  }
  RLCORE_FN friend constexpr dependence_mask operator!(dependence_mask a) noexcept { return a; }
};
/// Depends on what either depends on.
RLCORE_FN constexpr dependence_mask operator<(dependence a, dependence b) noexcept { return {a.fields | b.fields}; }
/// Depends on what either depends on.
RLCORE_FN constexpr dependence_mask operator>(dependence a, dependence b) noexcept { return {a.fields | b.fields}; }
/// Depends on what either depends on.
RLCORE_FN constexpr dependence_mask operator<=(dependence a, dependence b) noexcept { return {a.fields | b.fields}; }
/// Depends on what either depends on.
RLCORE_FN constexpr dependence_mask operator>=(dependence a, dependence b) noexcept { return {a.fields | b.fields}; }
/// Depends on what either depends on.
RLCORE_FN constexpr dependence_mask operator==(dependence a, dependence b) noexcept { return {a.fields | b.fields}; }
/// Depends on what either depends on.
RLCORE_FN constexpr dependence_mask operator!=(dependence a, dependence b) noexcept { return {a.fields | b.fields}; }

/// The functions of exact_math and fast_math for field sets.
struct dependence_math {
  /// Depends on the condition and on both results, since a mask selects between them.
  RLCORE_FN static constexpr dependence select(dependence_mask condition, dependence a, dependence b) noexcept {
    return dependence::from(condition.fields | a.fields | b.fields);
  }
  /// Depends on what any of the conditions depends on.
  template <class... M>
  RLCORE_FN static constexpr dependence_mask all(M... conditions) noexcept {
    return {(0u | ... | conditions.fields)};
  }
  /// Depends on what any of the conditions depends on.
  template <class... M>
  RLCORE_FN static constexpr dependence_mask any(M... conditions) noexcept {
    return {(0u | ... | conditions.fields)};
  }
  /// Depends on what x depends on.
  RLCORE_FN static constexpr dependence exp(dependence x) noexcept { return x; }
  /// Depends on what x depends on.
  RLCORE_FN static constexpr dependence log(dependence x) noexcept { return x; }
  /// Depends on what x depends on.
  RLCORE_FN static constexpr dependence expm1(dependence x) noexcept { return x; }
  /// Depends on what x depends on.
  RLCORE_FN static constexpr dependence log1p(dependence x) noexcept { return x; }
  /// Depends on what x depends on.
  RLCORE_FN static constexpr dependence sqrt(dependence x) noexcept { return x; }
  /// Depends on what x depends on.
  RLCORE_FN static constexpr dependence excess(dependence x) noexcept { return x; }
  /// Depends on what x depends on.
  RLCORE_FN static constexpr dependence sigmoid(dependence x) noexcept { return x; }
  /// Depends on what x depends on.
  RLCORE_FN static constexpr dependence softplus(dependence x) noexcept { return x; }
  /// Depends on what x depends on.
  RLCORE_FN static constexpr dependence abs(dependence x) noexcept { return x; }
  /// Depends on what x depends on.
  RLCORE_FN static constexpr dependence sign(dependence x) noexcept { return x; }
  /// Depends on what either depends on.
  RLCORE_FN static constexpr dependence min(dependence a, dependence b) noexcept { return a + b; }
  /// Depends on what either depends on.
  RLCORE_FN static constexpr dependence max(dependence a, dependence b) noexcept { return a + b; }
  /// Depends on what x or a bound depends on.
  RLCORE_FN static constexpr dependence clamp(dependence x, dependence low, dependence high) noexcept {
    return x + low + high;
  }
};

namespace detail {

/// Every field with its own name in it.
RLCORE_FN token<dependence> dependence_token() noexcept {
  token<dependence> t;
  for (std::size_t f = 0; f < field_count; ++f) t.*field_member<dependence>[f] = dependence::from(1u << f);
  return t;
}

template <class Term>
RLCORE_FN unsigned monitor_dependence(const Term& t) noexcept {
  unsigned used = 0;
  if constexpr (requires { t.monitor[0]; })
    for (const dependence& m : t.monitor) used |= m.fields;
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
  const auto t = piece.template operator()<dependence_math, dependence>(detail::dependence_token());
  return static_cast<field>(t.value.fields | t.slope.fields | detail::monitor_dependence(t));
}

/// Throws std::invalid_argument if a piece uses a field that it does not list in `reads`; `also` are fields that it is
/// shown in any case.
template <class P>
RLCORE_FN void check_reads(const P& piece, field also = field::none) {
  const unsigned extra = static_cast<unsigned>(fields_used(piece)) & ~static_cast<unsigned>(P::reads | also);
  if (extra != 0) detail::refuse_unlisted_field(P::name, extra);
}

namespace detail {

/// The pieces of a token objective and their gathers.
template <class Objective, std::size_t... Index>
RLCORE_FN void check_reads_of_all(const Objective& objective, std::index_sequence<Index...>) {
  const auto one = [](const auto& piece) RLCORE_LAMBDA {
    check_reads(piece);
    if constexpr (!std::is_same_v<gathers_of<std::remove_cvref_t<decltype(piece)>>, no_gather>)
      check_reads(score_of(piece));
  };
  (one(piece_at<Index>(objective)), ...);
}

/// A link of rows or pairs: besides its score and its gather, it may use only the fields that it lists.
template <class Link>
RLCORE_FN void check_reads_of_link(const Link& link) {
  unsigned used = 0, listed = static_cast<unsigned>(field::logp);
  if constexpr (requires { link.template operator()<dependence_math, dependence>(dependence_token()).slope; }) {
    used = static_cast<unsigned>(fields_used(link));
  } else {
    const auto t = link.template operator()<dependence_math, dependence>(dependence_token(), dependence_token());
    used = t.value.fields | t.slope_chosen.fields | t.slope_rejected.fields | monitor_dependence(t);
  }
  if constexpr (requires { Link::reads; }) listed |= static_cast<unsigned>(Link::reads);
  if constexpr (!std::is_same_v<gathers_of<Link>, no_gather>) listed |= static_cast<unsigned>(field::gathered);
  if ((used & ~listed) != 0) refuse_unlisted_field(Link::name, used & ~listed);
}

}  // namespace detail

RLCORE_ALGORITHM_END
RLCORE_END
