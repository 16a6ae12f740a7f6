// A whole server from a command line. server.hpp declares it.
#pragma once

#include <signal.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "rlcore/checkpoint/hugging_face.hpp"
#include "rlcore/config/options.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/core/random.hpp"
#include "rlcore/core/version.hpp"
#include "rlcore/nn/model/causal_lm.hpp"
#include "rlcore/rollout/session.hpp"
#include "rlcore/serving/context.hpp"
#include "rlcore/serving/http_server.hpp"
#include "rlcore/serving/inbox.hpp"
#include "rlcore/serving/load_log.hpp"
#include "rlcore/serving/open_model.hpp"
#include "rlcore/serving/server.hpp"
#include "rlcore/serving/service.hpp"
#include "rlcore/serving/session_engine.hpp"
#include "rlcore/serving/web_page.hpp"
#include "rlcore/telemetry/console.hpp"
#include "rlcore/training/files/model_files.hpp"
#include "rlcore/training/model_images.hpp"
#include "rlcore/training/ranks/available_memory.hpp"

RLCORE_BEGIN
namespace serving {

namespace detail {

/// The signals that end a server, held back from all threads that are started while it lives; one thread waits.
class awaited_signals {
 public:
  awaited_signals() {
    sigemptyset(&set_);
    for (const int number : {SIGINT, SIGTERM}) sigaddset(&set_, number);
    pthread_sigmask(SIG_BLOCK, &set_, &before_);
  }
  awaited_signals(const awaited_signals&) = delete;
  awaited_signals& operator=(const awaited_signals&) = delete;
  ~awaited_signals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  /// The signal that came, or 0 after so long.
  int wait(std::chrono::milliseconds longest) const {
    const timespec time{longest.count() / 1000, longest.count() % 1000 * 1000000};
    return std::max(sigtimedwait(&set_, nullptr, &time), 0);
  }

 private:
  sigset_t set_, before_;
};

/// A number that changes with the weights and the build.
inline std::string fingerprint_of(std::span<const float> weights) {
  std::uint64_t hash = 0;
  const std::size_t step = std::max<std::size_t>(1, weights.size() / 65536);
  for (std::size_t i = 0; i < weights.size(); i += step)
    hash = random_key{hash}.child(std::bit_cast<std::uint32_t>(weights[i])).seed;
  char text[32];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(hash));
  return "rlcore-" RLCORE_VERSION_STRING "-" + std::string(text);
}

/// A line with the time in front. Safe to call from any thread.
inline void log_line(const std::string& line) {
  char now[16];
  const std::time_t seconds = std::time(nullptr);
  std::tm local{};
  std::strftime(now, sizeof now, "%H:%M:%S", localtime_r(&seconds, &local));
  std::fprintf(stderr, "%s %s\n", now, line.c_str());
}

inline http_settings read_http_settings(const options& opt) {
  http_settings s;
  s.host = opt.find<std::string>("host").value_or("");
  s.port = static_cast<int>(opt.get<std::int64_t>("port"));
  s.unix_socket = opt.find<std::string>("uds").value_or("");
  s.allowed_origins = opt.list("allowed-origins");
  return s;
}

inline std::vector<std::string> read_api_keys(const options& opt) {
  std::vector<std::string> keys = opt.list("api-key");
  if (const char* key = std::getenv("VLLM_API_KEY"); keys.empty() && key != nullptr && *key != '\0') keys = {key};
  return keys;
}

template <class Device>
rollout::session_limits read_limits(const options& opt, const Device& device) {
  rollout::session_limits limits;
  limits.max_sequences = opt.get<std::int64_t>("max-num-seqs");
  limits.max_batched_tokens = opt.get<std::int64_t>("max-num-batched-tokens");
  limits.max_length = opt.find<std::int64_t>("max-model-len").value_or(0);
  limits.share_prefixes = opt.get<bool>("enable-prefix-caching");
  limits.chunk_prompts = opt.get<bool>("enable-chunked-prefill");
  if (const auto bytes = opt.find<std::int64_t>("kv-cache-memory-bytes"))
    limits.max_cache_bytes = static_cast<std::size_t>(*bytes);
  else if (const auto memory = trainer::available_memory_of(device))
    limits.max_cache_bytes =
        static_cast<std::size_t>(opt.get<double>("gpu-memory-utilization") * static_cast<double>(*memory));
  if (opt.get<std::string>("rlcore-weights") == "int8") limits.weights = weight_format::int8;
  return limits;
}

/// Lines about the model and what holds for its requests.
inline void introduce(const served_model& m, double million_parameters, const std::string& device,
                      std::int64_t cached) {
  const request_defaults& d = m.defaults;
  trainer::say("model    %s, %.3g M parameters, on %s\n", m.folder.c_str(), million_parameters, device.c_str());
  trainer::say("names    ");
  for (const std::string& name : m.names) trainer::say("%s%s", name == m.names.front() ? "" : ", ", name.c_str());
  trainer::say("\nlength   %lld tokens at most, cache of %lld\n", static_cast<long long>(m.max_length),
               static_cast<long long>(cached));
  trainer::say("defaults temperature %g, top_p %g, top_k %lld, min_p %g, repetition_penalty %g, max_tokens %s\n",
               d.temperature, d.top_p, static_cast<long long>(d.top_k), d.min_p, d.repetition_penalty,
               d.max_tokens ? std::to_string(*d.max_tokens).c_str() : "16 or what the length leaves");
  if (m.images.processor) trainer::say("%s\n", trainer::image_text(m.images).c_str());
  if (!m.chat) trainer::say("note: the model has no chat template: /v1/chat/completions needs --chat-template\n");
}

/// The first pass, which allocates what later ones use.
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

}  // namespace detail

/// Declared in server.hpp.
template <class Device>
int serve(Device& device, const options& opt) {
  for (const std::string& note : opt.notes()) trainer::say("note: %s\n", note.c_str());
  const detail::awaited_signals signals;
  const std::filesystem::path folder = checkpoint::resolve_model(opt.get<std::string>("model"));
  const nn::config config = checkpoint::read_config(folder);
  served_model served = open_served_model(opt, folder, config);
  nn::causal_lm<Device> model(device, config);
  trainer::load_model(model, folder);
  served.fingerprint = detail::fingerprint_of(trainer::to_host(device, model.weights()));
  nn::workspace<Device> space(device, std::size_t{256} << 20);

  service* told = nullptr;
  const rollout::session_limits limits = detail::read_limits(opt, device);
  session_engine<Device> engine(model, space, limits, [&](const std::string& problem) {
    detail::log_line("error: " + problem);
    if (told != nullptr) told->set_broken();
  });
  served.max_length = engine.max_length(), served.max_image_tokens = limits.max_batched_tokens;
  context shared(served, engine, [](const std::string& line) { detail::log_line(line); });
  service answers(shared, detail::read_api_keys(opt), web_page);
  told = &answers;
  http_server server(detail::read_http_settings(opt), [&](const http_request& q) { return answers(q); });
  detail::warm_up(engine, served);
  detail::introduce(served, static_cast<double>(model.size()) * 1e-6, describe(device), engine.cache_tokens());
  server.start();
  trainer::say("ready    %s\n", server.url().c_str());
  std::fflush(stdout);

  load_log log(shared, opt.get<double>("rlcore-log-interval"), [](const std::string& l) { detail::log_line(l); });
  int number = 0;
  while (number == 0) {
    number = signals.wait(std::chrono::milliseconds(200));
    log.tick();
  }
  detail::log_line("stopping: " + std::to_string(shared.requests.load()) + " requests are being answered");
  std::thread closing([&] { server.stop(); });
  const auto end = std::chrono::steady_clock::now() +
                   std::chrono::milliseconds(static_cast<std::int64_t>(1000 * opt.get<double>("shutdown-timeout")));
  while (shared.requests > 0 && std::chrono::steady_clock::now() < end)
    if (const int again = signals.wait(std::chrono::milliseconds(20)); again != 0) std::_Exit(128 + again);
  if (shared.requests > 0) engine.cancel_all();
  closing.join();
  return number;
}

}  // namespace serving
RLCORE_END
