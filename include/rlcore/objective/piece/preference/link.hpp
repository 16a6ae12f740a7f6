// Links of preference losses: a link maps the scores of rows, pairs or the batch to a loss and its slope by each score.
//
// A row link is a token piece that sees one sequence: logp holds its score; advantage, weight, value, old_value,
// target, selected and entropy hold what the batch has for the row, if the link reads them; other fields are 0 where it
// reads them and NaN where it does not. So every surrogate works at the level of sequences as it is. A pair link sees
// two sequences, a batch link all. A link with a member type `gathers` reads that second statistic of each row as
// field::gathered.
#pragma once

#include <array>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/compiler.hpp"
#include "rlcore/objective/piece/combine/sum.hpp"
#include "rlcore/objective/piece/piece.hpp"
#include "rlcore/objective/piece/score.hpp"
#include "rlcore/tensor/span.hpp"
#include "rlcore/tensor/traits.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// The scale of a link (beta, a temperature), finite and above 0, anything else throws std::invalid_argument. With beta
/// <= 0 a preference loss has no gradient or prefers the rejected answer.
struct positive {
  double value;
  /// Throws std::invalid_argument unless x is finite and above 0.
  constexpr positive(double x) : value(x) {
    if (!(x > 0) || x - x != 0)
      throw std::invalid_argument("rlcore: the beta (or temperature) of a link is a finite number above 0, not " +
                                  std::to_string(x));
  }
  constexpr operator double() const noexcept { return value; }
};

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
/// compare across the batch (AOT, ranking); it must come as one batch. Rows without live tokens have score 0.
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
  /// The gather `g` and the link `l` on its result.
  constexpr sequence_objective(Gather g, Link l) : gather(g), link(l) {}
};

/// 1 for the label 1 (desirable), -1 for 0 (undesirable), NaN for anything else, so that a wrong label shows in the
/// loss.
template <class Math, class V>
RLCORE_FN V label_sign(const V& label) noexcept {
  return Math::select(label == V(1), V(1),
                      Math::select(label == V(0), V(-1), V(std::numeric_limits<double>::quiet_NaN())));
}

/// log(1 - e^x), without cancellation at either end: by expm1 above -log 2, by log1p below. 0 gives -infinity, x > 0
/// gives NaN.
template <class Math, class V>
RLCORE_FN V log1m_exp(const V& x) noexcept {
  return Math::select(x > V(-0.6931471805599453), Math::log(-Math::expm1(x)), Math::log1p(-Math::exp(x)));
}

/// The diagnostics of every pair link: share of pairs ranked right, and the implicit rewards beta * score of both
/// sides.
inline constexpr std::array<std::string_view, 3> pair_monitors{"accuracy", "reward_chosen", "reward_rejected"};

/// The per-row fields that a link reads besides the scores.
template <class Link>
constexpr field row_fields_of() noexcept {
  if constexpr (requires { Link::reads; })
    return Link::reads;
  else
    return field::none;
}

namespace detail {

/// The statistic that several links of one objective gather besides the score; `agree` is false if two differ.
template <class... Links>
struct shared_gather {
  using type = no_gather;
  static constexpr bool agree = true;
};
template <class First, class... Rest>
struct shared_gather<First, Rest...> {
  using of_first = gathers_of<First>;
  using of_rest = typename shared_gather<Rest...>::type;
  static constexpr bool none = std::is_same_v<of_first, no_gather>;
  using type = std::conditional_t<none, of_rest, of_first>;
  static constexpr bool agree = shared_gather<Rest...>::agree &&
                                (none || std::is_same_v<of_rest, no_gather> || std::is_same_v<of_first, of_rest>);
};

}  // namespace detail

/// -(1 - smoothing) log sigmoid(z) - smoothing log sigmoid(-z), and its slope by z. A share of 0 is not evaluated, so
/// that 0 * infinity cannot arise; the slope is made of the smaller side, so that a confident pair keeps its digits.
template <class Math, class V>
RLCORE_FN term<V> smoothed_logistic(const V& z, double smoothing) noexcept {
  const V flipped = Math::select(V(smoothing) > V(0), V(smoothing) * Math::softplus(z), V(0));
  return {V(1 - smoothing) * Math::softplus(-z) + flipped,
          V(smoothing) * Math::sigmoid(z) - V(1 - smoothing) * Math::sigmoid(-z)};
}

/// A pair's value and slopes with the diagnostics of `pair_monitors`.
template <class Math, class V>
RLCORE_FN pair_term<V, 3> judged_pair(const V& value, const V& slope_chosen, const V& slope_rejected, double beta,
                                      const token<V>& chosen, const token<V>& rejected) noexcept {
  return {value,
          slope_chosen,
          slope_rejected,
          {Math::select(chosen.logp > rejected.logp, V(1), V(0)), V(beta) * chosen.logp, V(beta) * rejected.logp}};
}

/// rows[2k], rows[2k + 1] = the two rows of pair k, the one with the higher score first; equal scores keep their order
/// (online DPO, Guo et al. 2024; TRL's OnlineDPOTrainer, verl's spin). Gather the batch in that order before a pair
/// loss. rows holds integers. Throws std::invalid_argument if rows are odd, sizes differ, or a score is NaN: an
/// unscored answer cannot be chosen.
template <class Scores, class Rows>
void order_pairs(const Scores& scores_, Rows&& rows_) {
  const auto scores = as_view<1>(scores_);
  const auto rows = as_view<1>(rows_);
  if (scores.shape != rows.shape || scores.shape[0] % 2 != 0)
    throw std::invalid_argument("rlcore: pairs need an even number of scores and as many rows; scores are " +
                                to_string<1>(scores.shape) + ", rows " + to_string<1>(rows.shape));
  using index = typename decltype(rows)::value_type;
  for (extent_t i = 0; i < scores.shape[0]; i += 2) {
    for (extent_t k = i; k < i + 2; ++k)
      if (std::isnan(static_cast<double>(scores(k))))
        throw std::invalid_argument("rlcore: score " + std::to_string(k) + " is NaN, so its pair has no chosen answer");
    const extent_t chosen = scores(i) >= scores(i + 1) ? i : i + 1;
    rows(i) = static_cast<index>(chosen);
    rows(i + 1) = static_cast<index>(2 * i + 1 - chosen);
  }
}

/// per_token{link}: the link on either score divided by its number of live tokens (at least 1). On sum_of a score it is
/// the link on mean_of that score; it is needed where another link of the same objective needs the sum, e.g.
/// mixed{bradley_terry{}, per_token{ipo_link{}}}, or where the sum is transformed before it is averaged, as TRL does:
/// transformed{forward_kl_reward{}, per_token{ipo_link{}}}.
template <class Link>
struct per_token {
  static_assert(pair_link<Link>, "rlcore: per_token holds a link of pairs; single rows are averaged by mean_of");
  static_assert(std::is_same_v<gathers_of<Link>, no_gather>, "rlcore: this link gathers something else already");
  using gathers = sum_of<token_count>;
  static constexpr field reads = row_fields_of<Link>() | field::gathered;
  static constexpr std::string_view name = Link::name;
  static constexpr auto monitors = monitors_of<Link>();
  [[no_unique_address]] Link link;

  /// The link `l` on averages.
  constexpr explicit per_token(Link l) : link(l) {}

  template <class Math, class V>
  RLCORE_FN pair_term<V, monitor_count<Link>> operator()(const token<V>& chosen,
                                                         const token<V>& rejected) const noexcept {
    const V of_chosen = Math::max(chosen.gathered, V(1)), of_rejected = Math::max(rejected.gathered, V(1));
    token<V> c = chosen, r = rejected;
    c.logp = chosen.logp / of_chosen, r.logp = rejected.logp / of_rejected;
    auto result = link.template operator()<Math, V>(c, r);
    result.slope_chosen = result.slope_chosen / of_chosen;
    result.slope_rejected = result.slope_rejected / of_rejected;
    return result;
  }
};

/// mixed{scaled{0.8, bradley_terry{}}, bco_pair_link{}}: the weighted sum of links on the same scores (MPO, Wang et al.
/// 2024; TRL's list of loss types with loss_weights, whose default weights are 1). Monitors: those of the first link,
/// then every link's own value under its name, not multiplied. Links on other gathers, and losses on tokens, are
/// further calls of evaluate with token_gradients::add.
template <class... Nodes>
struct mixed {
  static constexpr std::size_t links = piece_count<sum<Nodes...>>;
  template <std::size_t Index>
  using link = piece_type<Index, sum<Nodes...>>;

  static constexpr bool all_pairs = []<std::size_t... Index>(std::index_sequence<Index...>) {
    return (pair_link<link<Index>> && ...);
  }(std::make_index_sequence<links>{});
  static_assert(all_pairs, "rlcore: mixed holds links of pairs, each bare or as scaled{weight, link}");

  /// The type whose members say which gather the links share; declared only.
  template <std::size_t... Index>
  static auto gather_all(std::index_sequence<Index...>) -> detail::shared_gather<link<Index>...>;
  using shared = decltype(gather_all(std::make_index_sequence<links>{}));
  static_assert(shared::agree,
                "rlcore: two links of this mixture gather different things over a row; evaluate them by "
                "two calls, the second with token_gradients::add");
  using gathers = typename shared::type;

  static constexpr field reads = []<std::size_t... Index>(std::index_sequence<Index...>) {
    return (field::none | ... | row_fields_of<link<Index>>());
  }(std::make_index_sequence<links>{});
  static constexpr std::string_view name = "mixed";

  static constexpr std::size_t of_first = monitor_count<link<0>>;
  static constexpr auto monitors = []<std::size_t... Index>(std::index_sequence<Index...>) {
    std::array<std::string_view, of_first + links> names{};
    for (std::size_t m = 0; m < of_first; ++m) names[m] = monitors_of<link<0>>()[m];
    ((names[of_first + Index] = link<Index>::name), ...);
    return names;
  }(std::make_index_sequence<links>{});

  [[no_unique_address]] sum<Nodes...> nodes;

  /// The links, each bare or as scaled{weight, link}.
  constexpr explicit mixed(Nodes... n) : nodes(n...) {}

  template <std::size_t Index = 0>
  constexpr auto score() const noexcept
    requires(!std::is_same_v<gathers, no_gather>)
  {
    if constexpr (std::is_same_v<gathers_of<link<Index>>, no_gather>)
      return score<Index + 1>();
    else
      return score_of(piece_at<Index>(nodes));
  }

  template <class Math, class V>
  RLCORE_FN pair_term<V, of_first + links> operator()(const token<V>& chosen, const token<V>& rejected) const noexcept {
    pair_term<V, of_first + links> total{};
    add<0, Math>(chosen, rejected, total);
    return total;
  }

 private:
  template <std::size_t Index, class Math, class V>
  RLCORE_FN void add(const token<V>& chosen, const token<V>& rejected,
                     pair_term<V, of_first + links>& total) const noexcept {
    const auto one = piece_at<Index>(nodes).template operator()<Math, V>(chosen, rejected);
    const V weight(coefficient_at<Index>(nodes));
    if constexpr (Index == 0)
      for (std::size_t m = 0; m < of_first; ++m) total.monitor[m] = one.monitor[m];
    total.monitor[of_first + Index] = one.value;
    total.value = total.value + weight * one.value;
    total.slope_chosen = total.slope_chosen + weight * one.slope_chosen;
    total.slope_rejected = total.slope_rejected + weight * one.slope_rejected;
    if constexpr (Index + 1 < links) add<Index + 1, Math>(chosen, rejected, total);
  }
};

template <class... Nodes>
mixed(Nodes...) -> mixed<Nodes...>;

RLCORE_ALGORITHM_END
RLCORE_END
