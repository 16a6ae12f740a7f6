// Hugging Face tokenizer (tokenizer.json): text to token ids and back. Slow to compile: with RLCORE_COMPILED the
// implementation is in src/text.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace text {

/// A byte-level (or character-level) BPE tokenizer. Cheap to copy, immutable, usable by many threads at once.
///
/// Encodes and decodes exactly as the `tokenizers` library does with the same file, except that it refuses rather than
/// drops: text that is not UTF-8, characters without token. Truncation and padding stored in the file are not applied,
/// as `transformers` does not apply them either.
class tokenizer {
 public:
  /// Reads tokenizer.json, and tokenizer_config.json beside it where there is one (eos_token, pad_token, further added
  /// tokens). `folder_or_file`: the folder, a GGUF file, or the tokenizer.json itself. Throws file_error, format_error.
  static tokenizer load(const std::filesystem::path& folder_or_file);

  /// From the texts of tokenizer.json and tokenizer_config.json (may be empty). `where` names them in messages.
  static tokenizer parse(std::string json, std::string_view config, const std::string& where = "tokenizer.json");

  /// Ids of `utf8`. `parse_special`: whether the text of special tokens (<|im_end|>, ...) becomes their id; false for
  /// text that must not be able to forge them. Adds no special tokens: add_special_tokens=False of transformers, as for
  /// rendered chat templates. Throws data_error for broken UTF-8. `between`, if not empty, is called after
  /// every few thousand words; what it throws ends the call.
  std::vector<std::int32_t> encode(std::string_view utf8, bool parse_special = true,
                                   const std::function<void()>& between = {}) const;

  /// encode() with the tokens that the tokenizer puts around a whole text, such as Llama 3's <|begin_of_text|> in
  /// front: add_special_tokens=True of transformers, its default.
  std::vector<std::int32_t> encode_with_special_tokens(std::string_view utf8, bool parse_special = true,
                                                       const std::function<void()>& between = {}) const;

  /// Text of `ids`. Ids beyond the vocabulary (models pad their embedding) have no text. Broken UTF-8 becomes U+FFFD.
  std::string decode(std::span<const std::int32_t> ids, bool skip_special_tokens = false) const;

  /// Id of a token spelled as in the file (added tokens as they are, others in the byte alphabet).
  std::optional<std::int32_t> id_of(std::string_view token) const;

  /// The spelling of a token; empty for an id without token. Throws std::invalid_argument for ids out of range.
  const std::string& token_of(std::int32_t id) const;

  /// The bytes a token stands for in a byte-level vocabulary; empty for ids without token.
  std::string_view bytes_of(std::int32_t id) const;

  /// Highest id + 1, added tokens included.
  std::size_t vocab_size() const noexcept;

  /// Ids of the tokens that tokenizer_config.json names eos_token and pad_token.
  std::optional<std::int32_t> eos_id() const noexcept;
  std::optional<std::int32_t> pad_id() const noexcept;

  /// Whether `id` is spelled as an added token that is marked special: decoding may leave it out. As in tokenizers
  /// 0.23, one that is decoded normalised, and so spelled otherwise, is not.
  bool is_special(std::int32_t id) const;

  /// Whether decoding is the bytes of the tokens in a row (see stream_decoder).
  bool decodes_bytes() const noexcept;
  /// Can tokens be decoded one by one, given only the previous token? See stream_decoder.
  bool decodes_in_order() const;

  /// The text of the tokenizer.json this was read from.
  const std::string& json() const noexcept;

 private:
  struct parts;

  tokenizer() = default;

  bool has_text(std::int32_t id) const;
  template <class Step>
  void encode_text(std::string_view text, std::vector<std::int32_t>& ids, const Step& step) const;

  std::shared_ptr<const parts> parts_;
};

}  // namespace text
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TEXT)
#include <algorithm>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "rlcore/core/compiler.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/text/added_tokens.hpp"
#include "rlcore/text/bpe_model.hpp"
#include "rlcore/text/decoder.hpp"
#include "rlcore/text/gguf/gguf_file.hpp"
#include "rlcore/text/model_file.hpp"
#include "rlcore/text/normalizer.hpp"
#include "rlcore/text/parse_json.hpp"
#include "rlcore/text/pre_tokenizer.hpp"
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
  std::map<std::string, std::int32_t, std::less<>> added_ids;  // of the first token with this content
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
      if (!added_ids.contains(content))
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
    added_ids.emplace(a.content, a.id);
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
    std::vector<added_token_finder::entry> raw, normal;
    for (const auto& a : added) {
      const std::string spelling = a.normalized ? normalize(a.content) : a.content;
      (a.normalized ? normal : raw).push_back({spelling, a});
      tokens[static_cast<std::size_t>(a.id)] = spelling;  // what tokenizers 0.23 decodes
      if (a.special) marked.insert(a.content);
    }
    raw_tokens = added_token_finder(std::move(raw));
    normalized_tokens = added_token_finder(std::move(normal));
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

  /// The id of an added token of this content, else of the model's token of this spelling.
  std::optional<std::int32_t> id_of(std::string_view token) const {
    const auto found = added_ids.find(token);
    return found != added_ids.end() ? std::optional(found->second) : model.id_of(token);
  }

  /// The id of the token that `key` names; none if it names none. Throws format_error for an unknown token.
  std::optional<std::int32_t> named(const std::string& name, const char* key) const {
    if (name.empty()) return std::nullopt;
    const auto id = id_of(name);
    if (!id) throw format_error(std::string("tokenizer_config.json: ") + key + " '" + name + "' is no token");
    return id;
  }
};

RLCORE_INLINE tokenizer tokenizer::load(const std::filesystem::path& folder_or_file) {
  namespace fs = std::filesystem;
  const bool folder = fs::is_directory(folder_or_file) || is_gguf(folder_or_file);
  const fs::path file = folder ? folder_or_file / "tokenizer.json" : folder_or_file;
  const fs::path config = file.parent_path() / "tokenizer_config.json";
  return parse(read_model_file(file), has_model_file(config) ? read_model_file(config) : std::string(), file.string());
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

RLCORE_INLINE std::vector<std::int32_t> tokenizer::encode(std::string_view utf8, bool parse_special,
                                                          const std::function<void()>& between) const {
  require_utf8(utf8);
  std::vector<std::int32_t> ids;
  std::size_t steps = 0;
  const auto step = [&] {
    if (++steps % 4096 == 0 && between) between();
  };
  const auto emit = [&](std::int32_t id) { ids.push_back(id), step(); };
  parts_->raw_tokens.split(
      utf8, parse_special,
      [&](std::string_view part) {
        std::string changed;
        if (!parts_->normalize.empty()) part = changed = parts_->normalize(part);
        parts_->normalized_tokens.split(
            part, parse_special, [&](std::string_view t) { encode_text(t, ids, step); }, emit);
      },
      emit);
  return ids;
}

RLCORE_INLINE std::vector<std::int32_t> tokenizer::encode_with_special_tokens(
    std::string_view utf8, bool parse_special, const std::function<void()>& between) const {
  std::vector<std::int32_t> ids = parts_->post.prefix();
  const std::vector<std::int32_t> text = encode(utf8, parse_special, between);
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
  return parts_->id_of(token);
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

template <class Step>
void tokenizer::encode_text(std::string_view text, std::vector<std::int32_t>& ids, const Step& step) const {
  const auto compute = [&](std::string_view word, std::vector<std::int32_t>& out) {
    parts_->model.encode_word(word, out);
  };
  parts_->pre(text, [&](std::string_view word) {
    step();
    parts_->cache.append(word, ids, compute);
  });
}

}  // namespace text
RLCORE_END
#endif
