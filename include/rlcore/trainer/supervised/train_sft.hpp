// sft_trainer from its command line to its last line.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rlcore/checkpoint/resolve_model.hpp"
#include "rlcore/data/sft_rows.hpp"
#include "rlcore/data/table.hpp"
#include "rlcore/text/chat_template.hpp"
#include "rlcore/trainer/options.hpp"
#include "rlcore/trainer/supervised/base_model.hpp"
#include "rlcore/trainer/supervised/sft_settings.hpp"
#include "rlcore/trainer/supervised/sft_task.hpp"
#include "rlcore/trainer/supervised/show_mask.hpp"
#include "rlcore/trainer/supervised/train_supervised.hpp"

RLCORE_BEGIN
namespace trainer {

/// Reads the rows of all files; throws data_error for a row with more tokens than the model has positions.
inline std::vector<data::sft_example> open_sft_rows(const std::vector<std::string>& files,
                                                    const data::sft_settings& how, const base_model& base,
                                                    const text::chat_template* chat, const char* name) {
  std::vector<data::table> tables;
  for (const std::string& file : files) tables.push_back(data::read_table(checkpoint::expand_home(file)));
  data::sft_rows rows = data::read_sft_rows(tables, how, base.tokenizer, chat);
  std::size_t longest = 0, tokens = 0, trained = 0;
  for (const data::sft_example& e : rows.examples)
    longest = std::max(longest, e.tokens.size()), tokens += e.tokens.size(), trained += e.trained();
  if (static_cast<std::int64_t>(longest) > base.config.max_position_embeddings)
    throw data_error(files.front() + ": a row has " + std::to_string(longest) + " tokens, more than the model's " +
                     std::to_string(base.config.max_position_embeddings) + " positions (max_position_embeddings)");
  std::printf("%-6s %zu rows", name, rows.size());
  if (rows.size() != rows.rows_read)
    std::printf(" (%zu left out: empty, or no room for an answer)", rows.rows_read - rows.size());
  std::printf(", %zu tokens, %zu of them learnt, the longest row has %zu, from %s\n", tokens, trained, longest,
              files.front().c_str());
  return std::move(rows.examples);
}

/// Throws rlcore::error before the first step for everything that can be known by then.
template <class Device>
void train_sft(Device& device, const options& opt) {
  const sft_run_settings s = read_sft_settings(opt);
  const base_model base = open_base_model(s.model_path);
  if (base.config.output != nn::model_output::logits)
    throw config_error(base.folder.string() + " is a score model; expected one that predicts tokens");
  std::optional<text::chat_template> chat;
  if (s.rows.layout != data::sft_layout::plain && s.rows.layout != data::sft_layout::text)
    chat = text::chat_template::detect(base.folder);
  if (s.train_files.empty()) throw config_error("data.train_files is empty; expected a file with training rows");
  std::vector<data::sft_example> train = open_sft_rows(s.train_files, s.rows, base, chat ? &*chat : nullptr, "train");
  if (s.show_mask > 0) {
    std::printf("+ learnt, - not learnt; | between tokens\n");
    for (std::size_t i = 0; i < std::min(train.size(), static_cast<std::size_t>(s.show_mask)); ++i)
      std::printf("row %zu: %zu tokens, %zu learnt\n%s", i, train[i].tokens.size(), train[i].trained(),
                  mask_text(train[i], base.tokenizer).c_str());
    return;
  }
  std::vector<data::sft_example> val;
  data::sft_settings for_val = s.rows;
  for_val.max_rows = s.max_eval_rows;
  if (!s.val_files.empty()) val = open_sft_rows(s.val_files, for_val, base, chat ? &*chat : nullptr, "val");

  const std::vector<std::string> shown{"train/loss", "val/loss"};
  const auto run = [&](auto objective) {
    sft_task<Device, decltype(objective)> task(std::move(train), std::move(val), s.run.rows_per_pass,
                                               s.tokens_per_pass);
    train_supervised(device, opt, s.run, s.trainee, base, task, shown);
  };
  s.dft ? run(dft{}) : run(negative_log_likelihood{});
}

}  // namespace trainer
RLCORE_END
