// The prompts of a policy run, from files to tokens.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "rlcore/checkpoint/hugging_face.hpp"
#include "rlcore/data/prompt_dataset.hpp"
#include "rlcore/data/table.hpp"
#include "rlcore/telemetry/console.hpp"
#include "rlcore/text/chat_template.hpp"
#include "rlcore/text/tokenizer.hpp"
#include "rlcore/train/files/model_files.hpp"
#include "rlcore/train/model/images.hpp"
#include "rlcore/train/policy/reward/reward_source.hpp"
#include "rlcore/train/policy/settings.hpp"
#include "rlcore/train/policy/tools.hpp"

RLCORE_BEGIN
namespace train {

/// Reads the prompts of all files, or of their first `most` rows; unless `quiet`, prints their number and the number
/// left out as too long. `images` sets how images are read: by default rows with images are rejected. `tools` are those
/// that prompts may show; null: none.
data::prompt_dataset open_prompts(const std::vector<std::string>& files, const policy_settings& s,
                                  const text::tokenizer& tokenizer, const text::chat_template& chat,
                                  const reward_source& rewards, const char* name, bool quiet = false,
                                  std::int64_t most = -1, const data::image_settings& images = {},
                                  const policy_tools* tools = nullptr);

/// The same for rows that rules score.
inline data::prompt_dataset open_prompts(const std::vector<std::string>& files, const policy_settings& s,
                                         const text::tokenizer& tokenizer, const text::chat_template& chat,
                                         const char* name, bool quiet = false) {
  return open_prompts(files, s, tokenizer, chat, rule_rewards(), name, quiet);
}

/// "8 prompts, fingerprint 0123456789abcdef": equal if tokens, images, sources and ground truths are, in the same
/// order.
std::string data_text(const data::prompt_dataset& prompts);

/// The number of prompts equal to an earlier one: published sets hold some problems dozens of times.
std::size_t count_copies(const data::prompt_dataset& prompts);

}  // namespace train
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TRAIN_PARTS)
RLCORE_BEGIN
namespace train {

RLCORE_INLINE data::prompt_dataset open_prompts(const std::vector<std::string>& files, const policy_settings& s,
                                                const text::tokenizer& tokenizer, const text::chat_template& chat,
                                                const reward_source& rewards, const char* name, bool quiet,
                                                std::int64_t most, const data::image_settings& images,
                                                const policy_tools* tools) {
  std::vector<data::table> tables;
  for (const std::string& file : files) {
    tables.push_back(data::read_table(checkpoint::expand_home(file)));
    auto& rows = tables.back().rows;
    if (most > 0 && std::ssize(rows) >= most) {
      rows.resize(static_cast<std::size_t>(most));
      break;
    }
    if (most > 0) most -= std::ssize(rows);
  }
  const data::prompt_settings settings{.prompt_key = s.prompt_key,
                                       .source_key = s.source_key,
                                       .max_prompt_length = static_cast<std::size_t>(s.max_prompt_length),
                                       .filter_overlong_prompts = s.filter_overlong_prompts,
                                       .truncation = data::parse_truncation(s.truncation),
                                       .label_key = s.label_key,
                                       .default_source = s.default_source,
                                       .needs_truth = rewards.reads_truth(),
                                       .images = images};
  data::prompt_dataset prompts = data::make_prompts(
      tables, settings,
      [&](const data::prompt& p, std::vector<text::dropped_part>& dropped) {
        return tokenizer.encode(data::prompt_text(chat, p.messages, s.enable_thinking, dropped,
                                                  tools != nullptr ? tools->schemas_of(p) : json_list()));
      },
      [&](const std::string& source) { rewards.check(source); });
  if (quiet) return prompts;
  say("%-6s %zu %s", name, prompts.size(), prompts.size() == 1 ? "prompt" : "prompts");
  if (prompts.size() != prompts.rows_read) say(" (%zu longer ones left out)", prompts.rows_read - prompts.size());
  say(" from %s%s\n", files.front().c_str(), image_text(prompts.images).c_str());
  for (const std::string& note : prompts.notes.sentences()) say("note: %s\n", note.c_str());
  return prompts;
}

RLCORE_INLINE std::string data_text(const data::prompt_dataset& prompts) {
  fingerprint hash;
  for (const data::prompt& p : prompts.prompts) {
    hash.add(p.ids);
    for (const data::image_pointer& i : p.images) hash.add(i->hash.low), hash.add(i->hash.high);
    hash.add(p.data_source);
    hash.add(p.ground_truth);
  }
  return std::to_string(prompts.size()) + " prompts, fingerprint " + hash.text();
}

RLCORE_INLINE std::size_t count_copies(const data::prompt_dataset& prompts) {
  std::vector<const data::prompt*> order;
  for (const data::prompt& p : prompts.prompts) order.push_back(&p);
  const auto less = [](const data::prompt* a, const data::prompt* b) {
    return a->ids != b->ids ? a->ids < b->ids : data::image_hashes(*a) < data::image_hashes(*b);
  };
  std::sort(order.begin(), order.end(), less);
  std::size_t copies = 0;
  for (std::size_t i = 1; i < order.size(); ++i) copies += !less(order[i - 1], order[i]);
  return copies;
}

}  // namespace train
RLCORE_END
#endif
