// Weight sets of a server: the base model, and one merged model per adapter.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "rlcore/checkpoint/hugging_face.hpp"
#include "rlcore/checkpoint/merge_adapter.hpp"
#include "rlcore/checkpoint/model_weights.hpp"
#include "rlcore/checkpoint/write_config.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/rollout/request.hpp"
#include "rlcore/rollout/session_memory.hpp"
#include "rlcore/serving/context.hpp"
#include "rlcore/serving/generator.hpp"
#include "rlcore/serving/served_model.hpp"
#include "rlcore/serving/served_ranks.hpp"
#include "rlcore/serving/session_engine.hpp"
#include "rlcore/serving/weight_control.hpp"

RLCORE_BEGIN
namespace serving {

/// Runs the first pass, which allocates the buffers of later ones. Throws error if the engine fails.
inline void warm_up(generator& engine, const served_model& m) {
  rollout::job job;
  job.prompt = {m.eos_ids.front()}, job.max_new_tokens = 1;
  const auto answers = std::make_shared<inbox>();
  std::vector<rollout::job> jobs(1, job);
  engine.submit(std::move(jobs), answers);
  for (;;)
    if (const auto message = answers->take(std::chrono::seconds(1)))
      if (const auto* end = std::get_if<inbox::end_report>(&message->what)) {
        if (!end->problem.empty()) throw error(end->problem);
        return;
      }
}

/// Shared parts of all engines of a server; the thread outlives them.
struct engine_parts {
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
/// merged model to the bit, and engines do not share a KV cache. Engines take turns, a pass each. There may be more
/// adapters than places: the least recently used are evicted, and are read again from their folders when a request
/// names them.
template <class Device>
class weight_keeper final : public weight_control {
 public:
  /// Model and engine must be those of shared.own. They and the context outlive the keeper, which outlives all
  /// requests.
  weight_keeper(context& shared, ranked_model<Device>& model, session_engine<Device>& engine, engine_parts parts,
                adapter_limits limits)
      : shared_(shared), model_(model), engine_(engine), parts_(std::move(parts)), limits_(limits) {
    shared_.fetch = [this](const std::string& name, served_weights& weights, const std::function<bool()>& connected) {
      return fetch(name, weights, connected);
    };
  }
  weight_keeper(const weight_keeper&) = delete;
  weight_keeper& operator=(const weight_keeper&) = delete;
  ~weight_keeper() override {
    for (const auto& [name, weights] : shared_.adapters()) shared_.remove_adapter(name);
  }

  void load_adapter(const std::string& name, const std::string& path, bool in_place,
                    const std::function<bool()>& connected) override {
    const std::lock_guard lock(changing_);
    std::shared_ptr<served_weights> existing;
    if (const auto all = shared_.adapters(); all.contains(name)) existing = all.at(name);
    if (shared_.is_own(name) || (existing && !in_place))
      throw api_error(400, "InvalidUserInput", "The lora adapter '" + name + "' has already been loaded.");
    const std::string base = shared_.own->origin().folder;
    const new_weights weights = merged(name, path, base);
    weights_origin origin{path, fingerprint_of(weights.values), base};
    if (existing && existing->away) return existing->now_from(std::move(origin));
    if (existing) {
      holder& held = holder_of(*existing);
      return exchange(held.model, held.engine, *existing, weights, std::move(origin), false, connected);
    }
    if (sleeping()) throw bad_request("the server sleeps; send POST /wake_up before it takes another adapter");
    make_room(connected);
    const std::shared_ptr<holder> made = hold(weights);
    warm_up(made->engine, shared_.model);
    shared_.add_adapter(name, std::make_shared<served_weights>(made->engine, shared_.model.seed, origin, made));
    shared_.log("loaded the adapter '" + name + "' from " + path);
  }
  void unload_adapter(const std::string& name) override {
    if (!shared_.remove_adapter(name)) throw not_found("The lora adapter '" + name + "' cannot be found.");
    shared_.log("unloaded the adapter '" + name + "'");
  }

  void update_weights(const std::string& model, bool keep_running, const std::function<bool()>& connected) override {
    const std::lock_guard lock(changing_);
    new_weights weights{std::vector<float>(model_.size())};
    std::filesystem::path folder;
    try {
      folder = checkpoint::resolve_model(model);
      if (const std::string other = checkpoint::difference_of(checkpoint::read_config(folder), model_.settings());
          !other.empty())
        throw config_error(folder.string() + " has a model of another shape: " + other);
      const checkpoint::tensor_folder stored(folder);
      for (int rank = 0; rank < model_.ranks().size(); ++rank)
        checkpoint::load_weights(stored, model_.part(rank).parameters(), model_.of(rank, weights.values),
                                 [](const std::string&) { return false; });
      weights.rounded = checkpoint::bf16_weights_of(stored);
    } catch (const error& e) {
      throw bad_request(e.what());
    }
    exchange(model_, engine_, *shared_.own, weights, {folder.string(), fingerprint_of(weights.values)}, keep_running,
             connected);
    shared_.log("the weights are those of " + folder.string());
  }
  void sleep(const std::function<bool()>& connected) override {
    const std::lock_guard lock(changing_);
    if (sleeping()) return;
    std::vector<std::shared_ptr<served_weights>> all{shared_.own};
    for (const auto& [name, weights] : shared_.adapters())
      if (!weights->away) all.push_back(weights);
    for (const auto& one : all) one->door.close();
    try {
      for (const auto& one : all) one->door.wait_empty([&] { return !connected || connected(); });
    } catch (...) {
      for (const auto& one : all) one->door.open();
      throw;
    }
    parts_.thread.run([&] {
      for (const auto& one : all) engine_of(*one).release();
    });
    const std::lock_guard changes(mutex_);
    asleep_ = std::move(all);
  }
  void wake_up() override {
    const std::lock_guard lock(changing_);
    parts_.thread.run([&] {
      for (const auto& one : asleep_) engine_of(*one).build();
    });
    for (const auto& one : asleep_) one->door.open();
    std::vector<std::shared_ptr<served_weights>> woken;  // may be the last to hold an adapter: destroyed without a lock
    const std::lock_guard changes(mutex_);
    woken.swap(asleep_);
  }
  bool sleeping() const override {
    const std::lock_guard lock(mutex_);
    return !asleep_.empty();
  }
  void forget_prefixes() override {
    const std::lock_guard lock(changing_);
    parts_.thread.run([&] {
      engine_.forget_prefixes();
      for (const auto& [name, weights] : shared_.adapters()) engine_of(*weights).forget_prefixes();
    });
  }
  /// On shutdown: rejects calls that wait for weights.
  void refuse_waiting() {
    shared_.own->door.refuse();
    for (const auto& [name, weights] : shared_.adapters()) weights->door.refuse();
    const std::lock_guard lock(mutex_);
    for (const auto& one : asleep_) one->door.refuse();
  }

  /// Cancels all jobs of current adapters.
  void cancel_all() {
    const std::lock_guard lock(mutex_);
    for (holder* const one : living_) one->engine.cancel_all();
  }

 private:
  /// A closed door, which opens again unless it is to stay closed.
  struct admission_guard {
    gate& door;
    bool stays_closed = false;
    explicit admission_guard(gate& g) : door(g) { door.close(); }
    admission_guard(const admission_guard&) = delete;
    ~admission_guard() {
      if (!stays_closed) door.open();
    }
  };
  /// New weights of a model, see ranked_model::size().
  struct new_weights {
    std::vector<float> values;
    nn::bf16_weights rounded = nn::bf16_weights::none;
  };
  /// Made and destroyed in the engines' thread.
  struct holder {
    ranked_model<Device> model;
    session_engine<Device> engine;
    std::atomic<bool> away = false;
    holder(const ranked_model<Device>& like, const engine_parts& parts)
        : model(like.ranks(), like.settings()),
          engine(model.part(0), model.ranks().space(0), parts.limits, parts.thread, parts.failed, model.group()) {}
  };

  /// The weights of a folder of the model with the adapter.
  new_weights merged(const std::string& name, const std::string& path, const std::string& base_folder) const {
    const std::string begin = "Loading lora " + name + " failed: ";
    const std::filesystem::path folder = checkpoint::expand_home(path);
    if (!checkpoint::is_adapter(folder))
      throw not_found(begin + "No adapter found for " + path + "; expected a folder with adapter_config.json");
    try {
      const checkpoint::tensor_folder base(base_folder);
      const checkpoint::adapter_weights adapter(folder, base);
      if (const std::int64_t rank = adapter.config().lora.rank; limits_.max_rank && rank > *limits_.max_rank)
        throw config_error("LoRA rank " + std::to_string(rank) + " is greater than max_lora_rank " +
                           std::to_string(*limits_.max_rank));
      new_weights weights{std::vector<float>(model_.size())};
      if (checkpoint::bf16_weights_of(base) != nn::bf16_weights::none) weights.rounded = nn::bf16_weights::embedding;
      for (int rank = 0; rank < model_.ranks().size(); ++rank)
        checkpoint::load_merged(base, adapter, model_.part(rank).parameters(), model_.of(rank, weights.values));
      return weights;
    } catch (const error& e) {
      throw bad_request(begin + e.what());
    }
  }

  /// Evicts adapters until one more fits: the least recently used one without requests; if all have requests, the least
  /// recently used of all once its requests have ended. New requests for it wait meanwhile.
  void make_room(const std::function<bool()>& connected) {
    while (present() >= limits_.places) {
      std::multimap<std::uint64_t, std::pair<std::string, std::shared_ptr<served_weights>>> all;  // by their last use
      for (const auto& one : shared_.adapters())
        if (!one.second->away) all.emplace(one.second->used, one);
      if (all.empty()) {  // unloaded ones still answer
        if (connected && !connected()) throw client_gone();
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        continue;
      }
      const auto idle =
          std::ranges::find_if(all, [](const auto& one) { return one.second.second->door.close_empty(); });
      const auto& [name, weights] = (idle != all.end() ? idle : all.begin())->second;
      if (idle == all.end()) {
        admission_guard door(weights->door);
        weights->door.wait_empty([&] { return !connected || connected(); });
        door.stays_closed = true;
      }
      send_away(*weights);
      shared_.log("the adapter '" + name + "' is away until it is asked for");
    }
  }
  void send_away(served_weights& served) {
    holder& held = holder_of(served);
    served.away = true;
    parts_.thread.run([&] {
      held.engine.release();
      held.model.free_weights();
    });
    held.away = true;
  }
  /// Implements context::fetch.
  std::optional<gate::admission_ticket> fetch(const std::string& name, served_weights& served,
                                              const std::function<bool()>& connected) {
    const std::lock_guard lock(changing_);
    if (!served.away || sleeping()) return std::nullopt;
    const weights_origin from = served.origin();
    const new_weights weights = merged(name, from.folder, from.base);
    if (fingerprint_of(weights.values) != from.fingerprint)
      throw bad_request("the adapter '" + name + "' is not what was loaded: " + from.folder + " or " + from.base +
                        " has changed since; load it again in place");
    make_room(connected);
    holder& held = holder_of(served);
    parts_.thread.run([&] {
      give(held.model, weights);
      held.engine.build();
    });
    held.away = false, served.away = false;
    served.door.open();
    shared_.log("the adapter '" + name + "' is back from " + from.folder);
    return served.door.enter([] { return true; });  // before it may have to make room again
  }
  std::shared_ptr<holder> hold(const new_weights& weights) {
    std::unique_ptr<holder> made;
    parts_.thread.run([&] {
      made = std::make_unique<holder>(model_, parts_);
      give(made->model, weights);
    });
    const std::lock_guard lock(mutex_);
    living_.push_back(made.get());
    return {made.release(), [this](holder* one) {
              parts_.thread.run([&] {
                {
                  const std::lock_guard leaving(mutex_);  // not while waiting for the thread, whose tasks take it too
                  std::erase(living_, one);
                }
                delete one;
              });
            }};
  }
  /// In the engines' thread.
  void give(ranked_model<Device>& model, const new_weights& from) const {
    model.fill(parts_.limits.weights.value_or(model.ranks().device(0).compute_format()), from.rounded,
               [&](std::size_t first, std::span<float> to) { std::copy_n(&from.values[first], to.size(), to.data()); });
  }
  std::size_t present() const {
    const std::lock_guard lock(mutex_);
    return static_cast<std::size_t>(std::ranges::count_if(living_, [](const holder* h) { return !h->away; }));
  }
  holder& holder_of(const served_weights& served) const {
    const std::lock_guard lock(mutex_);
    return **std::find_if(living_.begin(), living_.end(), [&](holder* h) { return &h->engine == &served.engine; });
  }
  session_engine<Device>& engine_of(const served_weights& served) const {
    return &served == shared_.own.get() ? engine_ : holder_of(served).engine;
  }

  /// Replaces the weights of an engine once its requests have ended (unless they are kept); new requests wait.
  void exchange(ranked_model<Device>& model, session_engine<Device>& engine, served_weights& served,
                const new_weights& weights, weights_origin origin, bool keep_running,
                const std::function<bool()>& connected) {
    admission_guard door(served.door);
    door.stays_closed = sleeping();
    if (!keep_running) served.door.wait_empty([&] { return !connected || connected(); });
    parts_.thread.run([&] {
      give(model, weights);
      engine.use_new_weights();
    });
    served.now_from(std::move(origin));
  }

  context& shared_;
  ranked_model<Device>& model_;
  session_engine<Device>& engine_;
  engine_parts parts_;
  adapter_limits limits_;
  std::mutex changing_;  ///< one change at a time
  mutable std::mutex mutex_;
  std::vector<holder*> living_;  ///< including evicted ones, and unloaded ones that still answer
  std::vector<std::shared_ptr<served_weights>> asleep_;  // after living_, which their holders leave
};

}  // namespace serving
RLCORE_END
