// Opens the model of a server, and lists its LoRA modules.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "rlcore/checkpoint/hugging_face.hpp"
#include "rlcore/checkpoint/model_weights.hpp"
#include "rlcore/checkpoint/preprocessor_config.hpp"
#include "rlcore/config/options.hpp"
#include "rlcore/config/settings/image_options.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/core/suggest.hpp"
#include "rlcore/core/version.hpp"
#include "rlcore/nn/config.hpp"
#include "rlcore/serving/protocol/api_error.hpp"
#include "rlcore/serving/protocol/body_fields.hpp"
#include "rlcore/serving/served_model.hpp"
#include "rlcore/text/chat_template.hpp"
#include "rlcore/text/model_file.hpp"
#include "rlcore/text/parse_json.hpp"
#include "rlcore/text/tokenizer.hpp"
#include "rlcore/train/files/model_files.hpp"
#include "rlcore/train/model/images.hpp"

RLCORE_BEGIN
namespace serving {

/// An adapter's folder and its name in requests.
struct lora_module {
  std::string name, path;
};

namespace detail {

/// vLLM's {"name", "path", "base_model_name"}.
lora_module read_lora_object(const std::string& text, const std::vector<std::string>& bases);

}  // namespace detail

/// --lora-modules: name=path, or vLLM's JSON objects. `bases` are the names of the model itself. Throws config_error.
std::vector<lora_module> read_lora_modules(const train::options& opt, const std::vector<std::string>& bases);

/// How many adapters may be in memory together: --max-loras, or as many as --lora-modules names, at least one; 0
/// without --enable-lora.
inline std::size_t adapter_places(const train::options& opt) {
  if (!opt.get<bool>("enable-lora")) return 0;
  if (const auto most = opt.find<std::int64_t>("max-loras")) return static_cast<std::size_t>(*most);
  return std::max<std::size_t>(1, opt.list("lora-modules").size());
}

using train::options;

/// Sets defaults from a JSON object in the form of generation_config.json. `where` names it in messages; with `strict`
/// unknown keys are refused. Throws format_error.
void read_defaults(const json& from, const std::string& where, bool strict, request_defaults& to);

/// Defaults of requests: --generation-config and --override-generation-config.
request_defaults read_request_defaults(const options& opt, const std::filesystem::path& folder);

/// The model's template, or none, and then `why` says why; --chat-template chooses another.
std::optional<text::chat_template> read_chat_template(const options& opt, const std::filesystem::path& folder,
                                                      std::string& why);

/// Reads the image settings of the model. Throws config_error, format_error.
void read_images(const options& opt, const std::filesystem::path& folder, const nn::config& config, served_model& m);

/// Everything except the values set by the engine (max_length, max_image_tokens) and by the weights (fingerprint).
/// Throws config_error, file_error, format_error.
served_model open_served_model(const options& opt, const std::filesystem::path& folder, const nn::config& config);

}  // namespace serving
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_SERVING)
RLCORE_BEGIN
namespace serving::detail {

RLCORE_INLINE lora_module read_lora_object(const std::string& text, const std::vector<std::string>& bases) {
  const json from = text::parse_json<config_error, json>(text, "--lora-modules");
  static const std::vector<std::string> known{"name", "path", "base_model_name"};
  for (const auto& [key, value] : from.items()) {
    if (std::find(known.begin(), known.end(), key) == known.end())
      throw config_error("--lora-modules " + text + ": '" + key + "' is unknown" + did_you_mean(key, known) +
                         "; expected name, path and base_model_name");
    if (!value.is_string() && !(value.is_null() && key == "base_model_name"))
      throw config_error("--lora-modules " + text + ": " + key + ": expected a string, found " + value.type_name());
  }
  if (const auto base = from.find("base_model_name"); base != from.end() && base->is_string())
    if (std::find(bases.begin(), bases.end(), base->get<std::string>()) == bases.end())
      throw config_error("--lora-modules " + text + ": base_model_name: this server's model is called '" + bases[0] +
                         "'");
  return {from.value("name", ""), from.value("path", "")};
}

}  // namespace serving::detail

namespace serving {

RLCORE_INLINE std::vector<lora_module> read_lora_modules(const train::options& opt,
                                                         const std::vector<std::string>& bases) {
  std::vector<lora_module> all;
  std::set<std::string> names(bases.begin(), bases.end());
  for (const std::string& text : opt.list("lora-modules")) {
    const std::size_t equal = text.find('=');
    const lora_module one = text.starts_with('{')        ? detail::read_lora_object(text, bases)
                            : equal == std::string::npos ? lora_module{}
                                                         : lora_module{text.substr(0, equal), text.substr(equal + 1)};
    if (one.name.empty() || one.path.empty())
      throw config_error("--lora-modules " + text +
                         R"(: expected name=folder, or {"name": "...", "path": "...", "base_model_name": "..."})");
    if (!names.insert(one.name).second)
      throw config_error("--lora-modules " + text + ": the name '" + one.name + "' is taken; expected another");
    all.push_back(one);
  }
  return all;
}

RLCORE_INLINE void read_defaults(const json& from, const std::string& where, bool strict, request_defaults& to) {
  if (!from.is_object()) throw format_error(where + ": expected a JSON object, found " + from.type_name());
  static const std::vector<std::string> known{"temperature",        "top_p",         "top_k", "min_p",
                                              "repetition_penalty", "max_new_tokens"};
  for (const auto& [key, value] : from.items()) {
    const bool ours = std::find(known.begin(), known.end(), key) != known.end();
    if (!ours && strict)
      throw format_error(where + ": '" + key + "' is unknown" + did_you_mean(key, known) +
                         "; expected temperature, top_p, top_k, min_p, repetition_penalty or max_new_tokens");
    if (!ours || value.is_null()) continue;
    if (!value.is_number()) throw format_error(where + "." + key + ": expected a number, found " + value.type_name());
  }
  try {
    body_fields f(from);
    to.temperature = f.number("temperature").value_or(to.temperature);
    to.top_p = f.number("top_p").value_or(to.top_p);
    to.min_p = f.number("min_p").value_or(to.min_p);
    to.repetition_penalty = f.number("repetition_penalty").value_or(to.repetition_penalty);
    to.top_k = f.integer("top_k").value_or(to.top_k);
    to.most_tokens = f.integer("max_new_tokens").value_or(to.most_tokens);
    detail::check_range(to.most_tokens >= 1, "max_new_tokens", "at least 1", static_cast<double>(to.most_tokens));
    const json nothing = json::object();
    body_fields none(nothing);
    read_sampling_fields(none, to);  // refuses numbers out of their range
  } catch (const api_error& e) {
    throw format_error(where + ": " + e.what());
  }
}

RLCORE_INLINE request_defaults read_request_defaults(const options& opt, const std::filesystem::path& folder) {
  request_defaults d;
  const std::string source = opt.get<std::string>("generation-config");
  if (source != "vllm") {
    const std::filesystem::path place = source == "auto" ? folder : checkpoint::expand_home(source);
    const std::filesystem::path file = place / "generation_config.json";
    if (text::has_model_file(file))
      read_defaults(text::parse_json<format_error, json>(text::read_model_file(file), file.string()), file.string(),
                    false, d);
    else if (source != "auto")
      throw config_error("--generation-config " + source +
                         ": no generation_config.json there; expected auto, vllm or " + "a folder with that file");
  }
  if (const auto more = opt.find<std::string>("override-generation-config"))
    read_defaults(text::parse_json<config_error, json>(*more, "--override-generation-config"),
                  "--override-generation-config", true, d);
  d.max_logprobs = opt.get<std::int64_t>("max-logprobs");
  d.return_tokens_as_token_ids = opt.get<bool>("return-tokens-as-token-ids");
  return d;
}

RLCORE_INLINE std::optional<text::chat_template> read_chat_template(const options& opt,
                                                                    const std::filesystem::path& folder,
                                                                    std::string& why) {
  const std::string chosen = opt.find<std::string>("chat-template").value_or("");
  if (!chosen.empty()) return text::chat_template::chosen(chosen, folder, "--chat-template");
  try {
    return text::chat_template::detect(folder);
  } catch (const format_error& e) {
    why = e.what();
  } catch (const file_error& e) {
    why = e.what();
  }
  return std::nullopt;
}

RLCORE_INLINE void read_images(const options& opt, const std::filesystem::path& folder, const nn::config& config,
                               served_model& m) {
  const train::media_options media = train::read_media_options(opt);
  checkpoint::check_image_tokens(folder, config, m.tokenizer);
  m.images = train::model_images(media.images, config, folder);
  m.local_files = media.local_files;
  m.features.images = m.images.processor.has_value(), m.features.most_images = media.most_images;
  for (const char* flag : {"mm-processor-kwargs", "allowed-local-media-path"})
    if (!m.features.images && opt.is_set(flag))
      throw config_error("--" + std::string(flag) + ": " + folder.string() +
                         " reads no images: its config.json has no vision_config");
}

/// The tokens that end an answer, as vLLM has them: the tokenizer's and those of the generation config, which
/// --generation-config chooses.
RLCORE_INLINE std::vector<std::int32_t> read_end_tokens(const options& opt, const std::filesystem::path& folder,
                                                        const nn::config& config, std::optional<std::int32_t> eos) {
  const std::string source = opt.get<std::string>("generation-config");
  std::vector<std::int32_t> ids = config.eos_token_ids;
  if (source == "vllm" && eos) ids.clear();
  if (source != "vllm" && source != "auto") ids = checkpoint::generation_end_tokens(checkpoint::expand_home(source));
  for (const std::int32_t id : ids)
    if (id < 0 || id >= config.vocab_size)
      throw config_error("--generation-config " + source + ": eos_token_id " + std::to_string(id) +
                         "; expected ids below vocab_size " + std::to_string(config.vocab_size));
  return checkpoint::end_tokens(folder, ids, eos);
}

RLCORE_INLINE served_model open_served_model(const options& opt, const std::filesystem::path& folder,
                                             const nn::config& config) {
  const std::string path = opt.get<std::string>("model");
  std::filesystem::path tokens = folder;
  if (opt.find<std::string>("tokenizer")) tokens = train::named_model(opt, "tokenizer");
  served_model m{.names = opt.list("served-model-name"), .folder = folder, .tokenizer = text::tokenizer::load(tokens)};
  if (m.names.empty()) m.names = {path};
  m.chat = read_chat_template(opt, tokens, m.without_chat);
  m.vocabulary = config.vocab_size;
  if (static_cast<std::int64_t>(m.tokenizer.vocab_size()) > config.vocab_size)
    throw format_error(folder.string() + ": the tokenizer has " + std::to_string(m.tokenizer.vocab_size()) +
                       " tokens, the model only " + std::to_string(config.vocab_size));
  m.eos_id = m.tokenizer.eos_id();
  m.eos_ids = read_end_tokens(opt, folder, config, m.eos_id);
  m.seed = random_key{static_cast<std::uint64_t>(opt.get<std::int64_t>("seed"))};
  m.defaults = read_request_defaults(opt, folder);
  m.features = {.tool_calls = opt.get<bool>("enable-auto-tool-choice"),
                .tools_without_choice = !opt.get<bool>("exclude-tools-when-tool-choice-none"),
                .request_templates = opt.get<bool>("trust-request-chat-template")};
  read_images(opt, folder, config, m);
  m.reasoning = reasoning_form_of(opt.find<std::string>("reasoning-parser").value_or(""));
  m.response_role = opt.get<std::string>("response-role");
  const std::string logprobs = opt.get<std::string>("logprobs-mode");
  m.raw_logprobs = logprobs != "tempered_logprobs", m.processed_logprobs = logprobs == "processed_logprobs";
  return m;
}

}  // namespace serving
RLCORE_END
#endif
