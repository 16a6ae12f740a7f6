// The rows of --dataset and --eval_dataset, read and announced.
#pragma once

#include <string>

#include "rlcore/config/options.hpp"
#include "rlcore/data/blend.hpp"
#include "rlcore/telemetry/console.hpp"
#include "rlcore/trainer/preference/open.hpp"
#include "rlcore/trainer/preference/pair_rows.hpp"
#include "rlcore/trainer/preference/preference_rows.hpp"
#include "rlcore/trainer/preference/run.hpp"
#include "rlcore/trainer/preference/step_rows.hpp"
#include "rlcore/trainer/preference/unpaired_rows.hpp"
#include "rlcore/trainer/supervised/base_model.hpp"

RLCORE_BEGIN
namespace trainer {

namespace detail {

/// read(blend) of --dataset, and of --eval_dataset if it is given.
template <class Row, class Read>
row_sets<Row> open_sets(const options& opt, Read&& read) {
  row_sets<Row> out;
  out.train = read(open_training_rows(opt));
  if (const auto rows = open_evaluation_rows(opt)) out.held_out = read(*rows);
  return out;
}

}  // namespace detail

template <class Row>
void announce_rows(const options& opt, const preference_rows<Row>& train, const preference_rows<Row>& held_out) {
  train.require_some(opt.get<std::string>("dataset"));
  say("%s\n", train.summary("train").c_str());
  if (held_out.read > 0) say("%s\n", held_out.summary("eval ").c_str());
}

}  // namespace trainer
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TRAINER)
RLCORE_BEGIN
namespace trainer {

RLCORE_INLINE row_sets<preference_pair> open_pairs(const options& opt, const pair_columns& keys, const row_rules& rules,
                                                   bool for_dpo) {
  return detail::open_sets<preference_pair>(
      opt, [&](const data::blend& from) { return read_pairs(from, keys, rules, for_dpo); });
}

RLCORE_INLINE row_sets<unpaired_row> open_unpaired(const options& opt, const unpaired_columns& keys,
                                                   const row_rules& rules) {
  return detail::open_sets<unpaired_row>(opt,
                                         [&](const data::blend& from) { return read_unpaired(from, keys, rules); });
}

RLCORE_INLINE row_sets<judged_row> open_steps(const options& opt, const step_columns& keys, const step_tokens& words,
                                              const row_rules& rules) {
  return detail::open_sets<judged_row>(opt,
                                       [&](const data::blend& from) { return read_steps(from, keys, words, rules); });
}

RLCORE_INLINE step_tokens find_step_tokens(const base_model& base, const step_columns& keys) {
  return find_step_tokens(base.tokenizer, keys);
}

}  // namespace trainer
RLCORE_END
#endif
