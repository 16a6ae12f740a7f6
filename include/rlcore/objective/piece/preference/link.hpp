// Terms that couple whole sequences: from one score per sequence to a loss and its slope by each score.
//
// A row link is a token piece that is shown one sequence: logp holds its score; advantage, weight, value, old_value,
// target, selected and entropy hold what the batch has for the row, if the link reads them; other fields are 0 where it
// reads them and NaN where it does not.
// So every surrogate works at the level of sequences as it is. A pair link is shown two sequences, a batch link all.
// A link with a member type `gathers` finds that second statistic of each row in field::gathered.
#pragma once

#include <concepts>
#include <cstddef>
#include <span>
#include <string_view>

#include "rlcore/objective/piece/piece.hpp"
#include "rlcore/objective/piece/preference/positive.hpp"
#include "rlcore/objective/piece/score/gather.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// What a pair link returns: its value, the slope by either score, and its diagnostics.
template <class V, std::size_t Monitors = 0>
struct pair_term {
  V value, slope_chosen, slope_rejected;
  V monitor[Monitors];
};
template <class V>
struct pair_term<V, 0> {
  V value, slope_chosen, slope_rejected;
};

/// A link of two rows: called with the tokens of the chosen and of the rejected row, it returns a pair_term.
template <class L>
concept pair_link = requires(const L l, const token<double>& t) {
  { L::name } -> std::convertible_to<std::string_view>;
  { l.template operator()<exact_math, double>(t, t) } -> std::same_as<pair_term<double, monitor_count<L>>>;
};

/// All rows of the step at once: returns the term and writes its slope by each row's score. For losses that sort or
/// compare across the batch (AOT, ranking); it has to come as one batch. Rows without live tokens are shown with score
/// 0.
template <class L>
concept batch_link = requires(const L l, std::span<const token<double>> rows, std::span<double> slope) {
  { L::name } -> std::convertible_to<std::string_view>;
  { l(rows, slope) } -> std::same_as<double>;
};

/// gather -> link -> scatter: one scalar per sequence, a loss of one row or of a pair of rows, and its slope back to
/// every live token. Pairs are rows 2k (chosen) and 2k + 1 (rejected).
template <class Gather, class Link>
struct sequence_objective {
  Gather gather;
  [[no_unique_address]] Link link;
  /// The gather `g` and the link `l` on what it gathers.
  constexpr sequence_objective(Gather g, Link l) : gather(g), link(l) {}
};

RLCORE_ALGORITHM_END
RLCORE_END
