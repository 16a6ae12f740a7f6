// Rules of OpenRLHF's command lines that span several flags.
#pragma once

#include <cstdint>
#include <string>

#include "rlcore/config/check_value.hpp"
#include "rlcore/config/checks/device_checks.hpp"
#include "rlcore/config/options.hpp"
#include "rlcore/config/settings/image_options.hpp"
#include "rlcore/core/error.hpp"

RLCORE_BEGIN
namespace trainer {

/// The two decay rates of --adam_betas. Throws config_error.
std::pair<double, double> adam_betas(const options& opt);

/// Runs OpenRLHF's checks, including those that it runs late. Throws config_error; adds notes.
void check_preference_options(options& opt);

}  // namespace trainer
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_CONFIG)
RLCORE_BEGIN
namespace trainer {

RLCORE_INLINE std::pair<double, double> adam_betas(const options& opt) {
  const value& setting = opt.at("adam_betas");
  double betas[2] = {-1, -1};
  if (const auto* items = setting.as<value::list>(); items != nullptr && items->size() == 2)
    for (std::size_t i = 0; i < 2; ++i) {
      const value& x = (*items)[i];
      if (const auto* real = x.as<double>()) betas[i] = *real;
      if (const auto* whole = x.as<std::int64_t>()) betas[i] = static_cast<double>(*whole);
    }
  for (const double b : betas)
    if (!(b >= 0 && b < 1))
      throw config_error("adam_betas=" + inline_text(setting) + ": expected two numbers from 0 to below 1");
  return {betas[0], betas[1]};
}

RLCORE_INLINE void check_preference_options(options& opt) {
  check_device_options(opt);
  check_image_options(opt);
  for (const char* name : {"pretrain", "dataset"})
    if (opt.find<std::string>(name).value_or("").empty())
      throw config_error("--" + std::string(name) + " is needed (" + std::string(opt.known().find(name)->meaning) +
                         ")");
  adam_betas(opt);
  if (opt.get<std::int64_t>("ring_attn_size") > 1 && !opt.get<bool>("packing_samples"))
    throw config_error("--ring_attn_size " + std::to_string(opt.get<std::int64_t>("ring_attn_size")) +
                       " needs --packing_samples: ring attention is defined on packed rows");
  if (opt.get<bool>("packing_samples") && !opt.get<bool>("flash_attn"))
    opt.note("--packing_samples without --flash_attn: upstream turns --flash_attn on; neither has an effect here");
  if (opt.known().find("input_template") != nullptr) {
    const std::string form = opt.find<std::string>("input_template").value_or("");
    if (!form.empty() && form.find("{}") == form.npos) {
      opt.note("--input_template has no {}: as upstream, it is not used");
      opt.set("input_template", value(std::string()));
    } else if (form.find("\\n") != form.npos) {
      opt.note("--input_template holds \\n as two characters; for a line end write $'...\\n...' in bash");
    }
    if (opt.get<bool>("apply_chat_template") && opt.is_set("input_template"))
      opt.note("--input_template has no effect with --apply_chat_template");
  }
  if (opt.get<std::int64_t>("micro_train_batch_size") > opt.get<std::int64_t>("train_batch_size"))
    opt.note("--micro_train_batch_size is larger than --train_batch_size: a step is one pass");
}

}  // namespace trainer
RLCORE_END
#endif
