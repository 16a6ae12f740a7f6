// Served model: devices and weights.
#pragma once

#include <atomic>
#include <cstdint>
#include <ctime>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rlcore/checkpoint/model_config.hpp"
#include "rlcore/checkpoint/resolve_model.hpp"
#include "rlcore/config/options.hpp"
#include "rlcore/core/abi.hpp"
#include "rlcore/core/random.hpp"
#include "rlcore/data/image_rows.hpp"
#include "rlcore/serving/gate.hpp"
#include "rlcore/serving/generator.hpp"
#include "rlcore/serving/prompt_counter.hpp"
#include "rlcore/serving/protocol/chat_request.hpp"
#include "rlcore/serving/protocol/reasoning.hpp"
#include "rlcore/serving/protocol/sampling_fields.hpp"
#include "rlcore/text/chat_template.hpp"
#include "rlcore/text/tokenizer.hpp"
#include "rlcore/training/read_device.hpp"

RLCORE_BEGIN
namespace serving {

/// Opens one device per rank of --rlcore-ranks, like trainer::open_device(). With --dtype auto and no rlcore.compute,
/// matrix products use the stored type of the model: bfloat16 if config.json says so, else the device's own format.
/// Throws config_error, file_error, format_error too.
inline std::vector<std::unique_ptr<any_device>> open_served_devices(const trainer::options& opt) {
  device_settings s = trainer::read_device(opt);
  if (!opt.find<std::string>("rlcore.compute") &&
      checkpoint::stored_dtype(checkpoint::resolve_model(opt.get<std::string>("model"))) == "bfloat16")
    s.type = compute::bfloat16;
  const auto ranks = static_cast<int>(opt.get<std::int64_t>("rlcore-ranks"));
  std::vector<std::unique_ptr<any_device>> devices;
  for (int rank = 0; rank < ranks; ++rank)
    devices.push_back(trainer::open_device_or_explain(ranks == 1 ? s : trainer::place_device(s, {rank, ranks})));
  return devices;
}

/// The origin of weights, and a fingerprint of weights and build; an adapter's `base` is its base model's folder.
struct weights_origin {
  std::string folder, fingerprint, base = {};
};

/// An engine with its weights, and the state specific to these weights. A request enters by `door` before it takes
/// a key or submits a job.
class served_weights {
 public:
  /// `seed` is the server's. `owner` keeps the engine alive; empty: the caller does.
  served_weights(generator& source, random_key seed, weights_origin from, std::shared_ptr<void> owner = nullptr)
      : engine(source), counter(seed), owner_(std::move(owner)), origin_(std::move(from)) {}

  generator& engine;
  prompt_counter counter;
  gate door;                           ///< closed while the weights are evicted
  std::atomic<bool> away = false;      ///< evicted from memory: the engine cannot run
  std::atomic<std::uint64_t> used{0};  ///< the time when a request last asked for them, see context::admit()

  weights_origin origin() const {
    const std::lock_guard lock(mutex_);
    return origin_;
  }
  /// New weights: resets the prompt counts, as on a fresh server with these weights.
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

/// An admitted request: its model name, and the weights of its response.
struct admission {
  std::string name;
  std::shared_ptr<served_weights> weights;
  weights_origin origin;
  gate::passage inside;
};

/// Names, tokenizer, limits and defaults.
struct served_model {
  std::vector<std::string> names;  ///< the first is used in answers
  std::filesystem::path folder;
  text::tokenizer tokenizer;
  std::optional<text::chat_template> chat{};
  std::string without_chat{};  ///< why there is no template
  std::vector<std::int32_t> eos_ids{};
  std::int64_t max_length = 0, vocabulary = 0;
  random_key seed{};          ///< for requests without one
  std::string fingerprint{};  ///< of weights and build
  std::int64_t created = static_cast<std::int64_t>(std::time(nullptr));
  request_defaults defaults{};
  chat_features features{};
  data::image_settings images{};        ///< image preprocessing; without a processor images are unsupported
  std::filesystem::path local_files{};  ///< file:// is read below it; empty: nowhere
  std::int64_t max_image_tokens = 0;    ///< of a request
  reasoning_form reasoning = reasoning_form::none;
  std::string response_role = "assistant";
  bool raw_logprobs = true;         ///< of the model's own distribution; false: with temperature as sampled
  bool processed_logprobs = false;  ///< of drawn tokens, after sampling rules and truncation
};

}  // namespace serving

RLCORE_END
