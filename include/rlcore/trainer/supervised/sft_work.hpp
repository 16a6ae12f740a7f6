// The examples of supervised fine-tuning, as either command line says.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "rlcore/checkpoint/hugging_face.hpp"
#include "rlcore/config/options.hpp"
#include "rlcore/config/settings/model_options.hpp"
#include "rlcore/data/open_blend.hpp"
#include "rlcore/data/sft_rows.hpp"
#include "rlcore/data/table.hpp"
#include "rlcore/device/any_device.hpp"
#include "rlcore/telemetry/console.hpp"
#include "rlcore/text/chat_template.hpp"
#include "rlcore/trainer/preference/run.hpp"
#include "rlcore/trainer/preference/settings.hpp"
#include "rlcore/trainer/supervised/base_model.hpp"
#include "rlcore/trainer/supervised/open.hpp"
#include "rlcore/trainer/supervised/openrlhf_sft.hpp"
#include "rlcore/trainer/supervised/sft_settings.hpp"
#include "rlcore/trainer/supervised/sft_task.hpp"
#include "rlcore/trainer/supervised/show_mask.hpp"
#include "rlcore/training/files/data_files.hpp"
#include "rlcore/training/model_images.hpp"

RLCORE_BEGIN
namespace trainer {

/// Prints the counts, and throws data_error for a row with more tokens than the model has positions.
std::vector<data::sft_example> checked_rows(data::sft_rows rows, const base_model& base, const char* name,
                                            const std::string& from);

/// verl's data.train_files and data.val_files.
inline std::vector<data::sft_example> open_sft_rows(const std::vector<std::string>& files,
                                                    const data::sft_settings& settings, const base_model& base,
                                                    const text::chat_template* chat, const char* name) {
  std::vector<data::table> tables;
  for (const std::string& file : files) tables.push_back(data::read_table(checkpoint::expand_home(file)));
  return checked_rows(data::read_sft_rows(tables, settings, base.tokenizer, chat), base, name, files.front());
}

/// OpenRLHF's --dataset and --eval_dataset.
std::vector<data::sft_example> open_sft_rows(const data::blend& rows, const data::sft_settings& settings,
                                             const base_model& base, const text::chat_template* chat, const char* name);

/// The training data. The run's settings are read by train_supervised().
struct sft_work {
  std::vector<data::sft_example> train, eval;
  std::int64_t rows_per_pass = 0, show_mask = 0;
  std::string eval_name = "val/loss";
  std::shared_ptr<data::image_cache> cache = {};  ///< of the rows' images
};

/// The command line of verl.
sft_work open_verl_sft(const options& opt, const base_model& base);

/// The command line of OpenRLHF.
sft_work open_openrlhf_sft(const options& opt, const base_model& base);

template <class Device, class Objective>
std::shared_ptr<sft_task<Device, Objective>> make_sft_task(Device&, sft_work& work, Objective loss) {
  return std::make_shared<sft_task<Device, Objective>>(std::move(work.train), std::move(work.eval), work.rows_per_pass,
                                                       work.eval_name, 0, loss, work.cache);
}

}  // namespace trainer
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TRAINER)
RLCORE_BEGIN
namespace trainer {

RLCORE_INLINE std::vector<data::sft_example> checked_rows(data::sft_rows rows, const base_model& base, const char* name,
                                                          const std::string& from) {
  std::size_t longest = 0, tokens = 0, trained = 0;
  for (const data::sft_example& e : rows.examples)
    longest = std::max(longest, e.tokens.size()), tokens += e.tokens.size(), trained += e.trained();
  if (static_cast<std::int64_t>(longest) > base.config.max_position_embeddings)
    throw data_error(from + ": a row has " + std::to_string(longest) + " tokens, more than the model's " +
                     std::to_string(base.config.max_position_embeddings) + " positions (max_position_embeddings)");
  say("%-6s %zu rows", name, rows.size());
  if (rows.size() != rows.rows_read)
    say(" (%zu left out: empty, or no room for an answer)", rows.rows_read - rows.size());
  say(", %zu tokens, %zu of them learnt, the longest row has %zu, from %s\n", tokens, trained, longest, from.c_str());
  return std::move(rows.examples);
}

RLCORE_INLINE std::vector<data::sft_example> open_sft_rows(const data::blend& rows, const data::sft_settings& settings,
                                                           const base_model& base, const text::chat_template* chat,
                                                           const char* name) {
  const std::string file = rows.sets.front().file;
  return checked_rows(data::read_sft_rows(
                          rows.size(), [&](std::size_t i) -> const data::row& { return rows[i]; },
                          [&](std::size_t i) { return rows.where(i); }, [&](std::size_t i) { return rows.folder(i); },
                          file, settings, base.tokenizer, chat),
                      base, name, file);
}

RLCORE_INLINE sft_work open_verl_sft(const options& opt, const base_model& base) {
  sft_run_settings s = read_sft_settings(opt);
  s.rows.images = model_images(read_image_options(opt), base.config, base.folder);
  if (s.rows.images.processor) say("%s\n", image_text(s.rows.images).c_str());
  const auto chat = text::chat_template::chosen(chat_template_setting(opt), base.folder, "rlcore.chat_template");
  if (s.train_files.empty()) throw config_error("data.train_files is empty; expected a file with training rows");
  const bool evaluates = !s.val_files.empty() && s.show_mask == 0;
  check_data_files(opt, "data.train_files", data::check_table);
  if (evaluates) check_data_files(opt, "data.val_files", data::check_table);
  sft_work work{{}, {}, s.run.rows_per_pass, s.show_mask, "val/loss", s.rows.images.cache};
  work.train = open_sft_rows(s.train_files, s.rows, base, &chat, "train");
  data::sft_settings for_eval = s.rows;
  for_eval.max_rows = s.max_eval_rows;
  if (evaluates) work.eval = open_sft_rows(s.val_files, for_eval, base, &chat, "val");
  return work;
}

RLCORE_INLINE sft_work open_openrlhf_sft(const options& opt, const base_model& base) {
  const row_rules rules = read_row_rules(opt, base);
  data::sft_settings settings = read_openrlhf_rows(opt, rules);
  settings.images = rules.images;
  const text::chat_template* chat = rules.chat ? &*rules.chat : nullptr;
  sft_work work{{},
                {},
                read_openrlhf_run(opt).rows_per_pass,
                opt.get<std::int64_t>("rlcore.show_mask"),
                "eval/eval_loss",
                settings.images.cache};
  work.train = open_sft_rows(open_training_rows(opt), settings, base, chat, "train");
  if (const auto rows = open_evaluation_rows(opt); rows && work.show_mask == 0)
    work.eval = open_sft_rows(*rows, settings, base, chat, "eval");
  return work;
}

RLCORE_INLINE std::shared_ptr<const base_model> open_pretrained(const options& opt) {
  return std::make_shared<const base_model>(open_base_model(opt, sft_model_key(opt)));
}

RLCORE_INLINE std::shared_ptr<sft_work> open_sft(const options& opt, const base_model& base) {
  if (base.config.output != nn::model_output::logits)
    throw config_error(base.folder.string() + " is a score model; expected one that predicts tokens");
  return std::make_shared<sft_work>(speaks_openrlhf(opt) ? open_openrlhf_sft(opt, base) : open_verl_sft(opt, base));
}

RLCORE_INLINE void show_masks(const sft_work& work, const base_model& base) {
  say("+ learnt, - not learnt; | between tokens\n");
  for (std::size_t i = 0; i < std::min(work.train.size(), static_cast<std::size_t>(work.show_mask)); ++i)
    say("row %zu: %zu tokens, %zu learnt\n%s", i, work.train[i].tokens.size(), work.train[i].trained(),
        mask_text(work.train[i], base.tokenizer).c_str());
}

}  // namespace trainer
RLCORE_END
#endif
