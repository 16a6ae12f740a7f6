// sft_trainer with OpenRLHF's flags: how rows are read.
#pragma once

#include <string>

#include "rlcore/config/options.hpp"
#include "rlcore/config/programs/sft.hpp"
#include "rlcore/data/sft_rows.hpp"
#include "rlcore/trainer/preference/row_text.hpp"
#include "rlcore/trainer/preference/settings.hpp"
#include "rlcore/trainer/supervised/sft_settings.hpp"

RLCORE_BEGIN
namespace trainer {

/// True for options of openrlhf_sft_registry().
inline bool speaks_openrlhf(const options& opt) { return opt.known().find("pretrain") != nullptr; }

/// The key of the model to start from: pretrain, or model.partial_pretrain. Throws config_error if the latter is not
/// given, since verl's default is never intended.
inline std::string sft_model_key(const options& opt) {
  if (speaks_openrlhf(opt)) return "pretrain";
  if (!opt.is_set("model.partial_pretrain"))
    throw config_error("model.partial_pretrain is not given; expected a model folder or id (--help lists all keys)");
  return "model.partial_pretrain";
}

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
