// A model that is served: its device, its weights, its gate and what counts its prompts.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "rlcore/checkpoint/hugging_face.hpp"
#include "rlcore/config/options.hpp"
#include "rlcore/core/abi.hpp"
#include "rlcore/core/random.hpp"
#include "rlcore/data/image_rows.hpp"
#include "rlcore/device/cpu/instruction_sets.hpp"
#include "rlcore/device/device_settings.hpp"
#include "rlcore/serving/generator.hpp"
#include "rlcore/serving/protocol/api_error.hpp"
#include "rlcore/serving/protocol/requests.hpp"
#include "rlcore/serving/protocol/sampling_fields.hpp"
#include "rlcore/serving/text_stream.hpp"
#include "rlcore/telemetry/console.hpp"
#include "rlcore/text/chat_template.hpp"
#include "rlcore/text/tokenizer.hpp"
#include "rlcore/train/run/read_device.hpp"

RLCORE_BEGIN
namespace serving {

/// The type that products read, none for the device's own, and a line that says why, or nothing.
struct served_dtype {
  std::optional<compute> type{};
  std::string note{};
};

/// Whether this set of kernels has products of bfloat16: the others convert what they read to float32, in every pass.
inline bool multiplies_bfloat16(std::string_view instruction_set) { return instruction_set == "avx512_bf16"; }

/// The type for a model that is stored in bfloat16, on a processor with the kernels `instruction_set`. Without products
/// of bfloat16 it is float32, which gives more tokens per second and takes the same memory
/// (weight_format::bfloat16_exact).
served_dtype dtype_on_processor(std::string_view instruction_set);

/// The type for --dtype auto without rlcore.compute: that of the model's config.json, but see dtype_on_processor().
/// Throws config_error, file_error, device_error.
served_dtype automatic_dtype(const train::options& opt, const device_settings& device);

/// Counts requests in progress. While closed, new requests wait; none is rejected. Must outlive its passages.
class gate {
 public:
  /// RAII admission of one request.
  class admission_ticket {
   public:
    admission_ticket() = default;
    admission_ticket(admission_ticket&& from) noexcept : through_(std::exchange(from.through_, nullptr)) {}
    admission_ticket& operator=(admission_ticket&& from) noexcept {
      std::swap(through_, from.through_);
      return *this;
    }
    ~admission_ticket() {
      if (through_ != nullptr) through_->leave();
    }

   private:
    friend gate;
    explicit admission_ticket(gate& g) noexcept : through_(&g) {}
    gate* through_ = nullptr;
  };

  /// Returns when the gate is open. Calls is_connected() while waiting; throws client_gone if it returns false, and
  /// api_error 503 after refuse().
  template <class IsConnected>
  admission_ticket enter(IsConnected&& is_connected) {
    return *enter(is_connected, [] { return false; });
  }
  /// The same, or empty if the gate is closed and gives_up() returns true.
  template <class IsConnected, class GivesUp>
  std::optional<admission_ticket> enter(IsConnected&& is_connected, GivesUp&& gives_up) {
    std::unique_lock lock(mutex_);
    bool waits = true;
    const auto goes_on = [&] { return waits = !gives_up(), is_connected(); };
    await(lock, goes_on, [&] { return !closed_ || refused_ || !waits; });
    if (closed_ && refused_) throw api_error(503, "ServiceUnavailableError", "the server is stopping");
    if (closed_) return std::nullopt;
    ++inside_;
    return admission_ticket(*this);
  }
  /// From now on new requests wait; admitted ones continue.
  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  /// The same if no request is inside; otherwise does nothing and returns false.
  bool close_empty() {
    const std::lock_guard lock(mutex_);
    if (inside_ > 0) return false;
    return closed_ = true;
  }
  /// Admits waiting requests.
  void open() {
    {
      const std::lock_guard lock(mutex_);
      closed_ = false;
    }
    changed_.notify_all();
  }
  /// Waits until no request is inside. Throws client_gone like enter().
  template <class IsConnected>
  void wait_empty(IsConnected&& is_connected) {
    std::unique_lock lock(mutex_);
    await(lock, is_connected, [&] { return inside_ == 0; });
  }
  /// From now on requests at a closed gate fail.
  void refuse() {
    {
      const std::lock_guard lock(mutex_);
      refused_ = true;
    }
    changed_.notify_all();
  }

 private:
  template <class IsConnected, class Condition>
  void await(std::unique_lock<std::mutex>& lock, IsConnected& is_connected, Condition&& holds) {
    while (!changed_.wait_for(lock, std::chrono::milliseconds(50), holds)) {
      lock.unlock();
      const bool connected = is_connected();
      lock.lock();
      if (!connected) throw client_gone();
    }
  }
  void leave() noexcept {
    {
      const std::lock_guard lock(mutex_);
      --inside_;
    }
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t inside_ = 0;
  bool closed_ = false, refused_ = false;
};

/// Hash of a prompt's tokens.
inline std::uint64_t hash_of(std::span<const std::int32_t> prompt) noexcept {
  std::uint64_t hash = 0x70726f6d7074;
  for (std::size_t i = 0; i < prompt.size(); i += 4) {
    std::array<std::uint32_t, 4> four{};
    for (std::size_t k = 0; k < 4 && i + k < prompt.size(); ++k)
      four[k] = static_cast<std::uint32_t>(prompt[i + k]) + 1;
    const auto w = philox(hash, four);
    hash = (std::uint64_t{w[0]} << 32) | w[1];
  }
  return hash;
}

/// Gives the k-th request for a prompt, images included, a key of (server seed, prompt, k). The texts of k equal
/// requests are then the same k texts, independent of other requests and of arrival order. Entries are never evicted,
/// since that would change texts: each distinct prompt takes about 40 bytes.
class prompt_counter {
 public:
  /// Starts at 0; `server` is the key of the server's seed.
  explicit prompt_counter(random_key server) : server_(server) {}

  /// Resets all counts.
  void restart() {
    const std::lock_guard lock(mutex_);
    asked_.clear();
  }

  /// The key of the next request for this prompt; `images` is the hash of its images, 0 for none.
  random_key next(std::span<const std::int32_t> prompt, std::uint64_t images = 0) {
    const std::uint64_t hash = hash_of(prompt) ^ images;
    std::uint32_t times = 0;
    {
      const std::lock_guard lock(mutex_);
      times = asked_[hash]++;
    }
    const random_key own{server_.seed ^ hash};
    return own.child(times);
  }

 private:
  random_key server_;
  std::mutex mutex_;
  std::unordered_map<std::uint64_t, std::uint32_t> asked_;
};

/// Opens one device per rank of --rlcore-ranks, like train::open_device(). Products read what automatic_dtype() says,
/// which is printed. Throws config_error, file_error, format_error too.
inline std::vector<std::unique_ptr<any_device>> open_served_devices(const train::options& opt) {
  device_settings s = train::read_device(opt);
  const served_dtype type = automatic_dtype(opt, s);
  if (type.type) s.type = type.type;
  if (!type.note.empty()) train::say("note: %s\n", type.note.c_str());
  const auto ranks = static_cast<int>(opt.get<std::int64_t>("rlcore-ranks"));
  std::vector<std::unique_ptr<any_device>> devices;
  for (int rank = 0; rank < ranks; ++rank)
    devices.push_back(train::open_device_or_explain(ranks == 1 ? s : train::place_device(s, {rank, ranks})));
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
  gate::admission_ticket inside;
};

/// Names, tokenizer, limits and defaults.
struct served_model {
  std::vector<std::string> names;  ///< the first is used in answers
  std::filesystem::path folder;
  text::tokenizer tokenizer;
  std::optional<text::chat_template> chat{};
  std::string without_chat{};            ///< why there is no template
  std::vector<std::int32_t> eos_ids{};   ///< end an answer
  std::optional<std::int32_t> eos_id{};  ///< the tokenizer's own of them: an answer that it ends has no stop_reason
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

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_SERVING)
RLCORE_BEGIN
namespace serving {

RLCORE_INLINE served_dtype dtype_on_processor(std::string_view instruction_set) {
  if (multiplies_bfloat16(instruction_set)) return {compute::bfloat16};
  return {compute::float32, "products take the weights as float32: this processor (" + std::string(instruction_set) +
                                ") has none of bfloat16"};
}

RLCORE_INLINE served_dtype automatic_dtype(const train::options& opt, const device_settings& device) {
  if (opt.find<std::string>("rlcore.compute")) return {};
  const std::filesystem::path folder = checkpoint::resolve_model(opt.get<std::string>("model"));
  if (checkpoint::stored_dtype(folder) != "bfloat16") return {};
  const bool npu = device.kind == device_kind::npu || device.kind == device_kind::npu_emulator;
  if (npu || opt.get<std::string>("rlcore-weights") == "int8") return {compute::bfloat16};
  if (device.kind != device_kind::cpu)
    return {compute::float32, "products take the weights as float32: this device sums bfloat16 no faster"};
  return dtype_on_processor(cpu_kernels::choose(device.instruction_set).name);
}

}  // namespace serving
RLCORE_END
#endif
