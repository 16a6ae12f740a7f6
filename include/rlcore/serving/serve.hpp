// Runs the server from a command line. server.hpp declares it.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "rlcore/checkpoint/hugging_face.hpp"
#include "rlcore/checkpoint/model_weights.hpp"
#include "rlcore/config/options.hpp"
#include "rlcore/config/settings/rank_options.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/core/memory_text.hpp"
#include "rlcore/core/random.hpp"
#include "rlcore/core/version.hpp"
#include "rlcore/nn/model/parameter.hpp"
#include "rlcore/nn/parallel/partition.hpp"
#include "rlcore/rollout/session.hpp"
#include "rlcore/serving/context.hpp"
#include "rlcore/serving/generator.hpp"
#include "rlcore/serving/http_server.hpp"
#include "rlcore/serving/open_model.hpp"
#include "rlcore/serving/request_record.hpp"
#include "rlcore/serving/served_ranks.hpp"
#include "rlcore/serving/server.hpp"
#include "rlcore/serving/service.hpp"
#include "rlcore/serving/session_engine.hpp"
#include "rlcore/serving/web_page.hpp"
#include "rlcore/serving/weight_control.hpp"
#include "rlcore/serving/weight_keeper.hpp"
#include "rlcore/telemetry/console.hpp"
#include "rlcore/text/parse_json.hpp"
#include "rlcore/train/files/model_files.hpp"
#include "rlcore/train/model/images.hpp"
#include "rlcore/train/ranks/resources.hpp"

RLCORE_BEGIN
namespace serving {

namespace detail {

/// A line with the time in front. Safe to call from any thread.
void log_line(const std::string& line);

/// Origins as words, or as vLLM writes them, a JSON list. Throws config_error.
std::vector<std::string> read_origins(const std::vector<std::string>& given);

http_settings read_http_settings(const options& opt);

std::vector<std::string> read_api_keys(const options& opt);

/// Bytes left on every rank beside the weights of the maximum number of adapters. Throws config_error if they do not
/// fit.
template <class Device>
std::optional<std::size_t> memory_beside(const ranked_model<Device>& model, std::size_t adapters) {
  const int ranks = model.ranks().size();
  auto memory = train::available_memory_of(model.ranks().device(0), ranks);
  for (int rank = 1; rank < ranks; ++rank)
    memory = std::min(memory, train::available_memory_of(model.ranks().device(rank), ranks));
  const std::size_t each = model.bytes(), read = model.size() * sizeof(float) / static_cast<std::size_t>(ranks);
  const std::size_t taken = adapters == 0 ? 0 : adapters * each + read;  // while one is read
  if (!memory || *memory > taken) return memory ? std::optional(*memory - taken) : memory;
  throw config_error("--max-loras: " + std::to_string(adapters) + " adapters need " + memory_text(taken) +
                     " for their merged weights, " + memory_text(each) + " each, and " + memory_text(*memory) +
                     " are free; expected fewer");
}

/// The format that products read, if it is not the device's.
inline std::optional<weight_format> read_format(const options& opt) {
  return opt.get<std::string>("rlcore-weights") == "int8" ? std::optional(weight_format::int8) : std::nullopt;
}

/// The limits of each engine: the model's and those of `adapters` adapters share the memory of keys and values.
template <class Device>
rollout::session_limits read_limits(const options& opt, const ranked_model<Device>& model, std::size_t adapters) {
  rollout::session_limits limits;
  limits.weights = read_format(opt);
  limits.max_sequences = opt.get<std::int64_t>("max-num-seqs");
  limits.max_batched_tokens = opt.get<std::int64_t>("max-num-batched-tokens");
  limits.max_prompt_tokens = 512;  // more would hardly make a pass more efficient, and streams wait for its end
  limits.max_length = opt.find<std::int64_t>("max-model-len").value_or(0);
  limits.share_prefixes = opt.get<bool>("enable-prefix-caching");
  limits.chunk_prompts = opt.get<bool>("enable-chunked-prefill");
  const auto memory = memory_beside(model, adapters);
  if (const auto bytes = opt.find<std::int64_t>("kv-cache-memory-bytes"))
    limits.max_cache_bytes = static_cast<std::size_t>(*bytes);
  else if (memory)
    limits.max_cache_bytes =
        static_cast<std::size_t>(opt.get<double>("gpu-memory-utilization") * static_cast<double>(*memory));
  limits.max_cache_bytes /= adapters + 1;
  return limits;
}

void print_notes(const options& opt, int ranks);

/// The config of a model partitioned over `ranks` ranks. Throws config_error with the possible numbers if it cannot be
/// partitioned.
nn::config read_ranked_config(const options& opt, const std::filesystem::path& folder, int ranks);

/// Throws config_error if --max-model-len exceeds the model's length.
void check_model_length(const options& opt, const nn::config& config);

/// Every rank reads its part of the weights. Returns their fingerprint.
template <class Device>
std::string load(ranked_model<Device>& model, const std::filesystem::path& folder,
                 std::optional<weight_format> format) {
  weights_fingerprint fingerprint(model.size());
  model.ranks().run([&](int rank) {
    train::load_packed(model.part(rank), folder, format,
                       [&, begin = model.begin(rank)](std::size_t first, std::span<const float> weights) {
                         fingerprint.see(begin + first, weights);
                       });
  });
  return fingerprint.text();
}

template <class Device>
std::string describe_ranks(const served_ranks<Device>& ranks) {
  const std::string each = describe(ranks.device(0));
  return ranks.size() == 1 ? each : std::to_string(ranks.size()) + " ranks, each " + each;
}

/// Logs the model and the limits of its requests.
void introduce(const served_model& m, double million_parameters, const std::string& device, std::int64_t cached);

/// Notes if a client in the same environment would use a proxy for localhost.
void note_proxy();

/// Loads the adapters of the command line, and logs the room for them. Throws config_error.
void load_adapters(weight_control& keeper, const std::vector<lora_module>& modules, std::size_t places,
                   std::size_t bytes);

/// Waits until all requests have been answered. After `longest` they are aborted with an error, and shortly afterwards
/// their connections are closed. A signal ends the process.
void finish_requests(http_server& server, const std::function<void()>& abort, const awaited_signals& signals,
                     std::chrono::milliseconds longest);

}  // namespace detail

/// Declared in server.hpp.
template <class Device>
int serve(const std::vector<std::unique_ptr<Device>>& devices, const options& opt, const awaited_signals& signals) {
  served_ranks<Device> ranks(devices, train::rank_deadline(opt));  // its threads hold signals back
  detail::print_notes(opt, ranks.size());
  std::optional<awaited_signals::signal_mask_guard> loading(std::in_place, signals);
  http_settings http = detail::read_http_settings(opt);
  std::optional<request_record> record;
  if (const auto file = opt.find<std::string>("rlcore-record")) record.emplace(*file, http.log);
  listening_sockets sockets(http);
  const std::filesystem::path folder = train::named_model(opt, "model");
  const nn::config config = detail::read_ranked_config(opt, folder, ranks.size());
  detail::check_model_length(opt, config);
  served_model served = open_served_model(opt, folder, config);
  ranked_model<Device> model(ranks, config);
  served.fingerprint = detail::load(model, folder, detail::read_format(opt));
  loading.reset();

  const std::vector<lora_module> modules = read_lora_modules(opt, served.names);
  const adapter_limits adapters{adapter_places(opt), opt.find<std::int64_t>("max-lora-rank")};
  engine_thread thread;
  const engine_parts parts{thread, detail::read_limits(opt, model, adapters.places),
                           [](const std::string& problem) { detail::log_line("error: " + problem); }};
  session_engine<Device> engine(model.part(0), ranks.space(0), parts.limits, thread, parts.failed, model.group());
  served.max_length = engine.max_length(), served.max_image_tokens = parts.limits.max_batched_tokens;
  context shared(served, engine, [](const std::string& line) { detail::log_line(line); });
  weight_keeper<Device> keeper(shared, model, engine, parts, adapters);
  service answers(shared, detail::read_api_keys(opt), web_page,
                  {&keeper, adapters.places > 0, opt.get<bool>("enable-dev-endpoints")});
  http.screen = [&](const http_request& head) { return answers.refusal(head); };
  http_server server(sockets, http, [&](const http_request& q) {
    http_response made = answers(q);
    return record ? record->keep(q, std::move(made)) : made;
  });
  loading.emplace(signals);
  warm_up(engine, served);
  detail::introduce(served, static_cast<double>(model.parameters()) * 1e-6, detail::describe_ranks(ranks),
                    engine.cache_tokens());
  detail::load_adapters(keeper, modules, adapters.places, model.bytes() * static_cast<std::size_t>(ranks.size()));
  loading.reset();
  server.start();
  detail::note_proxy();
  train::say("ready    %s\n", sockets.url().c_str());
  std::fflush(stdout);

  load_log log(shared, opt.get<double>("rlcore-log-interval"), [](const std::string& l) { detail::log_line(l); });
  int number = 0;
  while (number == 0) {
    number = signals.wait(std::chrono::milliseconds(200));
    log.tick();
  }
  detail::log_line("stopping: " + std::to_string(server.busy()) + " requests are being answered");
  keeper.refuse_waiting();
  server.stop();
  detail::finish_requests(
      server, [&] { engine.cancel_all(), keeper.cancel_all(); }, signals,
      std::chrono::milliseconds(static_cast<std::int64_t>(1000 * opt.get<double>("shutdown-timeout"))));
  return number;
}

}  // namespace serving
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_SERVING)
RLCORE_BEGIN
namespace serving::detail {

RLCORE_INLINE void log_line(const std::string& line) {
  char now[16];
  const std::time_t seconds = std::time(nullptr);
  std::tm local{};
  std::strftime(now, sizeof now, "%H:%M:%S", localtime_r(&seconds, &local));
  std::fprintf(stderr, "%s %s\n", now, line.c_str());
}

RLCORE_INLINE std::vector<std::string> read_origins(const std::vector<std::string>& given) {
  std::vector<std::string> all;
  for (const std::string& word : given) {
    if (!word.starts_with('[')) {
      all.push_back(word);
      continue;
    }
    const json list = text::parse_json<config_error, json>(word, "--allowed-origins");
    for (const json& origin : list) {
      if (!origin.is_string())
        throw config_error("--allowed-origins: expected a list of texts, got " + one_line(word, 100));
      all.push_back(origin.get<std::string>());
    }
  }
  for (const std::string& origin : all)
    if (origin != "*" && origin.find("://") == origin.npos)
      throw config_error("--allowed-origins: '" + origin + "' is no origin; expected * or http://host:port");
  return all;
}

RLCORE_INLINE http_settings read_http_settings(const options& opt) {
  http_settings s;
  s.host = opt.find<std::string>("host").value_or("");
  s.port = static_cast<int>(opt.get<std::int64_t>("port"));
  s.unix_socket = opt.find<std::string>("uds").value_or("");
  s.allowed_origins = read_origins(opt.list("allowed-origins"));
  s.trusted_proxies = opt.list("forwarded-allow-ips");
  s.log = [](const std::string& line) { log_line(line); };
  return s;
}

RLCORE_INLINE std::vector<std::string> read_api_keys(const options& opt) {
  std::vector<std::string> keys = opt.list("api-key");
  if (const char* key = std::getenv("VLLM_API_KEY"); keys.empty() && key != nullptr && *key != '\0') keys = {key};
  if (std::find(keys.begin(), keys.end(), "") != keys.end())
    throw config_error("--api-key is empty; expected a key, or leave the flag out for a server without one");
  return keys;
}

RLCORE_INLINE void print_notes(const options& opt, int ranks) {
  std::vector<std::string> notes(opt.notes().begin(), opt.notes().end());
  notes.push_back(train::core_counts::here().note(ranks, false));
  for (const std::string& note : notes)
    if (!note.empty()) train::say("note: %s\n", note.c_str());
}

RLCORE_INLINE nn::config read_ranked_config(const options& opt, const std::filesystem::path& folder, int ranks) {
  nn::config read = checkpoint::read_stored_config(folder);
  read.tp_reduce_chunks = opt.get<std::int64_t>("rlcore.row_chunks");
  const nn::config config = nn::checked_sizes(std::move(read));
  const auto problem = [&](int n) -> std::string {
    try {
      nn::check_partition(config, nn::sampling_part(config, 0, n));
    } catch (const config_error& e) {
      return e.what();
    }
    return {};
  };
  nn::check_partition(config, {});
  const std::string why = problem(ranks);
  if (why.empty()) return config;
  std::string possible = "1";
  for (int n = 2; n <= config.num_attention_heads; ++n)
    if (problem(n).empty()) possible += ", " + std::to_string(n);
  throw config_error("--rlcore-ranks " + std::to_string(ranks) + ": " + why + "; expected one of " + possible);
}

RLCORE_INLINE void check_model_length(const options& opt, const nn::config& config) {
  const auto asked = opt.find<std::int64_t>("max-model-len");
  if (asked && *asked > config.max_position_embeddings)
    throw config_error("--max-model-len " + std::to_string(*asked) + ": the model has " +
                       std::to_string(config.max_position_embeddings) +
                       " positions (max_position_embeddings); expected at most as many");
}

RLCORE_INLINE void introduce(const served_model& m, double million_parameters, const std::string& device,
                             std::int64_t cached) {
  const request_defaults& d = m.defaults;
  train::say("model    %s, %.3g M parameters, on %s\n", m.folder.c_str(), million_parameters, device.c_str());
  train::say("names    ");
  for (const std::string& name : m.names) train::say("%s%s", name == m.names.front() ? "" : ", ", name.c_str());
  train::say("\nlength   %lld tokens at most; the cache holds %lld of them\n", static_cast<long long>(m.max_length),
             static_cast<long long>(cached));
  train::say("defaults temperature %g, top_p %g, top_k %lld, min_p %g, repetition_penalty %g, max_tokens %s\n",
             d.temperature, d.top_p, static_cast<long long>(d.top_k), d.min_p, d.repetition_penalty,
             (d.most_tokens < m.max_length ? "up to " + std::to_string(d.most_tokens)
                                           : "16 for completions, what the length leaves for conversations")
                 .c_str());
  if (m.images.processor) train::say("%s\n", train::image_text(m.images).c_str());
  if (!m.chat) train::say("note: /v1/chat/completions needs --chat-template: %s\n", one_line(m.without_chat).c_str());
}

RLCORE_INLINE void note_proxy() {
  const auto value_of = [](const char* name, const char* other) {
    const char* value = std::getenv(name);
    if (value == nullptr) value = std::getenv(other);
    return std::string(value == nullptr ? "" : value);
  };
  const std::string around = value_of("no_proxy", "NO_PROXY");
  if (!value_of("http_proxy", "HTTP_PROXY").empty() && around != "*" && around.find("localhost") == around.npos)
    train::say("note: http_proxy is set: clients with it send even localhost to the proxy; set no_proxy=localhost\n");
}

RLCORE_INLINE void load_adapters(weight_control& keeper, const std::vector<lora_module>& modules, std::size_t places,
                                 std::size_t bytes) {
  if (places == 0) return;
  train::say(
      "adapters %zu, at most %zu in memory, %.3g MB of merged weights each, and as much cache as the model itself\n",
      modules.size(), places, static_cast<double>(bytes) * 1e-6);
  for (const lora_module& m : modules) try {
      keeper.load_adapter(m.name, m.path, false, {});
    } catch (const api_error& e) {
      throw config_error(std::string("--lora-modules: ") + e.what());
    }
}

RLCORE_INLINE void finish_requests(http_server& server, const std::function<void()>& abort,
                                   const awaited_signals& signals, std::chrono::milliseconds longest) {
  using clock = std::chrono::steady_clock;
  const auto wait_until = [&](clock::time_point end) {
    while (server.busy() > 0 && clock::now() < end)
      if (const int again = signals.wait(std::chrono::milliseconds(20)); again != 0) std::_Exit(128 + again);
  };
  wait_until(clock::now() + longest);
  abort();
  wait_until(clock::now() + std::chrono::seconds(2));
  server.drop_all();
  wait_until(clock::time_point::max());
}

}  // namespace serving::detail
RLCORE_END
#endif
