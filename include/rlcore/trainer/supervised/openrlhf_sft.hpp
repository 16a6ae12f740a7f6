// sft_trainer with OpenRLHF's flags: what they mean for rows, loop and trainee.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rlcore/core/error.hpp"
#include "rlcore/data/sft_rows.hpp"
#include "rlcore/trainer/options.hpp"
#include "rlcore/trainer/options/preference_checks.hpp"
#include "rlcore/trainer/preference/row_text.hpp"
#include "rlcore/trainer/preference/settings.hpp"
#include "rlcore/trainer/registry/openrlhf_keys.hpp"
#include "rlcore/trainer/registry/openrlhf_sft_keys.hpp"
#include "rlcore/trainer/registry/rank_keys.hpp"
#include "rlcore/trainer/supervised/sft_settings.hpp"

RLCORE_BEGIN
namespace trainer {

/// Throws config_error for combinations that cannot work, adds notes for those that work differently than they look.
inline void check_openrlhf_sft(options& opt) {
  check_preference_options(opt);
  const bool chat = opt.get<bool>("apply_chat_template"), text = opt.get<bool>("pretrain_mode");
  const bool output = !opt.find<std::string>("output_key").value_or("").empty();
  if (opt.get<bool>("multiturn") && !chat)
    throw config_error("--multiturn needs --apply_chat_template: turns are marked by the chat template");
  if (!text && !chat && !output)
    throw config_error(
        "--output_key is needed: the column with the response (for whole conversations in --input_key add "
        "--apply_chat_template, for plain texts --pretrain_mode)");
  for (const char* name : {"apply_chat_template", "multiturn", "output_key", "input_template"})
    if (text && opt.is_set(name)) opt.note("--" + std::string(name) + " has no effect with --pretrain_mode");
}

/// OpenRLHF's flags, at least one of which is on the command line.
inline registry openrlhf_sft_registry() {
  registry known;
  known.program = "sft_trainer";
  known.summary = "supervised fine-tuning of a language model on written answers, with OpenRLHF's flags";
  known.check = check_openrlhf_sft;
  known.add_as_flags(keys::openrlhf_data).add_as_flags(keys::openrlhf_training).add_as_flags(keys::openrlhf_run);
  known.add_as_flags(keys::openrlhf_device).add_as_flags(keys::openrlhf_sft);
  known.add(keys::ranks).add(keys::sharing).add(keys::device).add(keys::openrlhf_own);
  return known.add(keys::openrlhf_sft_own).add_flags(keys::openrlhf_flags).add_flags(keys::show_mask);
}

/// The keys that a command line is written in: verl's, or OpenRLHF's as soon as it has one of their flags.
inline registry sft_registry(int argc, const char* const* argv) {
  const registry verl = sft_registry(), openrlhf = openrlhf_sft_registry();
  const auto shared = [&](std::string_view word) {
    return std::any_of(verl.flags().begin(), verl.flags().end(), [&](const flag& f) { return f.name == word; });
  };
  for (int i = 1; i < argc; ++i) {
    std::string_view word = argv[i];
    const bool dashes = word.starts_with("--");
    if (dashes) word.remove_prefix(2);
    word = word.substr(0, word.find('='));
    if (word.find('.') != word.npos || shared(word)) continue;
    for (const key& k : openrlhf.keys())
      if (k.name == word && (dashes || std::string_view(argv[i]).find('=') != std::string_view::npos)) return openrlhf;
  }
  return verl;
}

/// True for options of openrlhf_sft_registry().
inline bool speaks_openrlhf(const options& opt) { return opt.known().find("pretrain") != nullptr; }

/// How OpenRLHF reads a row.
inline data::sft_settings read_openrlhf_rows(const options& opt, const row_rules& rules) {
  data::sft_settings s;
  s.layout = opt.get<bool>("pretrain_mode") ? data::sft_layout::text
             : rules.chat                   ? data::sft_layout::chat
                                            : data::sft_layout::plain;
  s.prompt_key = opt.get<std::string>("input_key");
  s.response_key = opt.find<std::string>("output_key").value_or("");
  s.learnt = opt.get<bool>("multiturn") ? data::learnt_turns::all : data::learnt_turns::last;
  s.max_length = rules.max_len;
  if (!rules.input_template) return s;
  const std::string mark(1, '\1'), filled = fill_template(*rules.input_template, mark);
  s.before = filled.substr(0, filled.find(mark));
  s.after = filled.substr(s.before.size() + 1);
  return s;
}

}  // namespace trainer
RLCORE_END
