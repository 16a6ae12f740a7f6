// The tokenizer of a GGUF file as tokenizer.json and tokenizer_config.json.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "rlcore/core/abi.hpp"
#include "rlcore/text/gguf/gguf_file.hpp"
#include "rlcore/text/pre_tokenizer.hpp"

RLCORE_BEGIN
namespace text {

/// How a byte-level tokenizer cuts words, under the name that llama.cpp has for it.
struct gguf_pre {
  std::string_view name;
  std::string_view split;  ///< empty: GPT-2's
  bool digits = false;     ///< each digit is cut off first
  bool nfc = false;        ///< the text is normalised
  bool ignore_merges = false;
  bool add_bos = false;  ///< unless the file says otherwise
};

/// The ones that are known. Of two equal ones the first is written.
inline constexpr gguf_pre gguf_pres[] = {
    {.name = "gpt-2", .split = ""},
    {.name = "smollm", .split = "", .digits = true},
    {.name = "qwen2", .split = qwen2_split, .nfc = true},
    {.name = "deepseek-r1-qwen", .split = qwen2_split},
    {.name = "llama-bpe", .split = llama3_split, .ignore_merges = true, .add_bos = true},
    {.name = "llama3", .split = llama3_split, .ignore_merges = true, .add_bos = true},
    {.name = "llama-v3", .split = llama3_split, .ignore_merges = true, .add_bos = true},
    {.name = "falcon3", .split = llama3_split, .ignore_merges = true, .add_bos = true},
};

/// Types of tokens in tokenizer.ggml.token_type.
enum class gguf_token : std::uint64_t { normal = 1, unknown, control, user_defined, unused, byte };

/// A tokenizer.json for the byte-level BPE ("gpt2") of a file, or for its SentencePiece BPE ("llama"), whose merges
/// follow from the scores as transformers derives them. Throws format_error for other kinds and for unknown ways to cut
/// words.
std::string gguf_tokenizer_json(const gguf_file& file);

/// A tokenizer_config.json: the special tokens and the chat template.
std::string gguf_tokenizer_config(const gguf_file& file);

}  // namespace text
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_JSON)
#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "rlcore/core/compiler.hpp"
#include "rlcore/core/suggest.hpp"
#include "rlcore/text/parse_json.hpp"

RLCORE_BEGIN
namespace text {
namespace detail {

/// The vocabulary of a file.
class gguf_vocabulary {
 public:
  std::vector<std::string> tokens, merges;
  std::unordered_map<std::string_view, std::uint64_t> ids;  ///< without unused tokens
  bool sentencepiece = false;

  /// Throws format_error.
  explicit gguf_vocabulary(const gguf_file& file)
      : tokens(file.texts("tokenizer.ggml.tokens")),
        merges(file.texts("tokenizer.ggml.merges")),
        file_(file),
        types_(file.integers("tokenizer.ggml.token_type")) {
    if (tokens.empty()) file.fail("tokenizer.ggml.tokens", "a list of texts");
    if (!types_.empty() && types_.size() != tokens.size())
      file.fail("tokenizer.ggml.token_type", "one for each of " + std::to_string(tokens.size()) + " tokens");
    for (const char* key : {"bos", "eos", "eot", "eom"})
      if (const auto id = named(key)) control_.insert(*id);
    const std::string model = file.text("tokenizer.ggml.model").value_or("");
    if (model != "gpt2" && model != "llama")
      file.fail("tokenizer.ggml.model", "gpt2 (byte-level BPE) or llama (SentencePiece BPE)");
    sentencepiece = model == "llama";
    for (std::size_t id = 0; id < tokens.size(); ++id) {
      if (type(id) == gguf_token::unused) continue;
      const auto [at, is_new] = ids.emplace(tokens[id], id);
      if (!is_new)
        throw format_error(file.path().string() + ": key 'tokenizer.ggml.tokens': " + std::to_string(at->second) +
                           " and " + std::to_string(id) + " are both '" + shown(tokens[id]) + "'");
    }
  }

  gguf_token type(std::size_t id) const {
    const auto written = types_.empty() ? gguf_token::normal : static_cast<gguf_token>(types_[id]);
    return written == gguf_token::normal && control_.contains(id) ? gguf_token::control : written;
  }
  /// The id under tokenizer.ggml.`key`_token_id; empty for none. Throws format_error for one that is no token.
  std::optional<std::uint64_t> named(const std::string& key) const {
    const std::string name = "tokenizer.ggml." + key + "_token_id";
    const auto id = file_.integer(name);
    if (!id || *id == 0xFFFFFFFFU) return std::nullopt;
    if (*id >= tokens.size()) file_.fail(name, "ids below " + std::to_string(tokens.size()));
    return id;
  }
  bool adds(const std::string& which, bool otherwise) const {
    return file_.boolean("tokenizer.ggml.add_" + which + "_token").value_or(otherwise);
  }

 private:
  const gguf_file& file_;
  std::vector<std::uint64_t> types_;
  std::unordered_set<std::uint64_t> control_;
};

/// The merges of a SentencePiece BPE: each way to put a token together from two others, the tokens of high score first
/// and of one token the longer beginning.
inline std::vector<std::pair<std::string_view, std::string_view>> merges_of_scores(const gguf_file& file,
                                                                                   const gguf_vocabulary& v) {
  constexpr std::size_t longest = 1024;
  const std::vector<float> scores = file.numbers("tokenizer.ggml.scores");
  if (scores.size() != v.tokens.size())
    file.fail("tokenizer.ggml.scores", "one for each of " + std::to_string(v.tokens.size()) + " tokens");
  struct merge {
    float score;
    std::string_view left, right;
  };
  std::vector<merge> all;
  for (std::size_t id = 0; id < v.tokens.size(); ++id) {
    if (v.type(id) != gguf_token::normal) continue;
    const std::string_view token = v.tokens[id];
    if (token.size() > longest)
      throw format_error(file.path().string() + ": key 'tokenizer.ggml.tokens': a token of " +
                         std::to_string(token.size()) + " bytes; expected at most " + std::to_string(longest));
    if (!(scores[id] == scores[id])) file.fail("tokenizer.ggml.scores", "numbers");
    for (std::size_t i = 1; i < token.size(); ++i)
      if (v.ids.contains(token.substr(0, i)) && v.ids.contains(token.substr(i)))
        all.push_back({scores[id], token.substr(0, i), token.substr(i)});
  }
  std::stable_sort(all.begin(), all.end(), [](const merge& a, const merge& b) {
    return std::tuple(-a.score, b.left.size(), b.right.size()) < std::tuple(-b.score, a.left.size(), a.right.size());
  });
  std::vector<std::pair<std::string_view, std::string_view>> merges;
  merges.reserve(all.size());
  for (const merge& m : all) merges.emplace_back(m.left, m.right);
  return merges;
}

/// The entry of tokenizer.ggml.pre.
inline const gguf_pre& pre_of(const gguf_file& file) {
  const auto name = file.text("tokenizer.ggml.pre");
  const auto at =
      std::find_if(std::begin(gguf_pres), std::end(gguf_pres), [&](const auto& p) { return p.name == name; });
  if (at != std::end(gguf_pres)) return *at;
  std::string known;
  for (const gguf_pre& p : gguf_pres) known += (known.empty() ? "" : ", ") + std::string(p.name);
  file.fail("tokenizer.ggml.pre", "one of " + known + " (the model's own tokenizer.json opens with its folder)");
}

/// {"type": `type`, ...}
inline nlohmann::json step(const char* type, nlohmann::json::initializer_list_t members = {}) {
  nlohmann::json j(members);
  if (j.is_null()) j = nlohmann::json::object();
  j["type"] = type;
  return j;
}

/// pre_tokenizer of a byte-level tokenizer.
inline nlohmann::json pre_tokenizer_json(const gguf_pre& pre) {
  nlohmann::json steps = nlohmann::json::array();
  if (pre.digits) steps.push_back(step("Digits", {{"individual_digits", true}}));
  if (!pre.split.empty())
    steps.push_back(step("Split", {{"pattern", {{"Regex", pre.split}}}, {"behavior", "Isolated"}, {"invert", false}}));
  steps.push_back(
      step("ByteLevel", {{"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", pre.split.empty()}}));
  return step("Sequence", {{"pretokenizers", steps}});
}

/// The normalizer and decoder of SentencePiece: a space is U+2581, and one more stands in front of a text.
inline void add_sentencepiece_steps(nlohmann::json& root, bool prefix) {
  const std::string mark = "\xE2\x96\x81";
  nlohmann::json before = nlohmann::json::array(), behind = nlohmann::json::array();
  if (prefix) before.push_back(step("Prepend", {{"prepend", mark}}));
  before.push_back(step("Replace", {{"pattern", {{"String", " "}}}, {"content", mark}}));
  behind.push_back(step("Replace", {{"pattern", {{"String", mark}}}, {"content", " "}}));
  behind.push_back(step("ByteFallback"));
  behind.push_back(step("Fuse"));
  if (prefix) behind.push_back(step("Strip", {{"content", " "}, {"start", 1}, {"stop", 0}}));
  root["normalizer"] = step("Sequence", {{"normalizers", before}});
  root["decoder"] = step("Sequence", {{"decoders", behind}});
  root["pre_tokenizer"] = nullptr;
}

/// What the tokenizer puts around a text: the BOS and the EOS token where the file wants them.
inline nlohmann::json post_processor_json(const gguf_vocabulary& v, bool add_bos, bool add_eos) {
  nlohmann::json single = nlohmann::json::array(), special = nlohmann::json::object();
  const auto add = [&](const char* key, bool wanted) {
    const auto id = v.named(key);
    if (!wanted || !id) return;
    const std::string& token = v.tokens[*id];
    single.push_back({{"SpecialToken", {{"id", token}, {"type_id", 0}}}});
    special[token] = {{"id", token}, {"ids", nlohmann::json::array({*id})}, {"tokens", nlohmann::json::array({token})}};
  };
  add("bos", add_bos);
  single.push_back({{"Sequence", {{"id", "A"}, {"type_id", 0}}}});
  add("eos", add_eos);
  if (special.empty()) return v.sentencepiece ? nlohmann::json() : step("ByteLevel", {{"trim_offsets", false}});
  nlohmann::json pair = single;
  pair.push_back({{"Sequence", {{"id", "B"}, {"type_id", 1}}}});
  return step("TemplateProcessing", {{"single", single}, {"pair", pair}, {"special_tokens", special}});
}

/// The model of tokenizer.json, without options.
inline nlohmann::json model_json(const gguf_file& file, const gguf_vocabulary& v) {
  nlohmann::json merges = nlohmann::json::array(), vocab = nlohmann::json::object();
  std::unordered_set<std::string> merged;
  const auto add = [&](std::string_view left, std::string_view right) {
    merges.push_back(nlohmann::json::array({left, right}));
    for (const std::string& part : {std::string(left), std::string(right), std::string(left) + std::string(right)})
      merged.insert(part);
  };
  if (v.merges.empty() && v.sentencepiece)
    for (const auto& [left, right] : merges_of_scores(file, v)) add(left, right);
  for (std::size_t i = 0; i < v.merges.size(); ++i) {
    const std::size_t space = v.merges[i].find(' ', 1);
    if (space == v.merges[i].npos)
      throw format_error(file.path().string() + ": key 'tokenizer.ggml.merges': text " + std::to_string(i) + " is '" +
                         shown(v.merges[i]) + "'; expected two tokens with a space between them");
    add(std::string_view(v.merges[i]).substr(0, space), std::string_view(v.merges[i]).substr(space + 1));
  }
  for (const auto& [token, id] : v.ids) {
    const gguf_token type = v.type(id);
    const bool ordinary = type != gguf_token::control && type != gguf_token::user_defined;
    if (ordinary || v.sentencepiece || merged.contains(std::string(token))) vocab[std::string(token)] = id;
  }
  return step("BPE", {{"vocab", std::move(vocab)},
                      {"merges", std::move(merges)},
                      {"dropout", nullptr},
                      {"unk_token", nullptr},
                      {"continuing_subword_prefix", nullptr},
                      {"end_of_word_suffix", nullptr},
                      {"fuse_unk", v.sentencepiece},
                      {"byte_fallback", v.sentencepiece},
                      {"ignore_merges", false}});
}

}  // namespace detail

RLCORE_INLINE std::string gguf_tokenizer_json(const gguf_file& file) {
  const detail::gguf_vocabulary v(file);
  nlohmann::json root{{"version", "1.0"}, {"truncation", nullptr}, {"padding", nullptr}};
  root["model"] = detail::model_json(file, v);
  bool add_bos = true;
  if (v.sentencepiece) {
    detail::add_sentencepiece_steps(root, file.boolean("tokenizer.ggml.add_space_prefix").value_or(true));
    if (const auto unknown = v.named("unknown")) root["model"]["unk_token"] = v.tokens[*unknown];
  } else {
    const gguf_pre& pre = detail::pre_of(file);
    add_bos = pre.add_bos;
    root["normalizer"] = pre.nfc ? detail::step("NFC") : nlohmann::json();
    root["pre_tokenizer"] = detail::pre_tokenizer_json(pre);
    root["decoder"] = detail::step("ByteLevel");
    root["model"]["ignore_merges"] = pre.ignore_merges;
  }
  root["post_processor"] = detail::post_processor_json(v, v.adds("bos", add_bos), v.adds("eos", false));
  nlohmann::json added = nlohmann::json::array();
  for (std::size_t id = 0; id < v.tokens.size(); ++id) {
    const gguf_token type = v.type(id);
    const bool control = type == gguf_token::control || type == gguf_token::unknown;
    if (control || type == gguf_token::user_defined)
      added.push_back({{"id", id},
                       {"content", v.tokens[id]},
                       {"single_word", false},
                       {"lstrip", false},
                       {"rstrip", false},
                       {"normalized", false},
                       {"special", control}});
  }
  root["added_tokens"] = std::move(added);
  return json_text(root);
}

RLCORE_INLINE std::string gguf_tokenizer_config(const gguf_file& file) {
  const detail::gguf_vocabulary v(file);
  nlohmann::ordered_json root;
  const bool add_bos = v.sentencepiece || detail::pre_of(file).add_bos;
  root["add_bos_token"] = v.adds("bos", add_bos);
  root["add_eos_token"] = v.adds("eos", false);
  for (const auto& [key, name] : {std::pair("bos", "bos_token"), std::pair("eos", "eos_token"),
                                  std::pair("padding", "pad_token"), std::pair("unknown", "unk_token")})
    if (const auto id = v.named(key)) root[name] = v.tokens[*id];
  root["clean_up_tokenization_spaces"] = false;
  root["tokenizer_class"] = "PreTrainedTokenizerFast";
  if (const auto architecture = file.text("general.architecture"))
    if (const auto length = file.integer(*architecture + ".context_length")) root["model_max_length"] = *length;
  if (const auto jinja = file.text("tokenizer.chat_template")) {
    nlohmann::ordered_json named = nlohmann::ordered_json::array();
    for (const std::string& name : file.texts("tokenizer.chat_templates"))
      if (const auto other = file.text("tokenizer.chat_template." + name))
        named.push_back({{"name", name}, {"template", *other}});
    if (!named.empty()) named.push_back({{"name", "default"}, {"template", *jinja}});
    root["chat_template"] = named.empty() ? nlohmann::ordered_json(*jinja) : named;
  }
  return json_text(root, 2) + "\n";
}

}  // namespace text
RLCORE_END
#endif
