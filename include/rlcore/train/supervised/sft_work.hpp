// The settings and examples of supervised fine-tuning, as either command line says.
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
#include "rlcore/config/check_value.hpp"
#include "rlcore/config/options.hpp"
#include "rlcore/config/programs/sft.hpp"
#include "rlcore/config/settings/model_options.hpp"
#include "rlcore/config/settings/offload_options.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/data/blend.hpp"
#include "rlcore/data/file.hpp"
#include "rlcore/data/sft_dataset.hpp"
#include "rlcore/data/sft_rows.hpp"
#include "rlcore/data/table.hpp"
#include "rlcore/device/any_device.hpp"
#include "rlcore/nn/lora/lora_settings.hpp"
#include "rlcore/optim/schedule.hpp"
#include "rlcore/telemetry/console.hpp"
#include "rlcore/text/chat_template.hpp"
#include "rlcore/text/tokenizer.hpp"
#include "rlcore/train/files/model_files.hpp"
#include "rlcore/train/model/images.hpp"
#include "rlcore/train/model/trainable_model.hpp"
#include "rlcore/train/preference/row_text.hpp"
#include "rlcore/train/preference/run.hpp"
#include "rlcore/train/preference/settings.hpp"
#include "rlcore/train/run/open_log.hpp"
#include "rlcore/train/supervised/base_model.hpp"
#include "rlcore/train/supervised/open.hpp"
#include "rlcore/train/supervised/plan.hpp"
#include "rlcore/train/supervised/sft_task.hpp"

RLCORE_BEGIN
namespace train {

/// All settings of sft_trainer.
struct sft_run_settings {
  supervised_settings run;
  training_settings training;
  data::sft_settings rows;
  std::size_t max_eval_rows = 0;  ///< 0: all
  std::vector<std::string> train_files, val_files;
  std::string model_path;
  bool dft = false;
  std::int64_t show_mask = 0;
};

/// Two numbers in [0, 1) as AdamW's betas.
void read_betas(const options& opt, const char* name, optim::adamw_settings& adamw);

/// A schedule by its name in verl or transformers; the floor is a tenth where the name says so.
optim::schedule sft_schedule(const std::string& name);

/// Reads verl's keys. Throws config_error.
sft_run_settings read_sft_settings(const options& opt);

/// The row as lines of tokens with a bar between them, "+" in front of tokens that are learnt (the prediction one
/// position before them counts) and "-" in front of the others; one line for each run of either kind.
inline std::string mask_text(const data::sft_example& example, const text::tokenizer& tokenizer) {
  std::string out;
  const std::size_t n = example.tokens.size();
  for (std::size_t first = 0; first < n;) {
    const auto learnt = [&](std::size_t i) { return i > 0 && example.counts(i - 1); };
    std::size_t last = first;
    while (last < n && learnt(last) == learnt(first)) ++last;
    std::string place = std::to_string(first) + "-" + std::to_string(last - 1);
    out += std::string(learnt(first) ? "  + " : "  - ") + place +
           std::string(place.size() < 10 ? 10 - place.size() : 1, ' ');
    for (std::size_t i = first; i < last; ++i) {
      if (i > first) out += '|';
      out += data::printable(tokenizer.decode(std::span(&example.tokens[i], 1)));
    }
    out += '\n';
    first = last;
  }
  return out;
}

/// True for options of openrlhf_sft_registry().
inline bool speaks_openrlhf(const options& opt) { return opt.known().find("pretrain") != nullptr; }

/// The key of the model to start from: pretrain, or model.partial_pretrain. Throws config_error if the latter is not
/// given, since verl's default is never intended.
inline std::string sft_model_key(const options& opt) {
  if (speaks_openrlhf(opt)) return "pretrain";
  if (!opt.is_set("model.partial_pretrain"))
    throw config_error("model.partial_pretrain is not given; expected a model folder or id (--help lists all keys)");
  return "model.partial_pretrain";
}

/// How OpenRLHF reads a row.
inline data::sft_settings read_openrlhf_rows(const options& opt, const row_rules& rules) {
  data::sft_settings s;
  s.layout = opt.get<bool>("pretrain_mode") ? data::sft_layout::text
             : rules.chat                   ? data::sft_layout::chat
                                            : data::sft_layout::plain;
  s.prompt_key = opt.get<std::string>("input_key");
  s.response_key = opt.find<std::string>("output_key").value_or("");
  s.learnt = opt.get<bool>("multiturn") ? data::learnt_turns::all : data::learnt_turns::last;
  s.max_length = rules.max_len;
  if (!rules.input_template) return s;
  const std::string mark(1, '\1'), filled = fill_template(*rules.input_template, mark);
  s.before = filled.substr(0, filled.find(mark));
  s.after = filled.substr(s.before.size() + 1);
  return s;
}

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

}  // namespace train

RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TRAIN_PARTS)
RLCORE_BEGIN
namespace train {

RLCORE_INLINE void read_betas(const options& opt, const char* name, optim::adamw_settings& adamw) {
  const auto* items = opt.at(name).as<value::list>();
  std::vector<double> betas;
  if (items != nullptr)
    for (const value& item : *items) {
      if (const auto* real = item.as<double>()) betas.push_back(*real);
      if (const auto* whole = item.as<std::int64_t>()) betas.push_back(static_cast<double>(*whole));
    }
  if (betas.size() != 2 || items->size() != 2 || !(betas[0] >= 0 && betas[0] < 1 && betas[1] >= 0 && betas[1] < 1))
    throw config_error(std::string(name) + "=" + inline_text(opt.at(name)) +
                       ": expected two numbers from 0 to less than 1, such as [0.9,0.95]");
  adamw.beta1 = betas[0], adamw.beta2 = betas[1];
}

RLCORE_INLINE optim::schedule sft_schedule(const std::string& name) {
  using enum optim::schedule_kind;
  optim::schedule s;
  s.kind = name == "cosine" ? cosine : name == "wsd" ? wsd : name == "linear" ? linear : constant;
  if (name == "cosine_with_min_lr") s.kind = cosine, s.min_lr_ratio = 0.1;
  return s;
}

RLCORE_INLINE sft_run_settings read_sft_settings(const options& opt) {
  const auto count = [&](const char* name) {
    return static_cast<std::size_t>(std::max<std::int64_t>(0, opt.get<std::int64_t>(name)));
  };
  sft_run_settings s;
  s.train_files = opt.list("data.train_files"), s.val_files = opt.list("data.val_files");
  s.model_path = opt.get<std::string>("model.partial_pretrain");
  s.dft = opt.get<std::string>("rlcore.sft_loss") == "dft";
  s.show_mask = opt.get<std::int64_t>("rlcore.show_mask");

  data::sft_settings& rows = s.rows;
  rows.layout = opt.get<bool>("data.multiturn.enable") ? data::sft_layout::conversation : data::sft_layout::question;
  rows.prompt_key = opt.get<std::string>("data.prompt_key");
  rows.response_key = opt.get<std::string>("data.response_key");
  rows.prompt_path = opt.list("data.prompt_dict_keys"), rows.response_path = opt.list("data.response_dict_keys");
  rows.messages_key = opt.get<std::string>("data.multiturn.messages_key");
  rows.tools_key = opt.get<std::string>("data.multiturn.tools_key");
  rows.thinking_key = opt.get<std::string>("data.multiturn.enable_thinking_key");
  rows.enable_thinking = opt.find<bool>("data.apply_chat_template_kwargs.enable_thinking");
  rows.max_length = count("data.max_length");
  rows.truncation = data::parse_truncation(opt.get<std::string>("data.truncation"));
  rows.max_rows = count("data.train_max_samples"), s.max_eval_rows = count("data.val_max_samples");

  s.training.adamw.weight_decay = opt.get<double>("optim.weight_decay");
  s.training.adamw.moments = read_moment_place(opt);
  read_betas(opt, "optim.betas", s.training.adamw);
  s.training.logits_bytes = static_cast<std::size_t>(opt.get<std::int64_t>("rlcore.logits_memory_mb")) << 20;
  s.training.recompute = opt.get<bool>("model.enable_gradient_checkpointing");
  const std::vector<std::string> contents = opt.list("trainer.checkpoint.save_contents");
  s.training.save_whole = !opt.is_set("trainer.checkpoint.save_contents") ||
                          std::find(contents.begin(), contents.end(), "hf_model") != contents.end();

  supervised_settings& run = s.run;
  run.name = opt.get<std::string>("trainer.project_name") + "/" + opt.get<std::string>("trainer.experiment_name");
  run.rows_per_step = opt.get<std::int64_t>("data.train_batch_size");
  run.rows_per_pass = opt.get<std::int64_t>("data.micro_batch_size_per_gpu");
  run.epochs = opt.get<std::int64_t>("trainer.total_epochs");
  run.total_steps = opt.find<std::int64_t>("trainer.total_training_steps").value_or(-1);
  run.shuffle = opt.get<bool>("data.shuffle");
  run.seed = s.training.seed = static_cast<std::uint64_t>(opt.get<std::int64_t>("trainer.seed"));
  s.training.base_name = s.model_path;
  if (const auto rank = opt.get<std::int64_t>("model.lora_rank"); rank > 0)
    s.training.lora = {rank, opt.get<double>("model.lora_alpha"), opt.list("model.target_modules"), run.seed};
  run.lr = opt.get<double>("optim.lr"), run.grad_clip = opt.get<double>("optim.clip_grad");
  run.schedule = sft_schedule(opt.get<std::string>("optim.lr_scheduler"));
  if (const auto floor = opt.find<double>("optim.min_lr_ratio")) run.schedule.min_lr_ratio = *floor;
  run.schedule.warmup_ratio =
      opt.find<double>("optim.lr_warmup_steps_ratio").value_or(opt.get<double>("optim.warmup_steps_ratio"));
  run.root = opt.get<std::string>("trainer.default_local_dir");
  run.resume_mode = opt.get<std::string>("trainer.resume_mode");
  run.resume_path = opt.find<std::string>("trainer.resume_from_path").value_or("");
  if (run.resume_mode == "auto" && !run.resume_path.empty()) run.resume_mode = "resume_path";  // as verl has it
  run.loggers = opt.list("trainer.logger"), run.console = console_style_of(opt);
  run.tensorboard_dir = opt.find<std::string>("rlcore.tensorboard_dir").value_or("");
  run.save_freq = opt.get<std::int64_t>("trainer.save_freq"),
  run.test_freq = opt.get<std::int64_t>("trainer.test_freq");
  run.keep = opt.find<std::int64_t>("trainer.max_ckpt_to_keep").value_or(0);
  run.test_before = opt.get<bool>("trainer.val_before_train");
  run.report = opt.get<bool>("rlcore.report");
  return s;
}

RLCORE_INLINE std::vector<data::sft_example> checked_rows(data::sft_rows rows, const base_model& base, const char* name,
                                                          const std::string& from) {
  std::size_t longest = 0, tokens = 0, trained = 0;
  for (const data::sft_example& e : rows.examples)
    longest = std::max(longest, e.tokens.size()), tokens += e.tokens.size(), trained += e.trained();
  if (static_cast<std::int64_t>(longest) > base.config.max_position_embeddings)
    throw data_error(from + ": a row has " + std::to_string(longest) + " tokens, more than the model's " +
                     std::to_string(base.config.max_position_embeddings) + " positions (max_position_embeddings)");
  say("%-6s %zu %s", name, rows.size(), rows.size() == 1 ? "row" : "rows");
  if (rows.size() != rows.rows_read)
    say(" (%zu left out: empty, or no room for an answer)", rows.rows_read - rows.size());
  say(", %zu tokens, %zu of them learnt, the longest row has %zu, from %s\n", tokens, trained, longest, from.c_str());
  for (const std::string& note : rows.notes.sentences()) say("note: %s\n", note.c_str());
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
  base_model base = open_base_model(opt, sft_model_key(opt));
  if (speaks_openrlhf(opt)) check_export_of(opt, base);
  return std::make_shared<const base_model>(std::move(base));
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

}  // namespace train
RLCORE_END
#endif
