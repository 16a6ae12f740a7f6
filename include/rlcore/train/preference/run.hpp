// Shared setup and export of DPO, KTO, reward and process reward runs; scores of the evaluation rows as JSON lines.
#pragma once

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rlcore/checkpoint/atomic_file.hpp"
#include "rlcore/checkpoint/hugging_face.hpp"
#include "rlcore/checkpoint/layout.hpp"
#include "rlcore/config/options.hpp"
#include "rlcore/data/blend.hpp"
#include "rlcore/telemetry/console.hpp"
#include "rlcore/text/parse_json.hpp"
#include "rlcore/text/text_file.hpp"
#include "rlcore/train/files/export_model.hpp"
#include "rlcore/train/model/images.hpp"
#include "rlcore/train/preference/open.hpp"
#include "rlcore/train/preference/read_rows.hpp"
#include "rlcore/train/preference/row_text.hpp"
#include "rlcore/train/preference/rows.hpp"
#include "rlcore/train/preference/settings.hpp"
#include "rlcore/train/supervised/base_model.hpp"

RLCORE_BEGIN
namespace train {

/// --dataset with --dataset_probs and --dataset_split, at most --max_samples rows of it. Looks for the files of
/// --eval_dataset and at the folder --save_path too, before any row is read.
data::blend open_training_rows(const options& opt);
/// --eval_dataset with --eval_split; nothing if it is not given.
inline std::optional<data::blend> open_evaluation_rows(const options& opt) {
  const auto name = opt.find<std::string>("eval_dataset");
  if (!name || name->empty()) return std::nullopt;
  return data::open_blend({.datasets = *name, .split = opt.get<std::string>("eval_split")});
}

/// --apply_chat_template, --tokenizer_chat_template, --input_template, --max_len, and how images are read. Throws
/// config_error if a given max_len is more than the model's positions; the default is lowered to them.
row_rules read_row_rules(const options& opt, const base_model& base);

/// check_export_of() for --save_path.
inline void check_export_of(const options& opt, const base_model& base) {
  check_export_of("--save_path", checkpoint::expand_home(opt.get<std::string>("save_path")), base.config, base.folder);
}

/// The model of the last checkpoint, copied to --save_path. Throws file_error.
inline void export_model(const options& opt) {
  const std::filesystem::path root = checkpoint::expand_home(opt.get<std::string>("ckpt_path"));
  if (const auto step = checkpoint::read_tracker(root))
    export_model(checkpoint::step_folder(root, *step), checkpoint::expand_home(opt.get<std::string>("save_path")),
                 opt.get<std::string>("rlcore.export_type"));
}

namespace detail {

/// read(blend) of --dataset, and of --eval_dataset if it is given.
template <class Row, class Read>
row_sets<Row> open_sets(const options& opt, Read&& read) {
  row_sets<Row> out;
  out.train = read(open_training_rows(opt));
  if (const auto rows = open_evaluation_rows(opt)) out.held_out = read(*rows);
  return out;
}

}  // namespace detail

template <class Row>
void announce_rows(const options& opt, const preference_rows<Row>& train, const preference_rows<Row>& held_out) {
  train.require_some(opt.get<std::string>("dataset"));
  say("%s\n", train.summary("train").c_str());
  if (held_out.read > 0) say("%s\n", held_out.summary("eval ").c_str());
}

/// Collects the lines; close() writes them.
class score_file {
 public:
  /// An empty path: nothing is kept.
  explicit score_file(std::filesystem::path path) : path_(std::move(path)) {}
  bool wanted() const noexcept { return !path_.empty(); }
  /// Appends one object.
  void add(const nlohmann::ordered_json& scores) { lines_ += text::json_text(scores) + "\n"; }
  /// Replaces the file. Throws file_error.
  void close() const {
    if (!wanted()) return;
    if (path_.has_parent_path()) std::filesystem::create_directories(path_.parent_path());
    checkpoint::write_file_atomically(path_, lines_);
  }

 private:
  std::filesystem::path path_;
  std::string lines_;
};

}  // namespace train
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TRAIN_PARTS)
RLCORE_BEGIN
namespace train {

RLCORE_INLINE data::blend open_training_rows(const options& opt) {
  check_export("--save_path", checkpoint::expand_home(opt.get<std::string>("save_path")));
  if (const auto name = opt.find<std::string>("eval_dataset"); name && !name->empty())
    data::find_sets(*name, opt.get<std::string>("eval_split"));  // before any row is read
  return data::open_blend({.datasets = opt.get<std::string>("dataset"),
                           .probabilities = opt.find<std::string>("dataset_probs").value_or(""),
                           .split = opt.get<std::string>("dataset_split"),
                           .seed = static_cast<std::uint64_t>(opt.get<std::int64_t>("seed")),
                           .max_samples = static_cast<std::size_t>(opt.get<std::int64_t>("max_samples"))});
}

RLCORE_INLINE row_rules read_row_rules(const options& opt, const base_model& base) {
  row_rules rules{base.tokenizer,
                  {},
                  {},
                  static_cast<std::size_t>(opt.get<std::int64_t>("max_len")),
                  model_images(read_image_options(opt), base.config, base.folder)};
  if (rules.images.processor) say("%s\n", image_text(rules.images).c_str());
  rules.eos();
  const std::int64_t positions = base.config.max_position_embeddings;
  if (static_cast<std::int64_t>(rules.max_len) > positions) {
    if (opt.is_set("max_len"))
      throw config_error("--max_len " + std::to_string(rules.max_len) + " is more than the model's " +
                         std::to_string(positions) + " positions (max_position_embeddings)");
    rules.max_len = static_cast<std::size_t>(positions);
    say("note: --max_len is %lld, the positions that the model has\n", static_cast<long long>(positions));
  }
  if (opt.known().find("apply_chat_template") == nullptr) return rules;
  const std::string jinja = opt.find<std::string>("tokenizer_chat_template").value_or("");
  if (opt.get<bool>("apply_chat_template")) {
    rules.chat = text::chat_template::chosen(jinja, base.folder, "--tokenizer_chat_template");
  } else if (const auto form = opt.find<std::string>("input_template"); form && !form->empty()) {
    check_template(*form);
    rules.input_template = *form;
  }
  return rules;
}

RLCORE_INLINE std::shared_ptr<const base_model> open_language_model(const options& opt) {
  base_model base = open_base_model(opt, "pretrain");
  if (base.config.output != nn::model_output::logits)
    throw config_error("--pretrain " + base.folder.string() +
                       ": a score model (one number per token); expected a causal language model");
  check_export_of(opt, base);
  return std::make_shared<const base_model>(std::move(base));
}

RLCORE_INLINE std::shared_ptr<const base_model> open_score_model(const options& opt) {
  base_model base = open_base_model(opt, "pretrain");
  base.config.output = nn::model_output::score;
  check_export_of(opt, base);
  return std::make_shared<const base_model>(std::move(base));
}

RLCORE_INLINE std::shared_ptr<const row_rules> open_row_rules(const options& opt, const base_model& base) {
  return std::make_shared<const row_rules>(read_row_rules(opt, base));
}

RLCORE_INLINE std::filesystem::path scores_path(const options& opt) {
  return checkpoint::expand_home(opt.find<std::string>("rlcore.eval_scores").value_or(""));
}

RLCORE_INLINE row_sets<preference_pair> open_pairs(const options& opt, const pair_columns& keys, const row_rules& rules,
                                                   bool for_dpo) {
  return detail::open_sets<preference_pair>(
      opt, [&](const data::blend& from) { return read_pairs(from, keys, rules, for_dpo); });
}

RLCORE_INLINE row_sets<unpaired_row> open_unpaired(const options& opt, const unpaired_columns& keys,
                                                   const row_rules& rules) {
  return detail::open_sets<unpaired_row>(opt,
                                         [&](const data::blend& from) { return read_unpaired(from, keys, rules); });
}

RLCORE_INLINE row_sets<judged_row> open_steps(const options& opt, const step_columns& keys, const step_tokens& words,
                                              const row_rules& rules) {
  return detail::open_sets<judged_row>(opt,
                                       [&](const data::blend& from) { return read_steps(from, keys, words, rules); });
}

RLCORE_INLINE step_tokens find_step_tokens(const base_model& base, const step_columns& keys) {
  return find_step_tokens(base.tokenizer, keys);
}

}  // namespace train
RLCORE_END
#endif
