#include "rlcore/objective/traced/trace.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "objective/algorithm/catalogue.hpp"
#include "rlcore/objective/piece/slope_check.hpp"
#include "rlcore/objective/traced/run.hpp"
#include "rlcore/objective/traced/source.hpp"

namespace RLCORE_TEST_ID {

using namespace rlcore;

namespace {

template <class Term, std::size_t... M>
void add_monitors(std::vector<double>& out, const Term& t, std::index_sequence<M...>) {
  (out.push_back(t.monitor[M]), ...);
}

/// What the piece itself says, in the order of a program's results.
template <class P>
std::vector<double> by_piece(const P& piece, const token<double>& t, const token<double>& rejected) {
  std::vector<double> out;
  if constexpr (pair_link<P>) {
    const auto r = piece.template operator()<exact_math, double>(t, rejected);
    out = {r.value, r.slope_chosen, r.slope_rejected};
    if constexpr (monitor_count < P >> 0) add_monitors(out, r, std::make_index_sequence<monitor_count<P>>{});
  } else {
    const auto r = piece.template operator()<exact_math, double>(t);
    out = {r.value, r.slope};
    if constexpr (monitor_count < P >> 0) add_monitors(out, r, std::make_index_sequence<monitor_count<P>>{});
  }
  return out;
}

/// Random tokens, and those with the numbers at which clips, selects and logarithms meet their ends.
std::vector<token<double>> tokens() {
  std::vector<token<double>> all;
  for (std::uint32_t i = 0; i < 200; ++i) all.push_back(random_token(i));
  const double edges[] = {0.0,
                          -0.0,
                          1.0,
                          -1.0,
                          1e-9,
                          -1e-9,
                          -40.0,
                          90.0,
                          -800.0,
                          1e30,
                          std::numeric_limits<double>::infinity(),
                          -std::numeric_limits<double>::infinity(),
                          std::numeric_limits<double>::quiet_NaN()};
  for (std::size_t f = 0; f < field_count; ++f)
    for (const double edge : edges) {
      token<double> t = random_token(static_cast<std::uint32_t>(f));
      t.*field_member<double>[f] = edge;
      all.push_back(t);
    }
  return all;
}

bool same(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) || std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}

class checked_programs {
 public:
  /// The program gives the bits of the piece, at every token.
  template <class P>
  void operator()(const std::string& owner, const P& piece) {
    const traced_program program = trace(piece);
    names_.insert(std::string(P::name));
    for (const token<double>& t : tokens()) {
      const token<double> rejected = random_token(7);
      const std::vector<double> theirs = by_piece(piece, t, rejected), ours = run(program, t, rejected);
      ASSERT_EQ(ours.size(), theirs.size());
      for (std::size_t r = 0; r < ours.size(); ++r)
        ASSERT_TRUE(same(ours[r], theirs[r])) << owner << ": " << P::name << ": " << program.results[r].name << " is "
                                              << ours[r] << ", the piece says " << theirs[r] << "\n"
                                              << explain(program);
    }
    if constexpr (!std::is_same_v<gathers_of<P>, no_gather>) (*this)(owner, score_of(piece));
  }
  template <class Objective, std::size_t... Index>
  void pieces(const std::string& owner, const Objective& objective, std::index_sequence<Index...>) {
    ((*this)(owner, piece_at<Index>(objective)), ...);
  }
  std::size_t different() const { return names_.size(); }
  std::vector<std::string> coupled;  ///< algorithms without a program per row

 private:
  std::set<std::string> names_;
};

template <class Objective>
void check_objective(checked_programs& check, const std::string& name, const Objective& objective) {
  if constexpr (requires {
                  objective.link;
                  objective.gather;
                }) {
    using link = std::remove_cvref_t<decltype(objective.link)>;
    check(name, typename std::remove_cvref_t<decltype(objective.gather)>::score{});
    if constexpr (batch_link<link>)
      check.coupled.push_back(name);
    else
      check(name, objective.link);
  } else if constexpr (composite_piece<Objective> || token_piece<Objective>) {
    check.pieces(name, objective, std::make_index_sequence<piece_count<Objective>>{});
  } else {
    check.coupled.push_back(name);
  }
}

TEST(trace, every_piece_of_every_algorithm_is_its_program) {
  checked_programs check;
  const auto visit = [&](const char* name, const auto& a, const rlcore_test::defaults& = {}) {
    if constexpr (requires { a.objective; })
      check_objective(check, name, a.objective);
    else
      check_objective(check, name, a.pair.objective);
  };
  rlcore_test::each_of_papers(visit);
  rlcore_test::each_of_systems(visit);
  EXPECT_GT(check.different(), 25u);
  std::string coupled;
  for (const std::string& name : check.coupled) coupled += name + " ";
  RecordProperty("without_program", coupled);
  EXPECT_LT(check.coupled.size(), 20u) << coupled;
}

/// a + b and b + a, constants, and steps that change nothing.
struct repeating_piece {
  static constexpr field reads = field::logp | field::old_logp;
  static constexpr std::string_view name = "repeating";
  double scale = 2;
  template <class Math, class V>
  RLCORE_FN term<V> operator()(const token<V>& t) const noexcept {
    const V sum = t.logp + t.old_logp, again = t.old_logp + t.logp;
    const V constant = Math::exp(V(0)) * V(scale);
    [[maybe_unused]] const V dead = Math::exp(sum);
    return {sum * again * V(1) - V(0), Math::select(V(scale) > V(1), -(-sum), dead) * constant};
  }
};

TEST(trace, computes_nothing_twice_and_nothing_in_vain) {
  EXPECT_EQ(explain(repeating_piece{}),
            "repeating\n"
            "  t1    = logp + old_logp\n"
            "  value = t1 * t1\n"
            "  slope = t1 * 2\n");
  EXPECT_EQ(trace(repeating_piece{}).operations(), 3u);
}

TEST(explain, shows_pieces_coefficients_and_what_is_gathered) {
  EXPECT_EQ(explain(paper::grpo({.kl = 0.04}).objective),
            "policy\n"
            "  t1       = logp - old_logp\n"
            "  t2       = exp(t1)\n"
            "  t3       = clamp(t2, 0.8, 1.2)\n"
            "  t4       = t3 * advantage\n"
            "  t5       = t2 * advantage\n"
            "  t6       = t4 < t5\n"
            "  t7       = select(t6, t4, t5)\n"
            "  value    = -t7\n"
            "  t8       = -t5\n"
            "  slope    = select(t6, 0, t8)\n"
            "  clipfrac = select(t6, 1, 0)\n"
            "kl, times 0.04\n"
            "  t1    = ref_logp - logp\n"
            "  value = excess(t1)\n"
            "  t2    = expm1(t1)\n"
            "  slope = -t2\n");
  const std::string gspo = explain(paper::gspo().objective);
  EXPECT_NE(gspo.find("  gathered = the mean over the row of value:\n    value = logp - old_logp\n"), gspo.npos)
      << gspo;
  const std::string dpo = explain(paper::dpo().objective);
  EXPECT_NE(dpo.find("logp = the sum over the row of value:\n  value = logp - ref_logp\n"), dpo.npos) << dpo;
  EXPECT_NE(dpo.find("logp - rejected.logp"), dpo.npos) << dpo;
}

}  // namespace
}  // namespace RLCORE_TEST_ID
