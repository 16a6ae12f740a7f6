// The tokenizer of a model folder as the metadata of a GGUF file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/text/gguf/gguf_tokenizer.hpp"

RLCORE_BEGIN
namespace text {

/// What follows "tokenizer.ggml." in the file, and the chat template.
struct gguf_tokenizer {
  std::string model, pre;  ///< "gpt2" and one of gguf_pres, or "llama" and "default"
  std::vector<std::string> tokens, merges;
  std::vector<std::int32_t> types;                           ///< gguf_token
  std::vector<float> scores;                                 ///< of "llama"
  std::map<std::string, std::int32_t> ids;                   ///< of bos, eos, padding, unknown
  bool add_bos = false, add_eos = false, add_space = false;  ///< what is put around a text
  std::optional<std::string> chat_template;
};

/// The tokenizer of `folder`, with unused tokens up to `vocab_size`. Throws format_error for a tokenizer that llama.cpp
/// would not compute alike: another way to cut words, or merges that do not follow from scores.
gguf_tokenizer tokenizer_to_gguf(const std::filesystem::path& folder, std::size_t vocab_size);

}  // namespace text
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TEXT)
#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "rlcore/core/compiler.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/text/chat_template.hpp"
#include "rlcore/text/decoder.hpp"
#include "rlcore/text/model_file.hpp"
#include "rlcore/text/parse_json.hpp"
#include "rlcore/text/tokenizer.hpp"

RLCORE_BEGIN
namespace text {
namespace detail {

/// The steps of a pre_tokenizer or normalizer, without the sequences around them.
inline void flatten_steps(const nlohmann::json& from, const char* list, std::vector<nlohmann::json>& to) {
  if (from.is_null()) return;
  if (field(from, "type", list) != "Sequence") return to.push_back(from);
  for (const nlohmann::json& part : field(from, list, list)) flatten_steps(part, list, to);
}

/// The name of the way in which a byte-level tokenizer.json cuts words.
inline std::string_view pre_name(const nlohmann::json& root, const std::string& where) {
  std::vector<nlohmann::json> normal, cut;
  flatten_steps(field(root, "normalizer", where), "normalizers", normal);
  flatten_steps(field(root, "pre_tokenizer", where), "pretokenizers", cut);
  const auto is = [](const nlohmann::json& s, const char* type) { return s["type"] == type; };
  const auto flag = [&](const nlohmann::json& s, const char* key, bool otherwise) {
    return bool_field(s, key, otherwise, where);
  };
  bool known = normal.empty() || (normal.size() == 1 && is(normal[0], "NFC")), digits = false;
  std::string split;
  for (std::size_t i = 0; i < cut.size(); ++i) {
    if (i + 1 == cut.size()) {
      known = known && is(cut[i], "ByteLevel") && !flag(cut[i], "add_prefix_space", true) &&
              flag(cut[i], "use_regex", true) == split.empty();
    } else if (is(cut[i], "Digits")) {
      known = known && !digits && split.empty() && flag(cut[i], "individual_digits", false);
      digits = true;
    } else {
      known = known && is(cut[i], "Split") && split.empty() && cut[i]["behavior"] == "Isolated" &&
              !flag(cut[i], "invert", false) && !cut[i]["pattern"].contains("String");  // else it is a Regex
      if (known) split = string_field(cut[i]["pattern"], "Regex", where);
    }
  }
  const bool whole_words = flag(root["model"], "ignore_merges", false);
  std::string names;
  for (const gguf_pre& p : gguf_pres) {
    if (known && !cut.empty() && p.split == split && p.digits == digits && p.nfc == !normal.empty() &&
        p.ignore_merges == whole_words)
      return p.name;
    names += (names.empty() ? "" : ", ") + std::string(p.name);
  }
  throw format_error(where + ": no tokenizer of llama.cpp has its normalizer and pre_tokenizer; expected those of " +
                     names);
}

/// Is `root` the BPE of SentencePiece: spaces become U+2581 and bytes are the last resort? `add_space`: one more space
/// stands in front.
inline bool is_sentencepiece(const nlohmann::json& root, bool& add_space) {
  if (!bool_field(root["model"], "byte_fallback", false, "model") || !field(root, "pre_tokenizer", "").is_null())
    return false;
  std::vector<nlohmann::json> normal;
  flatten_steps(field(root, "normalizer", ""), "normalizers", normal);
  const std::string mark = "\xE2\x96\x81";
  add_space = !normal.empty() && normal[0]["type"] == "Prepend" && normal[0]["prepend"] == mark;
  if (add_space) normal.erase(normal.begin());
  return normal.size() == 1 && normal[0]["type"] == "Replace" && normal[0]["pattern"].contains("String") &&
         normal[0]["pattern"]["String"] == " " && normal[0]["content"] == mark;
}

/// The merges as pairs.
inline std::vector<std::pair<std::string, std::string>> merge_pairs(const nlohmann::json& model) {
  std::vector<std::pair<std::string, std::string>> pairs;
  for (const nlohmann::json& merge : model["merges"]) {
    if (merge.is_array()) {
      pairs.emplace_back(merge[0].get<std::string>(), merge[1].get<std::string>());
    } else {
      const auto& text = merge.get_ref<const std::string&>();
      const std::size_t space = text.find(' ');
      pairs.emplace_back(text.substr(0, space), text.substr(space + 1));
    }
  }
  return pairs;
}

/// Scores by which SentencePiece merges in the order of `pairs`: a token's is the place of its first merge. Throws
/// format_error where SentencePiece would merge what they do not.
inline std::vector<float> scores_of(const std::vector<std::pair<std::string, std::string>>& pairs,
                                    const gguf_tokenizer& t, const std::string& where) {
  std::unordered_map<std::string_view, std::size_t> ids;
  for (std::size_t id = 0; id < t.tokens.size(); ++id) ids.emplace(t.tokens[id], id);
  std::vector<float> scores(t.tokens.size(), 0.0F);
  for (std::size_t id = 0; id < scores.size(); ++id)
    if (t.types[id] == static_cast<std::int32_t>(gguf_token::normal)) scores[id] = -1e6F;
  const std::set<std::pair<std::string, std::string>> known(pairs.begin(), pairs.end());
  std::string latest;
  for (std::size_t rank = 0; rank < pairs.size(); ++rank) {
    const std::string merged = pairs[rank].first + pairs[rank].second;
    const auto id = ids.find(merged);
    if (id == ids.end())
      throw format_error(where + ": model.merges[" + std::to_string(rank) + "] makes '" + shown(merged) +
                         "', whose id is that of an added token");
    float& score = scores[id->second];
    if (score != -1e6F && merged != latest)
      throw format_error(where + ": model.merges[" + std::to_string(rank) + "] makes '" + shown(merged) +
                         "' again; expected all merges of a token together, as those of SentencePiece");
    if (score == -1e6F) score = -static_cast<float>(rank);
    latest = merged;
  }
  for (std::size_t id = 0; id < scores.size(); ++id) {
    const std::string_view token = t.tokens[id];
    if (t.types[id] != static_cast<std::int32_t>(gguf_token::normal) || token.size() > 1024) continue;
    for (std::size_t i = 1; i < token.size(); ++i)
      if (ids.contains(token.substr(0, i)) && ids.contains(token.substr(i)) &&
          !known.contains({std::string(token.substr(0, i)), std::string(token.substr(i))}))
        throw format_error(where + ": model.merges does not make '" + shown(token) + "' of '" +
                           shown(token.substr(0, i)) + "' and '" + shown(token.substr(i)) +
                           "'; SentencePiece would, and with it llama.cpp");
  }
  return scores;
}

/// The added tokens: id to whether it is special.
inline std::map<std::int64_t, bool> added_tokens_of(const nlohmann::json& root, const nlohmann::json& config) {
  std::map<std::int64_t, bool> added;
  for (const nlohmann::json& a : field(root, "added_tokens", "tokenizer"))
    added[integer_field(a, "id", "added_tokens")] = bool_field(a, "special", false, "added_tokens");
  const nlohmann::json& more = field(config, "added_tokens_decoder", "tokenizer_config.json");
  if (more.is_object())
    for (const auto& [id, a] : more.items())
      added.emplace(std::strtoll(id.c_str(), nullptr, 10), bool_field(a, "special", false, "added_tokens_decoder"));
  return added;
}

/// Tokens and their types.
inline void fill_tokens(gguf_tokenizer& t, const tokenizer& from, const std::map<std::int64_t, bool>& added,
                        std::size_t vocab_size) {
  const bool sentencepiece = t.model == "llama";
  for (std::size_t i = 0; i < vocab_size; ++i) {
    const auto id = static_cast<std::int32_t>(i);
    const std::string token = i < from.vocab_size() ? from.token_of(id) : std::string();
    const auto extra = added.find(id);
    // llama.cpp takes "<|...|>" for a control token whatever the file says.
    const bool control = extra != added.end() && (extra->second || (token.starts_with("<|") && token.ends_with("|>")));
    const auto type = token.empty()                                                          ? gguf_token::unused
                      : sentencepiece && t.ids.contains("unknown") && t.ids["unknown"] == id ? gguf_token::unknown
                      : control                                                              ? gguf_token::control
                      : extra != added.end()                                                 ? gguf_token::user_defined
                      : sentencepiece && decoder::fallback_byte(token) >= 0                  ? gguf_token::byte
                                                                                             : gguf_token::normal;
    t.tokens.push_back(token.empty() ? "[PAD" + std::to_string(i) + "]" : token);
    t.types.push_back(static_cast<std::int32_t>(type));
  }
}

}  // namespace detail

RLCORE_INLINE gguf_tokenizer tokenizer_to_gguf(const std::filesystem::path& folder, std::size_t vocab_size) {
  const std::filesystem::path file = folder / "tokenizer.json", config_file = folder / "tokenizer_config.json";
  const std::string where = file.string();
  const tokenizer from = tokenizer::load(folder);  // which checks what is read below
  const auto root = parse_json<format_error>(from.json(), where);
  const auto config = has_model_file(config_file)
                          ? parse_json<format_error>(read_model_file(config_file), config_file.string())
                          : nlohmann::json::object();
  if (from.vocab_size() > vocab_size)
    throw format_error(where + ": has " + std::to_string(from.vocab_size()) + " tokens, the model only " +
                       std::to_string(vocab_size));
  gguf_tokenizer t;
  const bool sentencepiece = detail::is_sentencepiece(root, t.add_space);
  t.model = sentencepiece ? "llama" : "gpt2";
  t.pre = sentencepiece ? "default" : detail::pre_name(root, where);
  for (const auto& [key, name] : {std::pair("bos", "bos_token"), std::pair("eos", "eos_token"),
                                  std::pair("padding", "pad_token"), std::pair("unknown", "unk_token")}) {
    const nlohmann::json& value = field(config, name, config_file.string());
    const nlohmann::json& content = value.is_object() ? field(value, "content", name) : value;
    if (!content.is_string()) continue;
    if (const auto id = from.id_of(content.get_ref<const std::string&>())) t.ids[key] = *id;
  }
  if (const nlohmann::json& unknown = field(root["model"], "unk_token", where); unknown.is_string())
    if (const auto id = from.id_of(unknown.get_ref<const std::string&>())) t.ids["unknown"] = *id;
  detail::fill_tokens(t, from, detail::added_tokens_of(root, config), vocab_size);
  const post_processor post(field(root, "post_processor", where));
  const auto single = [&](const std::vector<std::int32_t>& ids, const char* key) {
    if (ids.size() > 1 || (ids.size() == 1 && t.ids.contains(key) && t.ids[key] != ids[0]))
      throw format_error(where + ": its post_processor adds other tokens than one BOS and one EOS token");
    if (ids.size() == 1) t.ids[key] = ids[0];
    return !ids.empty();
  };
  t.add_bos = single(post.prefix(), "bos"), t.add_eos = single(post.suffix(), "eos");
  const auto pairs = detail::merge_pairs(root["model"]);
  if (sentencepiece)
    t.scores = detail::scores_of(pairs, t, where);
  else
    for (const auto& [left, right] : pairs) t.merges.push_back(left + ' ' + right);
  if (config.contains("chat_template") || has_model_file(folder / "chat_template.jinja") ||
      has_model_file(folder / "chat_template.json"))
    t.chat_template = chat_template::detect(folder).source();
  return t;
}

}  // namespace text
RLCORE_END
#endif
