// Tokenizer implementation: stages, encoding and decoding.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/compiler.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/text/bpe_model.hpp"
#include "rlcore/text/decoder.hpp"
#include "rlcore/text/normalizer.hpp"
#include "rlcore/text/parse_json.hpp"
#include "rlcore/text/pre_tokenizer.hpp"
#include "rlcore/text/text_file.hpp"
#include "rlcore/text/tokenizer.hpp"
#include "rlcore/text/utf8.hpp"

RLCORE_BEGIN
namespace text {

/// The stages of a tokenizer, in the order in which a text goes through them, and its vocabulary.
struct tokenizer::parts {
  normalizer normalize;
  pre_tokenizer pre;
  bpe_model model;
  decoder decode;
  post_processor post;
  std::vector<added_token> added;
  added_token_finder raw_tokens, normalized_tokens;
  std::vector<std::string> tokens, bytes;
  std::vector<char> special;
  std::string eos_name, pad_name, json;
  std::optional<std::int32_t> eos, pad;
  mutable word_cache cache;

  /// Reads tokenizer.json. Throws format_error.
  void read(const nlohmann::json& j) {
    const auto model_json = j.find("model");
    if (!j.is_object() || model_json == j.end()) throw format_error("model: expected an object, found none");
    normalize = normalizer(field(j, "normalizer", "tokenizer"));
    pre = pre_tokenizer(field(j, "pre_tokenizer", "tokenizer"));
    model = bpe_model(*model_json, pre.byte_level());
    decode = decoder(field(j, "decoder", "tokenizer"));
    post = post_processor(field(j, "post_processor", "tokenizer"));
    for (const auto& a : field(j, "added_tokens", "tokenizer"))
      add(a, integer_field(a, "id", "added_tokens"), "added_tokens");
  }

  /// Reads the additional fields of tokenizer_config.json. Throws format_error.
  void read_config(const nlohmann::json& c) {
    const auto name = [&](const char* key) -> std::string {
      const nlohmann::json& value = field(c, key, "tokenizer_config.json");
      if (value.is_object()) return string_field(value, "content", std::string("tokenizer_config.json: ") + key);
      return value.is_null() ? std::string() : string_field(c, key, "tokenizer_config.json");
    };
    eos_name = name("eos_token");
    pad_name = name("pad_token");
    const nlohmann::json& more = field(c, "added_tokens_decoder", "tokenizer_config.json");
    if (!more.is_object()) return;
    for (const auto& [id, token] : more.items()) {
      const std::string content = string_field(token, "content", "tokenizer_config.json: added_tokens_decoder");
      const auto same = [&](const added_token& a) { return a.content == content; };
      if (std::none_of(added.begin(), added.end(), same))
        add(token, std::strtoll(id.c_str(), nullptr, 10), "tokenizer_config.json: added_tokens_decoder");
    }
  }

  /// Adds one added token. Throws format_error; `where` names the list that has it.
  void add(const nlohmann::json& j, long long id, const std::string& where) {
    added_token a;
    a.content = string_field(j, "content", where);
    if (id < 0 || id > largest_token_id)
      throw format_error(where + " '" + a.content + "': expected an id from 0 to " + std::to_string(largest_token_id) +
                         ", found " + std::to_string(id));
    a.id = static_cast<std::int32_t>(id);
    const auto in_model = model.id_of(a.content);
    if (in_model && *in_model != a.id)
      throw format_error(where + " '" + a.content + "': id " + std::to_string(id) + " but model.vocab has " +
                         std::to_string(*in_model));
    a.special = bool_field(j, "special", false, where);
    a.normalized = bool_field(j, "normalized", !a.special, where);
    a.single_word = bool_field(j, "single_word", false, where);
    a.lstrip = bool_field(j, "lstrip", false, where);
    a.rstrip = bool_field(j, "rstrip", false, where);
    added.push_back(std::move(a));
  }

  void finish() {
    std::size_t size = 0;
    const auto reach = [&](std::int32_t id) { size = std::max(size, static_cast<std::size_t>(id) + 1); };
    for (const auto& [token, id] : model.vocabulary()) reach(id);
    for (const auto& a : added) reach(a.id);
    tokens.resize(size);
    special.resize(size);
    std::set<std::string_view> marked;
    for (const auto& [token, id] : model.vocabulary()) tokens[static_cast<std::size_t>(id)] = token;
    for (const auto& a : added) {
      const std::string spelling = a.normalized ? normalize(a.content) : a.content;
      (a.normalized ? normalized_tokens : raw_tokens).add(a, spelling);
      tokens[static_cast<std::size_t>(a.id)] = spelling;  // what tokenizers 0.23 decodes
      if (a.special) marked.insert(a.content);
    }
    for (std::size_t id = 0; id < size; ++id) special[id] = marked.count(tokens[id]) != 0;
    for (const auto* around : {&post.prefix(), &post.suffix()})
      for (const std::int32_t id : *around)
        if (static_cast<std::size_t>(id) >= size)
          throw format_error("post_processor adds the id " + std::to_string(id) + ", which is no token");
    bytes.reserve(size);
    for (const auto& token : tokens) bytes.push_back(decoder::bytes_of(token));
    eos = named(eos_name, "eos_token");
    pad = named(pad_name, "pad_token");
  }

  /// The id of the token that `key` names; none if it names none. Throws format_error for an unknown token.
  std::optional<std::int32_t> named(const std::string& name, const char* key) const {
    if (name.empty()) return std::nullopt;
    for (const auto& a : added)
      if (a.content == name) return a.id;
    const auto id = model.id_of(name);
    if (!id) throw format_error(std::string("tokenizer_config.json: ") + key + " '" + name + "' is no token");
    return id;
  }
};

RLCORE_INLINE tokenizer tokenizer::load(const std::filesystem::path& folder_or_file) {
  namespace fs = std::filesystem;
  const fs::path file = fs::is_directory(folder_or_file) ? folder_or_file / "tokenizer.json" : folder_or_file;
  const fs::path config = file.parent_path() / "tokenizer_config.json";
  return parse(read_text_file(file), fs::exists(config) ? read_text_file(config) : std::string(), file.string());
}

RLCORE_INLINE tokenizer tokenizer::parse(std::string json, std::string_view config, const std::string& where) {
  auto p = std::make_shared<parts>();
  const nlohmann::json root = parse_json<format_error>(json, where);
  try {
    p->read(root);
    if (!config.empty()) p->read_config(parse_json<format_error>(config, "tokenizer_config.json"));
    p->finish();
  } catch (const format_error& e) {
    throw format_error(where + ": " + e.what());
  }
  p->json = std::move(json);
  tokenizer t;
  t.parts_ = std::move(p);
  return t;
}

RLCORE_INLINE std::vector<std::int32_t> tokenizer::encode(std::string_view utf8, bool parse_special) const {
  require_utf8(utf8);
  std::vector<std::int32_t> ids;
  const auto emit = [&](std::int32_t id) { ids.push_back(id); };
  parts_->raw_tokens.split(
      utf8, parse_special,
      [&](std::string_view part) {
        std::string changed;
        if (!parts_->normalize.empty()) part = changed = parts_->normalize(part);
        parts_->normalized_tokens.split(
            part, parse_special, [&](std::string_view t) { encode_text(t, ids); }, emit);
      },
      emit);
  return ids;
}

RLCORE_INLINE std::vector<std::int32_t> tokenizer::encode_with_special_tokens(std::string_view utf8,
                                                                              bool parse_special) const {
  std::vector<std::int32_t> ids = parts_->post.prefix();
  const std::vector<std::int32_t> text = encode(utf8, parse_special);
  ids.insert(ids.end(), text.begin(), text.end());
  ids.insert(ids.end(), parts_->post.suffix().begin(), parts_->post.suffix().end());
  return ids;
}

RLCORE_INLINE std::string tokenizer::decode(std::span<const std::int32_t> ids, bool skip_special_tokens) const {
  const auto kept = [&](std::int32_t id) { return has_text(id) && !(skip_special_tokens && is_special(id)); };
  if (parts_->decode.byte_level()) {
    std::string bytes;
    for (const std::int32_t id : ids)
      if (kept(id)) bytes += parts_->bytes[static_cast<std::size_t>(id)];
    return utf8_lossy(bytes);
  }
  std::vector<std::string> tokens;
  for (const std::int32_t id : ids)
    if (kept(id)) tokens.push_back(token_of(id));
  return parts_->decode(std::move(tokens));
}

RLCORE_INLINE std::optional<std::int32_t> tokenizer::id_of(std::string_view token) const {
  for (const added_token& a : parts_->added)
    if (a.content == token) return a.id;
  return parts_->model.id_of(token);
}

RLCORE_INLINE const std::string& tokenizer::token_of(std::int32_t id) const {
  require(id >= 0 && static_cast<std::size_t>(id) < vocab_size(), "token_of: id outside of the vocabulary");
  return parts_->tokens[static_cast<std::size_t>(id)];
}

RLCORE_INLINE std::string_view tokenizer::bytes_of(std::int32_t id) const {
  return has_text(id) ? std::string_view(parts_->bytes[static_cast<std::size_t>(id)]) : std::string_view();
}

RLCORE_INLINE std::size_t tokenizer::vocab_size() const noexcept { return parts_->tokens.size(); }

RLCORE_INLINE std::optional<std::int32_t> tokenizer::eos_id() const noexcept { return parts_->eos; }

RLCORE_INLINE std::optional<std::int32_t> tokenizer::pad_id() const noexcept { return parts_->pad; }

RLCORE_INLINE bool tokenizer::is_special(std::int32_t id) const {
  return has_text(id) && parts_->special[static_cast<std::size_t>(id)] != 0;
}

RLCORE_INLINE bool tokenizer::decodes_bytes() const noexcept { return parts_->decode.byte_level(); }

RLCORE_INLINE bool tokenizer::decodes_in_order() const { return parts_->decode.in_order() && !id_of(""); }

RLCORE_INLINE const std::string& tokenizer::json() const noexcept { return parts_->json; }

RLCORE_INLINE bool tokenizer::has_text(std::int32_t id) const {
  require(id >= 0, "decode: a negative token id");
  return static_cast<std::size_t>(id) < parts_->tokens.size();
}

RLCORE_INLINE void tokenizer::encode_text(std::string_view text, std::vector<std::int32_t>& ids) const {
  const auto compute = [&](std::string_view word, std::vector<std::int32_t>& out) {
    parts_->model.encode_word(word, out);
  };
  parts_->pre(text, [&](std::string_view word) { parts_->cache.append(word, ids, compute); });
}

}  // namespace text
RLCORE_END
