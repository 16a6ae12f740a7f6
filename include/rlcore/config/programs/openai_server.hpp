// The command line of openai_server: vLLM's flags.
#pragma once

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "rlcore/config/keys/rlcore_keys.hpp"
#include "rlcore/config/options.hpp"
#include "rlcore/config/registry.hpp"
#include "rlcore/config/settings/image_options.hpp"
#include "rlcore/config/settings/rank_options.hpp"
#include "rlcore/core/error.hpp"

RLCORE_BEGIN
namespace train {

namespace keys {

inline constexpr key server_model[] = {
    {"model", text, "null", honoured, "folder, hub id, or a checkpoint's folder; also the word without a flag",
     not_empty},
    {"served-model-name", texts, "null", honoured,
     "names that requests may use; the first stands in answers; null: --model"},
    {"max-model-len", integer, "null", honoured, "tokens of a prompt and its answer; null: the model's positions",
     at_least(1)},
    {"dtype", text, "auto", honoured,
     "what products read; auto: bfloat16 if the model is stored so, else as the device (CPU: float32); float32 on a "
     "CPU without products of bfloat16 where memory allows",
     words("auto|float32|float|bfloat16|float16|half")},
    {"generation-config", text, "auto", honoured,
     "defaults of requests: auto: the model's generation_config.json; vllm: neutral ones; or a folder with that file"},
    {"override-generation-config", text, "null", honoured, "JSON object of such defaults, on top"},
    {"seed", integer, "0", honoured, "of requests that bring none", at_least(0)},
    {"tokenizer", text, "null", honoured, "folder with tokenizer.json; null: the model's"},
    {"chat-template", text, "null", honoured, "a file, Jinja text or a family such as qwen2.5; null: the model's"},
    {"response-role", text, "assistant", honoured, "role of answers in conversations", not_empty},
    {"trust-request-chat-template", boolean, "False", honoured, "requests may bring their own template"},
    {"enable-auto-tool-choice", boolean, "False", honoured, "answers may call tools"},
    {"tool-call-parser", text, "null", honoured, "how models write calls of tools", words("hermes")},
    {"exclude-tools-when-tool-choice-none", boolean, "False", honoured,
     "tool_choice=none hides the tools from the model"},
    {"reasoning-parser", text, "null", honoured, "how models write thoughts: they go to reasoning_content",
     words("qwen3|deepseek_r1")},
    {"max-logprobs", integer, "20", honoured, "most likely tokens that a request may ask for", at_least(0)},
    {"logprobs-mode", text, "raw_logprobs", honoured,
     "raw_logprobs: of the model's own distribution; processed_logprobs: of what penalties, temperature, top_k, top_p "
     "and "
     "min_p leave; tempered_logprobs: of logits / temperature, as in training",
     words("raw_logprobs|processed_logprobs|tempered_logprobs", "raw_logits|processed_logits")},
    {"return-tokens-as-token-ids", boolean, "False", honoured, "log-probs write tokens as token_id:N"},
};

inline constexpr key server_media[] = {
    {"limit-mm-per-prompt", text, "null", honoured, "images that a request may show, as {\"image\": N}; null: 16"},
    {"mm-processor-kwargs", text, "null", honoured,
     "JSON object: min_pixels and max_pixels of images in the place of the model's"},
    {"allowed-local-media-path", text, "null", honoured, "images may be files below this folder, as file://PATH"},
};

inline constexpr key server_engine[] = {
    {"max-num-seqs", integer, "256", honoured, "sequences generated together; no text depends on it", at_least(1)},
    {"max-num-batched-tokens", integer, "8192", honoured, "tokens of one pass; no text depends on it", at_least(1)},
    {"gpu-memory-utilization", real, "0.9", honoured, "share of the free memory for keys and values", between(0.01, 1)},
    {"kv-cache-memory-bytes", integer, "null", honoured, "bytes of keys and values, in the place of a share",
     at_least(1)},
    {"enable-chunked-prefill", boolean, "True", honoured, "long prompts are read in pieces"},
    {"enable-prefix-caching", boolean, "True", honoured, "prompts that begin alike share keys and values"},
    {"rlcore-threads", integer, "0", honoured, "worker threads; 0: all cores. No text depends on it", at_least(0)},
    {"rlcore-ranks", integer, "1", honoured,
     "threads that have the model together, each with its share of the cores, the weights, keys and values, as the "
     "sampling groups of trainers (rollout.tensor_model_parallel_size); 1: all cores have the whole model",
     between(1, 64)},
    {"rlcore-weights", text, "same", honoured, "multiply by the model's weights, or by int8 copies",
     words("same|int8")},
};

/// Summation order over ranks; a key of the trainers.
inline constexpr key server_sums[] = {row_chunks};

inline constexpr key server_adapters[] = {
    {"enable-lora", boolean, "False", honoured, "PEFT's adapters answer under their own names; they come and go"},
    {"lora-modules", texts, "null", honoured,
     "adapters from the start: name=folder, or JSON objects with name and path"},
    {"max-loras", integer, "null", honoured,
     "adapters in memory together; others are read again when they are asked for; null: as many as lora-modules names",
     at_least(1)},
    {"max-lora-rank", integer, "null", honoured, "larger ranks are refused; null: none is", at_least(1)},
};

inline constexpr key server_http[] = {
    {"enable-dev-endpoints", boolean, "False", honoured,
     "POST /update_weights, /sleep, /wake_up, /reset_prefix_cache, for a trainer in another process"},
    {"host", text, "null", honoured, "address to listen on; null: loopback, 127.0.0.1 and ::1"},
    {"port", integer, "8000", honoured, "0 takes a free one", between(0, 65535)},
    {"uds", text, "null", honoured, "path of a Unix socket, in the place of host and port"},
    {"api-key", texts, "null", honoured,
     "bearer tokens that paths under /v1 need; VLLM_API_KEY in the environment counts"},
    {"allowed-origins", texts, "null", honoured, "pages in browsers that may send requests; * allows all"},
    {"forwarded-allow-ips", texts, "null", honoured,
     "addresses of proxies: the last address of their X-Forwarded-For is the client's; * trusts all"},
    {"shutdown-timeout", real, "30", honoured, "seconds that running requests have when the server is asked to stop",
     at_least(0)},
    {"rlcore-record", text, "null", honoured,
     "file that gets a JSON line for each request with a body and its answer; keys are not kept"},
    {"rlcore-log-interval", real, "10", honoured, "seconds between lines about the load; 0: none", at_least(0)},
};

/// vLLM's flags that this server accepts and ignores.
inline constexpr key server_accepted[] = {
    {"tensor-parallel-size", integer, "1", accepted, "one process uses all cores; --rlcore-ranks cuts the model",
     at_least(1)},
    {"pipeline-parallel-size", integer, "1", accepted, "one process uses all cores", at_least(1)},
    {"data-parallel-size", integer, "1", accepted, "one process uses all cores", at_least(1)},
    {"distributed-executor-backend", text, "null", accepted, "one process uses all cores"},
    {"enforce-eager", boolean, "False", accepted, "there are no graphs of a device"},
    {"trust-remote-code", boolean, "False", accepted, "no code of a model is run"},
    {"disable-log-requests", boolean, "False", accepted, "requests are not logged"},
    {"disable-log-stats", boolean, "False", accepted, "see rlcore-log-interval"},
    {"disable-frontend-multiprocessing", boolean, "False", accepted, "there is one process"},
    {"enable-expert-parallel", boolean, "False", accepted, "ranks (--rlcore-ranks) always divide the experts"},
    {"swap-space", real, "4", accepted, "nothing is swapped"},
    {"max-cpu-loras", integer, "null", accepted, "adapters beyond max-loras are read again from their folders",
     at_least(1)},
    {"lora-dtype", text, "auto", accepted, "adapters are added in float32"},
    {"block-size", integer, "null", accepted, "pages have a fixed size"},
    {"load-format", text, "auto", accepted, "safetensors are read"},
    {"download-dir", text, "null", accepted, "nothing is downloaded"},
    {"uvicorn-log-level", text, "info", accepted, "there is no uvicorn"},
    {"tokenizer-mode", text, "auto", accepted, "there is one implementation"},
    {"chat-template-content-format", text, "auto", accepted, "as the template wants it"},
    {"mm-processor-cache-gb", real, "4", accepted, "images are prepared for each request", at_least(0)},
    {"mm-processor-cache-type", text, "lru", accepted, "images are prepared for each request"},
    {"disable-mm-preprocessor-cache", boolean, "False", accepted, "images are prepared for each request"},
};

/// vLLM's flags that this server lacks: any value but the default is rejected.
inline constexpr key server_refused[] = {
    {"quantization", text, "null", fixed, "quantised weights are not read; --rlcore-weights int8 quantises here"},
    {"kv-cache-dtype", text, "auto", fixed, "keys and values have one type"},
    {"speculative-config", text, "null", fixed, "there is no draft model"},
    {"task", text, "generate", fixed, "this server generates"},
    {"allowed-media-domains", texts, "null", fixed, "nothing is downloaded; requests bring their images"},
    {"media-io-kwargs", text, "null", fixed, "there is nothing to set"},
    {"ssl-keyfile", text, "null", fixed, "put a proxy that speaks TLS in front"},
    {"ssl-certfile", text, "null", fixed, "put a proxy that speaks TLS in front"},
};

}  // namespace keys

/// An integer as vLLM's command line takes it: 22528, 22k (22000), 22K (22528), 25.6k. -1 and auto are null. Throws
/// config_error that names the flag.
value human_integer(const char* flag, const value& written);

/// Normalizes a command line to registry flags: dashes for underscores, long names for short ones.
std::vector<std::string> vllm_arguments(std::vector<std::string> words);

/// vLLM's flags, and the keys of the device.
registry openai_server_registry();

}  // namespace train
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_CONFIG)
RLCORE_BEGIN
namespace train {

RLCORE_INLINE value human_integer(const char* flag, const value& written) {
  const std::string text = scalar_text(written);
  if (text == "-1" || text == "auto") return {};
  double number = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string unit(end, text.data() + text.size());
  const double factor = unit.empty()  ? 1
                        : unit == "k" ? 1e3
                        : unit == "K" ? 0x1p10
                        : unit == "m" ? 1e6
                        : unit == "M" ? 0x1p20
                        : unit == "g" ? 1e9
                        : unit == "G" ? 0x1p30
                                      : 0;
  const double product = number * factor;
  if (code != std::errc() || factor == 0 || product != std::floor(product) || std::fabs(product) > 0x1p53)
    throw config_error(std::string(flag) + " " + text +
                       " is no integer; expected digits, or a number with k, K, m, M, g or G");
  return value(static_cast<std::int64_t>(product));
}

RLCORE_INLINE std::vector<std::string> vllm_arguments(std::vector<std::string> words) {
  for (std::string& word : words) {
    if (word == "-tp") word = "--tensor-parallel-size";
    if (word == "-pp") word = "--pipeline-parallel-size";
    if (word == "-dp") word = "--data-parallel-size";
    if (word == "-q") word = "--quantization";
    if (!word.starts_with("--")) continue;
    const auto end = word.begin() + static_cast<std::ptrdiff_t>(std::min(word.find('='), word.size()));
    std::replace(word.begin(), end, '_', '-');
  }
  return words;
}

RLCORE_INLINE registry openai_server_registry() {
  static constexpr flag human[] = {
      {"max-model-len", "max-model-len", 1, "", [](const value& v) { return human_integer("--max-model-len", v); }},
      {"max-num-batched-tokens", "max-num-batched-tokens", 1, "",
       [](const value& v) { return human_integer("--max-num-batched-tokens", v); }},
      {"kv-cache-memory-bytes", "kv-cache-memory-bytes", 1, "",
       [](const value& v) { return human_integer("--kv-cache-memory-bytes", v); }},
      {"no-enable-chunked-prefill", "enable-chunked-prefill", flag::switch_only, "False"},
      {"no-enable-prefix-caching", "enable-prefix-caching", flag::switch_only, "False"},
      {"no-trust-remote-code", "trust-remote-code", flag::switch_only, "False"},
      {"no-enforce-eager", "enforce-eager", flag::switch_only, "False"},
  };
  registry known;
  known.program = "openai_server";
  known.summary = "serves a model as OpenAI's API and vLLM do";
  known.details =
      "Answers /v1/completions and /v1/chat/completions, see docs/serving.md:\n"
      "  openai_server --model DIR --served-model-name auto --port 6380\n";
  known.add_as_flags(keys::server_model).add_as_flags(keys::server_media).add_as_flags(keys::server_engine);
  known.add_as_flags(keys::server_adapters).add_as_flags(keys::server_http);
  known.add_as_flags(keys::server_accepted).add_as_flags(keys::server_refused).add_flags(human);
  known.add(keys::ranks)
      .add(keys::server_sums)
      .add(keys::device)
      .add(keys::image_pixels)
      .add_positional({"model", 0, 1});
  known.check = [](options& opt) {
    check_device_options(opt);
    if (opt.is_set("trainer.n_gpus_per_node") || opt.is_set("trainer.nnodes"))
      throw config_error("trainer.n_gpus_per_node: openai_server is one process; --rlcore-ranks sets its ranks");
    if (opt.is_set("rlcore.npu.hccl"))
      opt.note("rlcore.npu.hccl has no effect: ranks of openai_server exchange rows through the host");
    if (opt.get<bool>("enable-auto-tool-choice") != opt.find<std::string>("tool-call-parser").has_value())
      throw config_error("--enable-auto-tool-choice and --tool-call-parser go together; expected both or none");
    if (!opt.list("lora-modules").empty() && !opt.get<bool>("enable-lora"))
      throw config_error("--lora-modules needs --enable-lora");
    const std::string type = opt.get<std::string>("dtype");
    if (type == "float16" || type == "half")
      opt.note("--dtype " + type + ": products read float32, which has all values of float16");
    if (type != "auto") opt.set("rlcore.compute", value(type == "bfloat16" ? "bfloat16" : "float32"));
    if (opt.is_set("rlcore-threads")) opt.set("rlcore.threads", opt.at("rlcore-threads"));
    read_media_options(opt);
    if (!opt.find<std::string>("model"))
      throw config_error("--model is missing; expected a folder or hub id of a model; see --help");
  };
  return known;
}

}  // namespace train
RLCORE_END
#endif
