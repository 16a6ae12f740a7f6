// Sampled evaluation: problems, sampling settings, judging and logging of responses.
#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rlcore/checkpoint/hugging_face.hpp"
#include "rlcore/checkpoint/model_weights.hpp"
#include "rlcore/config/algorithm/verl_version.hpp"
#include "rlcore/config/options.hpp"
#include "rlcore/config/settings/image_options.hpp"
#include "rlcore/config/settings/model_options.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/core/random.hpp"
#include "rlcore/data/file.hpp"
#include "rlcore/data/prompt_dataset.hpp"
#include "rlcore/data/table.hpp"
#include "rlcore/nn/config.hpp"
#include "rlcore/rollout/request.hpp"
#include "rlcore/telemetry/console.hpp"
#include "rlcore/telemetry/progress.hpp"
#include "rlcore/text/chat_template.hpp"
#include "rlcore/text/parse_json.hpp"
#include "rlcore/text/tokenizer.hpp"
#include "rlcore/train/evaluation/problems.hpp"
#include "rlcore/train/evaluation/summary.hpp"
#include "rlcore/train/files/model_files.hpp"
#include "rlcore/train/model/images.hpp"
#include "rlcore/verify/dispatch.hpp"

RLCORE_BEGIN
namespace train {

namespace detail {

/// Judges answers by one rule for all, or by the rule of each answer's source.
struct judge {
  std::optional<verify::scorer> rule;
  verify::rule_settings settings;

  explicit judge(const options& opt);
  /// Throws data_error for a source without a rule.
  void check(const std::string& source) const {
    if (!rule) verify::scorer_of(source, settings.version);
  }
  verify::verdict operator()(const std::string& source, const std::string& text, const std::string& truth) const {
    return verify::score(rule ? *rule : verify::scorer_of(source, settings.version), text, truth, settings);
  }
};

/// Looks for the files of problems before any work.
inline void check_problem_files(const options& opt) {
  check_data_files(opt, "data.files", data::check_table);
  if (opt.get<std::string>("data.form") == "gsm8k") check_data_files(opt, "data.shots", data::check_table);
}

/// All problems, tokenized.
data::prompt_dataset evaluation_prompts(const options& opt, const nn::config& config, const text::tokenizer& tokenizer,
                                        const std::filesystem::path& folder, const judge& judge);

/// Appends lines to generations.jsonl.
class generation_log {
 public:
  /// An empty folder: nothing is written.
  explicit generation_log(const std::filesystem::path& folder);
  void write(const nlohmann::ordered_json& line) {
    if (file_) file_->write(text::json_text(line) + "\n");
  }
  void close() {
    if (file_) file_->close();
  }

 private:
  std::optional<data::output_file> file_;
};

nlohmann::ordered_json judged_line(const judged_response& r, const std::string& prompt, const std::string& text,
                                   const std::string& truth);

/// How responses are sampled. Throws config_error for samples that would all be the same, format_error without an EOS
/// token.
rollout::generation evaluation_sampling(const options& opt, const nn::config& config, const text::tokenizer& tokenizer,
                                        const std::filesystem::path& folder);

/// Throws config_error if the model has too few positions for a prompt and its response.
void check_positions(const nn::config& config, const data::prompt_dataset& prompts, std::int64_t response);

/// The key of the random numbers of a problem's responses: the seed of a request to a server, in 63 bits.
inline random_key problem_key(const options& opt, std::size_t problem) {
  const random_key all{static_cast<std::uint64_t>(opt.get<std::int64_t>("rlcore.seed"))};
  return {all.child(0x6576616c).child(static_cast<std::uint32_t>(problem)).seed >> 1};
}

/// rollout.n requests for each of the problems [first, last).
std::vector<rollout::request> requests_for(const options& opt, const data::prompt_dataset& prompts, std::size_t first,
                                           std::size_t last);

/// Judges sampled responses, adds them to the summary and logs them.
struct response_judge {
  const data::prompt_dataset& prompts;
  std::vector<std::uint32_t> problems;
  const text::tokenizer& tokenizer;
  const judge& rule;

  void operator()(const rollout::request& request, const rollout::response& response, evaluation_summary& summary,
                  std::optional<generation_log>& log) const;
};

/// The evaluated problems of a command line, and the folder with the tokenizer and chat template of their prompts.
struct evaluated_problems {
  std::filesystem::path folder;
  nn::config config;
  text::tokenizer tokenizer;
  data::prompt_dataset prompts;
  rollout::generation settings;

  evaluated_problems(const options& opt, const judge& rule);

  /// Prints the problems.
  void introduce(std::int64_t n) const {
    say("problems %zu, %lld response%s each%s\n", prompts.size(), static_cast<long long>(n), n == 1 ? "" : "s",
        image_text(prompts.images).c_str());
  }

 private:
  static std::filesystem::path folder_of(const options& opt);
};

/// Answers all problems in rounds of `per_round` by answer(requests), judges them and writes each round to the disk.
template <class Answer>
void judge_rounds(const options& opt, const evaluated_problems& asked, const judge& rule, std::size_t per_round,
                  bool shows_progress, evaluation_summary& summary, std::optional<generation_log>& log,
                  Answer&& answer) {
  const response_judge judge_response{asked.prompts, problems_of(asked.prompts), asked.tokenizer, rule};
  const std::size_t problems = asked.prompts.size();
  progress bar(stderr, shows_progress && isatty(fileno(stderr)) != 0);
  bar.start(0, static_cast<std::int64_t>((problems + per_round - 1) / per_round));
  for (std::size_t first = 0, round = 0; first < problems; first += per_round) {
    const auto requests = requests_for(opt, asked.prompts, first, std::min(problems, first + per_round));
    const auto responses =
        answer(requests, [&](std::size_t done, std::size_t all) { bar.phase("responses", done, all); });
    for (std::size_t i = 0; i < requests.size(); ++i) judge_response(requests[i], responses[i], summary, log);
    bar.step_done(static_cast<std::int64_t>(++round));
  }
}

}  // namespace detail

/// Calls sample(judge, summary, log, folder), which answers and judges; then writes result.json and prints the table,
/// on the rank that has opened the log. Stored responses are written again only into an output_dir that is named.
template <class Sample>
void evaluate_with(const options& opt, Sample&& sample) {
  for (const std::string& note : opt.notes()) say("note: %s\n", note.c_str());
  const detail::judge judge(opt);
  const bool writes = opt.list("responses").empty() || opt.is_set("output_dir");
  const std::filesystem::path folder =
      writes ? std::filesystem::path(checkpoint::expand_home(opt.get<std::string>("output_dir"))) : "";
  evaluation_summary summary;
  std::optional<detail::generation_log> log;
  sample(judge, summary, log, folder);
  if (!log) return;
  log->close();
  say("\n%s\n", summary_table(summary.sources()).c_str());
  if (!writes) return;
  nlohmann::ordered_json result = summary_json(summary);
  for (const std::string& line : opt.overrides()) {
    const std::size_t equal = line.find('=');
    result["settings"][line.substr(0, equal)] = line.substr(equal + 1);
  }
  checkpoint::write_file_atomically(folder / "result.json", text::json_text(result, 2) + "\n");
  say("%s\n", (folder / "result.json").c_str());
}

}  // namespace train
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TRAIN_PARTS)
RLCORE_BEGIN
namespace train::detail {

RLCORE_INLINE judge::judge(const options& opt) {
  const std::string name = opt.get<std::string>("rule"), form = opt.get<std::string>("data.form");
  if (name == "gsm8k") rule = verify::scorer::gsm8k;
  if (name == "math" || (name == "auto" && form == "aime2024")) rule = verify::scorer::math;
  if (name == "math_dapo") rule = verify::scorer::math_dapo;
  if (name == "last_number" || (name == "auto" && form == "gsm8k")) rule = verify::scorer::last_number;
  settings = verify::rules_of(read_verl_version(opt));
  if (const auto box = opt.find<std::string>("rule_box"))
    settings.math_dapo.strict_box = *box == "strict", settings.math_dapo.box_fallback = *box == "fallback";
}

RLCORE_INLINE data::prompt_dataset evaluation_prompts(const options& opt, const nn::config& config,
                                                      const text::tokenizer& tokenizer,
                                                      const std::filesystem::path& folder, const judge& judge) {
  const std::vector<std::string> files = opt.list("data.files");
  if (files.empty())
    throw config_error("data.files is missing; expected problems, or responses= with stored responses");
  const std::string form = opt.get<std::string>("data.form");
  std::vector<data::table> tables;
  for (const std::string& file : files) tables.push_back(data::read_table(checkpoint::expand_home(file)));
  if (form != "dataset") {  // into verl's columns
    std::string shots;
    if (form == "gsm8k") {
      const auto path = opt.find<std::string>("data.shots");
      if (!path)
        throw config_error("data.form=gsm8k needs data.shots, a file whose first four rows are worked examples");
      const data::table examples = data::read_table(checkpoint::expand_home(*path));
      if (examples.rows.size() < 4)
        throw data_error(*path + ": has " + std::to_string(examples.rows.size()) + " rows; expected 4");
      for (std::size_t i = 0; i < 4; ++i) shots += gsm8k_shot(examples.rows[i], data::row_text(*path, i));
    }
    for (data::table& t : tables)
      for (std::size_t i = 0; i < t.rows.size(); ++i) {
        const std::string where = data::row_text(t.file, i);
        const plain_problem p =
            form == "gsm8k" ? gsm8k_problem(t.rows[i], shots, where) : aime2024_problem(t.rows[i], where);
        t.rows[i] = {{opt.get<std::string>("data.prompt_key"), p.prompt},
                     {opt.get<std::string>("data.reward_fn_key"), p.source},
                     {"reward_model", {{"ground_truth", p.truth}}}};
      }
  }
  const data::prompt_settings settings{
      .prompt_key = opt.get<std::string>("data.prompt_key"),
      .source_key = opt.get<std::string>("data.reward_fn_key"),
      .max_prompt_length = static_cast<std::size_t>(opt.get<std::int64_t>("data.max_prompt_length")),
      .filter_overlong_prompts = opt.get<bool>("data.filter_overlong_prompts"),
      .truncation = data::parse_truncation(opt.get<std::string>("data.truncation")),
      .images = model_images(read_image_options(opt), config, folder)};
  if (const auto limit = opt.find<std::int64_t>("data.limit")) {
    auto left = static_cast<std::size_t>(*limit);
    for (data::table& t : tables) {
      t.rows.resize(std::min(t.rows.size(), left));
      left -= t.rows.size();
    }
  }
  const bool templated = opt.find<bool>("data.chat_template").value_or(form == "dataset");
  std::optional<text::chat_template> chat;
  if (templated) chat = text::chat_template::chosen(chat_template_setting(opt), folder, "rlcore.chat_template");
  return data::make_prompts(
      tables, settings,
      [&](const std::vector<text::message>& messages, std::vector<text::dropped_part>& dropped) {
        if (chat)
          return tokenizer.encode(data::prompt_text(*chat, messages, opt.find<bool>("data.enable_thinking"), dropped));
        std::string text;
        for (const text::message& m : messages) text += m.content;
        return tokenizer.encode_with_special_tokens(text);  // as OpenCompass and vLLM send a plain text
      },
      [&](const std::string& source) { judge.check(source); });
}

RLCORE_INLINE generation_log::generation_log(const std::filesystem::path& folder) {
  if (folder.empty()) return;
  std::error_code failure;
  std::filesystem::create_directories(folder, failure);
  if (failure) throw file_error(folder.string() + ": cannot create the folder: " + failure.message());
  file_.emplace(folder / "generations.jsonl");
}

RLCORE_INLINE nlohmann::ordered_json judged_line(const judged_response& r, const std::string& prompt,
                                                 const std::string& text, const std::string& truth) {
  nlohmann::ordered_json line{{"data_source", r.source},
                              {"problem", r.problem},
                              {"prompt", prompt},
                              {"response", text},
                              {"ground_truth", truth},
                              {"score", r.verdict.score},
                              {"correct", r.verdict.correct()},
                              {"reason", verify::name_of(r.verdict.why)}};
  line["pred"] = r.verdict.pred ? nlohmann::ordered_json(*r.verdict.pred) : nlohmann::ordered_json();
  if (r.tokens >= 0) line["tokens"] = r.tokens, line["cut_off"] = r.cut_off;
  return line;
}

RLCORE_INLINE rollout::generation evaluation_sampling(const options& opt, const nn::config& config,
                                                      const text::tokenizer& tokenizer,
                                                      const std::filesystem::path& folder) {
  rollout::generation settings;
  settings.sampling = {static_cast<float>(opt.get<double>("rollout.temperature")),
                       opt.get<std::int64_t>("rollout.top_k"), static_cast<float>(opt.get<double>("rollout.top_p")),
                       static_cast<float>(opt.get<double>("rollout.min_p"))};
  settings.sampling.validate();
  settings.rules = read_penalties(opt, "rollout.");
  if (const auto n = opt.get<std::int64_t>("rollout.n"); n > 1 && settings.sampling.greedy())
    throw config_error("rollout.n=" + std::to_string(n) +
                       " with rollout.temperature=0 samples the same response again; "
                       "give a temperature");
  settings.max_new_tokens = opt.get<std::int64_t>("data.max_response_length");
  settings.rules.validate(config.vocab_size, settings.max_new_tokens);
  settings.eos_ids = checkpoint::end_tokens(folder, config.eos_token_ids, tokenizer.eos_id());
  settings.max_sequences = opt.get<std::int64_t>("rollout.max_num_seqs");
  settings.max_batched_tokens = opt.get<std::int64_t>("rollout.max_num_batched_tokens");
  if (opt.get<std::string>("rlcore.rollout_weights") == "int8") settings.weights = weight_format::int8;
  return settings;
}

RLCORE_INLINE void check_positions(const nn::config& config, const data::prompt_dataset& prompts,
                                   std::int64_t response) {
  std::size_t longest_prompt = 0;
  for (const data::prompt& p : prompts.prompts) longest_prompt = std::max(longest_prompt, p.ids.size());
  if (config.max_position_embeddings < static_cast<std::int64_t>(longest_prompt) + response)
    throw config_error(
        fmt::format("the longest prompt of {} tokens and data.max_response_length={} are more than the "
                    "model's {} positions",
                    longest_prompt, response, config.max_position_embeddings));
}

RLCORE_INLINE std::vector<rollout::request> requests_for(const options& opt, const data::prompt_dataset& prompts,
                                                         std::size_t first, std::size_t last) {
  const auto n = opt.get<std::int64_t>("rollout.n");
  std::vector<rollout::request> requests;
  for (std::size_t i = first; i < last; ++i)
    for (std::int64_t k = 0; k < n; ++k)
      requests.push_back(
          {prompts[i].ids, static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(k), {}, problem_key(opt, i)});
  return requests;
}

RLCORE_INLINE void response_judge::operator()(const rollout::request& request, const rollout::response& response,
                                              evaluation_summary& summary, std::optional<generation_log>& log) const {
  const data::prompt& p = prompts[request.prompt_number];
  const std::string text = tokenizer.decode(response.tokens, true);
  const judged_response r{p.data_source, problems[request.prompt_number], rule(p.data_source, text, p.ground_truth),
                          std::ssize(response.tokens), response.reason == rollout::finish::length};
  summary.add(r);
  if (log) log->write(judged_line(r, tokenizer.decode(p.ids), text, p.ground_truth));
}

RLCORE_INLINE evaluated_problems::evaluated_problems(const options& opt, const judge& rule)
    : folder(folder_of(opt)), config(checkpoint::read_stored_config(folder)), tokenizer(text::tokenizer::load(folder)) {
  checkpoint::check_image_tokens(folder, config, tokenizer);
  prompts = evaluation_prompts(opt, config, tokenizer, folder, rule);
  settings = evaluation_sampling(opt, config, tokenizer, folder);
  check_positions(config, prompts, settings.max_new_tokens);
}

RLCORE_INLINE std::filesystem::path evaluated_problems::folder_of(const options& opt) {
  const auto path = opt.find<std::string>("model.path");
  if (!path)
    throw config_error("model.path is missing; expected a folder or hub id, or responses= with stored responses");
  return named_model(opt, "model.path");
}

}  // namespace train::detail
RLCORE_END
#endif
