// One set of weights that requests name: those of the model's folder, or these with an adapter.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/random.hpp"
#include "rlcore/serving/gate.hpp"
#include "rlcore/serving/generator.hpp"
#include "rlcore/serving/prompt_counter.hpp"

RLCORE_BEGIN
namespace serving {

/// Where weights come from, and a number that changes with them and the build; an adapter's `base` is the folder of the
/// model that it was added to.
struct weights_origin {
  std::string folder, fingerprint, base = {};
};

/// An engine that has the weights, and what counts for their answers alone. A request enters by `door` before it takes
/// a key or submits a job.
class served_weights {
 public:
  /// `seed` is the server's. `owner` keeps the engine alive; empty: it lives longer by itself.
  served_weights(generator& source, random_key seed, weights_origin from, std::shared_ptr<void> owner = nullptr)
      : engine(source), counter(seed), owner_(std::move(owner)), origin_(std::move(from)) {}

  generator& engine;
  prompt_counter counter;
  gate door;                           ///< closed while these are away
  std::atomic<bool> away = false;      ///< from memory: the engine answers nothing
  std::atomic<std::uint64_t> used{0};  ///< the time when a request last asked for them, see context::admit()

  weights_origin origin() const {
    const std::lock_guard lock(mutex_);
    return origin_;
  }
  /// Other weights are there: prompts are counted anew, as by a server that starts with them.
  void now_from(weights_origin from) {
    const std::lock_guard lock(mutex_);
    origin_ = std::move(from);
    counter.restart();
  }

 private:
  std::shared_ptr<void> owner_;
  mutable std::mutex mutex_;
  weights_origin origin_;
};

/// A request that has entered: under which name, and the weights that its answer is of.
struct admission {
  std::string name;
  std::shared_ptr<served_weights> weights;
  weights_origin origin;
  gate::passage inside;
};

}  // namespace serving
RLCORE_END
