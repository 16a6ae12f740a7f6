// The sets of weights of a server: the model's own, and with each adapter a model of its own.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "rlcore/checkpoint/merge_adapter.hpp"
#include "rlcore/checkpoint/resolve_model.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/nn/model/causal_lm.hpp"
#include "rlcore/rollout/session_limits.hpp"
#include "rlcore/serving/context.hpp"
#include "rlcore/serving/engine_thread.hpp"
#include "rlcore/serving/served_weights.hpp"
#include "rlcore/serving/session_engine.hpp"
#include "rlcore/serving/warm_up.hpp"
#include "rlcore/serving/weight_control.hpp"
#include "rlcore/serving/weights_fingerprint.hpp"

RLCORE_BEGIN
namespace serving {

/// What an engine is built from. All engines of a server have the same; the references outlive them.
template <class Device>
struct engine_parts {
  nn::workspace<Device>& space;
  engine_thread& thread;
  rollout::session_limits limits;
  std::function<void(const std::string&)> failed;
};

/// How many adapters a server holds.
struct adapter_limits {
  std::size_t places = 0;
  std::optional<std::int64_t> max_rank{};
};

/// An adapter is added to a copy of the model's weights, which an engine of its own reads: its texts are those of the
/// merged model to the bit, and no engine sees the keys and values of another. Engines take turns, a pass each.
template <class Device>
class weight_keeper final : public weight_control {
 public:
  /// The model has to be that of shared.own. It and the context outlive the keeper, which outlives all requests.
  weight_keeper(context& shared, const nn::causal_lm<Device>& model, engine_parts<Device> parts, adapter_limits limits)
      : shared_(shared), model_(model), parts_(std::move(parts)), limits_(limits) {}
  weight_keeper(const weight_keeper&) = delete;
  weight_keeper& operator=(const weight_keeper&) = delete;
  ~weight_keeper() override {
    for (const auto& [name, weights] : shared_.adapters()) shared_.remove_adapter(name);
  }

  void load_adapter(const std::string& name, const std::string& path, bool in_place,
                    const std::function<bool()>& connected) override {
    const std::lock_guard lock(changing_);
    std::shared_ptr<served_weights> there;
    if (const auto all = shared_.adapters(); all.contains(name)) there = all.at(name);
    if (shared_.is_own(name) || (there && !in_place))
      throw api_error(400, "InvalidUserInput", "The lora adapter '" + name + "' has already been loaded.");
    const std::vector<float> weights = merged(name, path);
    weights_origin origin{path, fingerprint_of(weights)};
    if (there) return exchange(holder_of(*there), *there, weights, std::move(origin), connected);
    wait_for_a_place(connected);
    const std::shared_ptr<holder> made = hold(weights);
    warm_up(made->engine, shared_.model);
    shared_.add_adapter(name, std::make_shared<served_weights>(made->engine, shared_.model.seed, origin, made));
    shared_.log("loaded the adapter '" + name + "' from " + path);
  }
  void unload_adapter(const std::string& name) override {
    if (!shared_.remove_adapter(name)) throw not_found("The lora adapter '" + name + "' cannot be found.");
    shared_.log("unloaded the adapter '" + name + "'");
  }
  /// Ends all jobs of adapters of this moment.
  void cancel_all() {
    const std::lock_guard lock(mutex_);
    for (holder* const one : living_) one->engine.cancel_all();
  }

 private:
  /// Made and destroyed in the engines' thread.
  struct holder {
    nn::causal_lm<Device> model;
    session_engine<Device> engine;
    holder(const nn::causal_lm<Device>& like, const engine_parts<Device>& parts)
        : model(like.device(), like.settings()), engine(model, parts.space, parts.limits, parts.thread, parts.failed) {}
  };

  /// The model's weights with the adapter.
  std::vector<float> merged(const std::string& name, const std::string& path) const {
    const std::string begin = "Loading lora " + name + " failed: ";
    const std::filesystem::path folder = checkpoint::expand_home(path);
    if (!checkpoint::is_adapter(folder))
      throw not_found(begin + "No adapter found for " + path + "; expected a folder with adapter_config.json");
    try {
      const checkpoint::tensor_folder base(shared_.own->origin().folder);
      const checkpoint::adapter_weights adapter(folder, base);
      if (const std::int64_t rank = adapter.config().lora.rank; limits_.max_rank && rank > *limits_.max_rank)
        throw config_error("LoRA rank " + std::to_string(rank) + " is greater than max_lora_rank " +
                           std::to_string(*limits_.max_rank));
      std::vector<float> weights(model_.size());
      checkpoint::load_merged(base, adapter, model_.parameters(), weights);
      return weights;
    } catch (const error& e) {
      throw bad_request(begin + e.what());
    }
  }

  /// Returns when an adapter may be held. Throws api_error 400 where none of those that are held has been unloaded.
  void wait_for_a_place(const std::function<bool()>& connected) const {
    while (living() >= limits_.places) {
      std::string names;
      std::size_t named = 0;
      for (const auto& [name, weights] : shared_.adapters()) names += (named++ == 0 ? "'" : ", '") + name + "'";
      if (named >= limits_.places)
        throw bad_request("all " + std::to_string(limits_.places) + " places for adapters are taken, by " + names +
                          "; unload one, or start the server with a larger --max-loras");
      if (connected && !connected()) throw client_gone();
      std::this_thread::sleep_for(std::chrono::milliseconds(20));  // one that was unloaded still answers
    }
  }
  std::shared_ptr<holder> hold(std::span<const float> weights) {
    std::unique_ptr<holder> made;
    parts_.thread.run([&] {
      made = std::make_unique<holder>(model_, parts_);
      made->model.weights().upload(weights);
    });
    const std::lock_guard lock(mutex_);
    living_.push_back(made.get());
    return {made.release(), [this](holder* one) {
              const std::lock_guard leaving(mutex_);
              parts_.thread.run([&] { delete one; });
              std::erase(living_, one);
            }};
  }
  std::size_t living() const {
    const std::lock_guard lock(mutex_);
    return living_.size();
  }
  holder& holder_of(const served_weights& served) const {
    const std::lock_guard lock(mutex_);
    return **std::find_if(living_.begin(), living_.end(), [&](holder* h) { return &h->engine == &served.engine; });
  }

  /// Gives the engine other weights when its requests have ended; those that come meanwhile wait.
  void exchange(holder& to, served_weights& served, std::span<const float> weights, weights_origin origin,
                const std::function<bool()>& connected) {
    served.door.close();
    struct opened_again {
      gate& door;
      ~opened_again() { door.open(); }
    } const opened{served.door};
    served.door.wait_empty([&] { return !connected || connected(); });
    parts_.thread.run([&] {
      to.model.weights().upload(weights);
      to.engine.forget_prefixes();
    });
    served.now_from(std::move(origin));
  }

  context& shared_;
  const nn::causal_lm<Device>& model_;
  engine_parts<Device> parts_;
  adapter_limits limits_;
  std::mutex changing_;  ///< one change at a time
  mutable std::mutex mutex_;
  std::vector<holder*> living_;  ///< also those that were unloaded and still answer
};

}  // namespace serving
RLCORE_END
