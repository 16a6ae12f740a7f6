// Offloading: which optimizers keep their moments in host memory, or in a file.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "rlcore/config/options.hpp"
#include "rlcore/config/settings/rank_options.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/optim/adamw.hpp"

RLCORE_BEGIN
namespace train {

namespace detail {

/// The keys that offload an optimizer, as typed, and the one to use. Those of FSDP and Megatron have an effect with the
/// actor's strategy alone.
struct asked_offloads {
  std::vector<std::string> taken, ignored, unread;
  std::string key;

  /// `optimizer`: the prefix of override_optimizer_config, whose optimizer_cpu_offload is Megatron's.
  asked_offloads(const options& opt, std::initializer_list<const char*> names, const std::string& optimizer) {
    const bool megatron = read_strategy(opt).strategy == "megatron";
    for (const std::string_view name : names) {
      if (opt.known().find(name) == nullptr) continue;
      const bool right = name.find(".megatron.") != name.npos ? megatron : !megatron || name.find("fsdp") == name.npos;
      if (key.empty() && right) key = opt.known().typed_name(std::string(name));
      if (!opt.get<bool>(std::string(name))) continue;
      (right ? taken : ignored).push_back(opt.known().typed_name(std::string(name)));
    }
    const std::string map = optimizer + "override_optimizer_config";
    if (opt.known().find(map) == nullptr) return;
    for (const member& m : *opt.at(map).as<value::map>())
      if (m.name != "optimizer_cpu_offload")
        unread.push_back(map + "." + m.name + "=" + inline_text(m.item));
      else if (const auto* on = m.item.as<bool>(); on != nullptr && *on)
        (megatron ? taken : ignored).push_back(map + "." + m.name);
  }
};
inline asked_offloads model_offloads(const options& opt) {
  return {opt,
          {"actor_rollout_ref.actor.fsdp_config.optimizer_offload",
           "actor_rollout_ref.actor.megatron.optimizer_offload", "model.fsdp_config.cpu_offload", "adam_offload"},
          "actor_rollout_ref.actor.optim."};
}
inline asked_offloads critic_offloads(const options& opt) {
  return {opt, {"critic.model.fsdp_config.optimizer_offload", "critic.megatron.optimizer_offload"}, "critic.optim."};
}
inline optim::moment_place place_of(const options& opt, const asked_offloads& asked) {
  const auto folder = opt.find<std::string>("rlcore.offload_folder");
  return {!asked.taken.empty() && (folder || asked_device(opt).kind != device_kind::cpu), folder.value_or("")};
}

}  // namespace detail

/// Where the optimizer of the trained model keeps its moments: offloaded by verl's or OpenRLHF's key, to host memory or
/// to a file in rlcore.offload_folder; on the CPU only to a file.
inline optim::moment_place read_moment_place(const options& opt) {
  return detail::place_of(opt, detail::model_offloads(opt));
}
/// The same of the critic.
inline optim::moment_place read_critic_moment_place(const options& opt) {
  return detail::place_of(opt, detail::critic_offloads(opt));
}

/// Adds notes about keys without effect. Throws config_error if the folder does not exist or may not be written.
inline void check_offload_options(options& opt) {
  if (opt.known().find("rlcore.offload_folder") == nullptr) return;
  std::vector<detail::asked_offloads> all{detail::model_offloads(opt)};
  if (opt.known().find("critic.enable") != nullptr &&
      opt.find<bool>("critic.enable").value_or(opt.get<std::string>("algorithm.adv_estimator") == "gae"))
    all.push_back(detail::critic_offloads(opt));
  std::string names;
  for (const detail::asked_offloads& asked : all) {
    for (const std::string& name : asked.taken)
      if (names.find(name) == names.npos) names += (names.empty() ? "" : ", ") + name;  // one flag may be both
    for (const std::string& name : asked.ignored)
      opt.note(name + ": no effect with the actor's strategy=" + detail::read_strategy(opt).strategy);
    for (const std::string& setting : asked.unread) opt.note("accepted, without effect on this device: " + setting);
  }
  const auto folder = opt.find<std::string>("rlcore.offload_folder");
  if (folder && !std::filesystem::is_directory(*folder))
    throw config_error("rlcore.offload_folder=" + *folder + ": no such folder");
  if (folder && ::access(folder->c_str(), W_OK | X_OK) != 0)
    throw config_error("rlcore.offload_folder=" + *folder + ": this user may not write there");
  if (folder && names.empty()) opt.note("rlcore.offload_folder has no effect without " + all.front().key);
  if (!folder && !names.empty() && asked_device(opt).kind == device_kind::cpu)
    opt.note(names +
             ": no effect on the CPU, whose memory is the host's; rlcore.offload_folder=DIR keeps the optimizer's "
             "moments in a file there");
}

}  // namespace train
RLCORE_END
