// A whole evaluation from a command line: problems or stored responses, sampling, judging, the table.
// trainers.hpp declares it.
#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "rlcore/checkpoint/hugging_face.hpp"
#include "rlcore/checkpoint/preprocessor_config.hpp"
#include "rlcore/config/algorithm/verl_version.hpp"
#include "rlcore/config/options.hpp"
#include "rlcore/config/settings/chat_template_setting.hpp"
#include "rlcore/config/settings/penalty_options.hpp"
#include "rlcore/data/prompt_dataset.hpp"
#include "rlcore/data/table.hpp"
#include "rlcore/rollout/engine.hpp"
#include "rlcore/telemetry/console.hpp"
#include "rlcore/telemetry/progress.hpp"
#include "rlcore/text/chat_template.hpp"
#include "rlcore/text/parse_json.hpp"
#include "rlcore/text/tokenizer.hpp"
#include "rlcore/trainer/evaluation/forms.hpp"
#include "rlcore/trainer/evaluation/problems.hpp"
#include "rlcore/trainer/evaluation/stored_responses.hpp"
#include "rlcore/trainer/evaluation/summary.hpp"
#include "rlcore/trainer/model_images.hpp"
#include "rlcore/trainer/policy/trajectory/trajectory_memory.hpp"
#include "rlcore/trainer/trainers.hpp"
#include "rlcore/training/answer_requests.hpp"
#include "rlcore/training/files/data_files.hpp"
#include "rlcore/training/files/model_files.hpp"
#include "rlcore/training/ranks/available_memory.hpp"
#include "rlcore/training/ranks/byte_stream.hpp"
#include "rlcore/training/ranks/local_place.hpp"
#include "rlcore/training/ranks/shares.hpp"
#include "rlcore/verify/dispatch.hpp"

RLCORE_BEGIN
namespace trainer {

namespace detail {

/// Judges answers by one rule for all, or by the rule of each answer's source.
struct judge {
  std::optional<verify::scorer> rule;
  verify::rule_settings settings;

  explicit judge(const options& opt) {
    const std::string name = opt.get<std::string>("rule"), form = opt.get<std::string>("data.form");
    if (name == "gsm8k") rule = verify::scorer::gsm8k;
    if (name == "math" || (name == "auto" && form == "aime2024")) rule = verify::scorer::math;
    if (name == "math_dapo") rule = verify::scorer::math_dapo;
    if (name == "last_number" || (name == "auto" && form == "gsm8k")) rule = verify::scorer::last_number;
    settings = verify::rules_of(read_verl_version(opt));
    if (const auto box = opt.find<std::string>("rule_box"))
      settings.math_dapo.strict_box = *box == "strict", settings.math_dapo.box_fallback = *box == "fallback";
  }
  /// Throws data_error for a source that nothing judges.
  void check(const std::string& source) const {
    if (!rule) verify::scorer_of(source, settings.version);
  }
  verify::verdict operator()(const std::string& source, const std::string& text, const std::string& truth) const {
    return verify::score(rule ? *rule : verify::scorer_of(source, settings.version), text, truth, settings);
  }
};

/// All problems, tokenized.
inline data::prompt_dataset evaluation_prompts(const options& opt, const nn::config& config,
                                               const text::tokenizer& tokenizer, const std::filesystem::path& folder,
                                               const judge& judge) {
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
      [&](const std::vector<text::message>& messages) {
        if (chat)
          return tokenizer.encode(chat->render(
              messages, {.add_generation_prompt = true, .enable_thinking = opt.find<bool>("data.enable_thinking")}));
        std::string text;
        for (const text::message& m : messages) text += m.content;
        return tokenizer.encode_with_special_tokens(text);  // as OpenCompass and vLLM send a plain text
      },
      [&](const std::string& source) { judge.check(source); });
}

/// Appends lines to generations.jsonl.
class generation_log {
 public:
  explicit generation_log(const std::filesystem::path& folder) {
    std::error_code failure;
    std::filesystem::create_directories(folder, failure);
    if (failure) throw file_error(folder.string() + ": cannot create the folder: " + failure.message());
    file_.emplace(folder / "generations.jsonl");
  }
  void write(const nlohmann::ordered_json& line) { file_->write(text::json_text(line) + "\n"); }
  void close() { file_->close(); }

 private:
  std::optional<data::output_file> file_;
};

inline nlohmann::ordered_json judged_line(const judged_response& r, const std::string& prompt, const std::string& text,
                                          const std::string& truth) {
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

/// Gives every rank the responses of all `ranks`, in rank order.
inline std::vector<rollout::response> gather_responses(parallel::any_communicator* ranks,
                                                       std::vector<rollout::response> mine) {
  if (ranks == nullptr || ranks->size() == 1) return mine;
  byte_writer to;
  for (const rollout::response& r : mine) to(r.tokens), to(r.reason);
  const std::vector<std::byte> bytes = gather_parts(*ranks, std::span<const std::byte>(to.bytes));
  std::vector<rollout::response> responses;
  byte_reader from(bytes);
  while (!from.done()) {
    rollout::response& r = responses.emplace_back();
    from(r.tokens), from(r.reason);
  }
  return responses;
}

/// How responses are sampled. Throws config_error for samples that would all be the same, format_error without an EOS
/// token.
inline rollout::generation evaluation_sampling(const options& opt, const nn::config& config,
                                               const text::tokenizer& tokenizer, const std::filesystem::path& folder) {
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
  settings.eos_ids = config.eos_token_ids;
  if (settings.eos_ids.empty() && tokenizer.eos_id()) settings.eos_ids.push_back(*tokenizer.eos_id());
  if (settings.eos_ids.empty())
    throw format_error(folder.string() + ": neither config.json nor the tokenizer names an EOS token");
  settings.max_sequences = opt.get<std::int64_t>("rollout.max_num_seqs");
  settings.max_batched_tokens = opt.get<std::int64_t>("rollout.max_num_batched_tokens");
  if (opt.get<std::string>("rlcore.rollout_weights") == "int8") settings.weights = weight_format::int8;
  return settings;
}

/// Throws config_error if the model has too few positions for a prompt and its response.
inline void check_positions(const nn::config& config, const data::prompt_dataset& prompts, std::int64_t response) {
  std::size_t longest_prompt = 0;
  for (const data::prompt& p : prompts.prompts) longest_prompt = std::max(longest_prompt, p.ids.size());
  if (config.max_position_embeddings < static_cast<std::int64_t>(longest_prompt) + response)
    throw config_error(
        fmt::format("the longest prompt of {} tokens and data.max_response_length={} are more than the "
                    "model's {} positions",
                    longest_prompt, response, config.max_position_embeddings));
}

/// Says if the responses to `problems` of a round may not fit into the share of memory of one of `sharing` ranks.
inline void warn_about_memory(std::size_t problems, std::int64_t n, std::int64_t response, int sharing) {
  auto host = available_memory();
  if (host) *host /= static_cast<std::size_t>(sharing);
  const std::string warning = check_memory({"rollout.n", static_cast<std::int64_t>(problems), n, "it", "responses",
                                            sizeof(rollout::request) + sizeof(rollout::response)},
                                           0, response, host);
  if (!warning.empty()) say("warning: %s\n", warning.c_str());
}

/// n requests for each of the problems [first, last).
inline std::vector<rollout::request> requests_for(const data::prompt_dataset& prompts, std::size_t first,
                                                  std::size_t last, std::int64_t n) {
  std::vector<rollout::request> requests;
  for (std::size_t i = first; i < last; ++i)
    for (std::int64_t k = 0; k < n; ++k)
      requests.push_back({prompts[i].ids, static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(k)});
  return requests;
}

/// Judges sampled responses, adds them to the summary and logs them.
struct response_judge {
  const data::prompt_dataset& prompts;
  std::vector<std::uint32_t> problems;
  const text::tokenizer& tokenizer;
  const judge& rule;

  void operator()(const rollout::request& request, const rollout::response& response, evaluation_summary& summary,
                  std::optional<generation_log>& log) const {
    const data::prompt& p = prompts[request.prompt_number];
    const std::string text = tokenizer.decode(response.tokens, true);
    const judged_response r{p.data_source, problems[request.prompt_number], rule(p.data_source, text, p.ground_truth),
                            std::ssize(response.tokens), response.reason == rollout::finish::length};
    summary.add(r);
    if (log) log->write(judged_line(r, tokenizer.decode(p.ids), text, p.ground_truth));
  }
};

/// Samples rollout.n responses per problem, in rounds of a few hundred, and writes each round to the disk. `ranks`
/// share the work; the first rank writes.
template <class Device>
void sample_and_judge(Device& device, const options& opt, const judge& judge, evaluation_summary& summary,
                      std::optional<generation_log>& log, const std::filesystem::path& output,
                      parallel::any_communicator* ranks) {
  const auto path = opt.find<std::string>("model.path");
  if (!path)
    throw config_error("model.path is missing; expected a folder or hub id, or responses= with stored responses");
  const std::filesystem::path folder = checkpoint::resolve_model(*path);
  const nn::config config = checkpoint::read_config(folder);
  const text::tokenizer tokenizer = text::tokenizer::load(folder);
  checkpoint::check_image_tokens(folder, config, tokenizer);
  const data::prompt_dataset prompts = evaluation_prompts(opt, config, tokenizer, folder, judge);
  const auto n = opt.get<std::int64_t>("rollout.n");
  rollout::generation settings = evaluation_sampling(opt, config, tokenizer, folder);
  check_positions(config, prompts, settings.max_new_tokens);
  const int sharing = ranks == nullptr ? 1 : find_local_place(*ranks).size;
  const std::size_t parts = ranks == nullptr ? 1 : static_cast<std::size_t>(ranks->size()),
                    part = ranks == nullptr ? 0 : static_cast<std::size_t>(ranks->rank());
  const auto per_round = static_cast<std::size_t>(std::max<std::int64_t>(1, 4 * settings.max_sequences / n)) * parts;
  warn_about_memory(std::min(prompts.size(), per_round), n, settings.max_new_tokens, sharing);
  if (const auto memory = available_memory_of(device, sharing))
    settings.max_cache_bytes =
        static_cast<std::size_t>(opt.get<double>("rollout.gpu_memory_utilization") * static_cast<double>(*memory));
  if (static_cast<std::int64_t>(tokenizer.vocab_size()) > config.vocab_size)
    throw format_error(folder.string() + ": the tokenizer has " + std::to_string(tokenizer.vocab_size()) +
                       " tokens, the model only " + std::to_string(config.vocab_size));

  nn::causal_lm<Device> model(device, config);
  load_model(model, folder);
  if (part == 0) log.emplace(output);
  nn::workspace<Device> space(device, static_cast<std::size_t>(opt.get<std::int64_t>("rlcore.logits_memory_mb")) << 20);
  say("model    %s, %.3g M parameters, on %s\n", folder.c_str(), static_cast<double>(model.size()) * 1e-6,
      describe(device).c_str());
  say("problems %zu, %lld response%s each%s\n", prompts.size(), static_cast<long long>(n), n == 1 ? "" : "s",
      image_text(prompts.images).c_str());
  std::fflush(stdout);

  rollout::engine<Device> engine;
  const random_key key = random_key{static_cast<std::uint64_t>(opt.get<std::int64_t>("rlcore.seed"))}.child(0x6576616c);
  const response_judge judge_response{prompts, problems_of(prompts), tokenizer, judge};
  progress bar(stderr, part == 0 && isatty(fileno(stderr)) != 0);
  bar.start(0, static_cast<std::int64_t>((prompts.size() + per_round - 1) / per_round));
  for (std::size_t first = 0, round = 0; first < prompts.size(); first += per_round) {
    const auto requests = requests_for(prompts, first, std::min(prompts.size(), first + per_round), n);
    const row_range shard = even_share(requests.size(), parts, part);
    const auto begin = requests.begin() + static_cast<std::ptrdiff_t>(shard.first);
    const auto responses = gather_responses(
        ranks,
        answer_requests(engine, model, space, {begin, begin + static_cast<std::ptrdiff_t>(shard.size())}, prompts,
                        settings, key, [&](std::size_t done) { bar.phase("responses", done, shard.size()); }));
    for (std::size_t i = 0; i < requests.size(); ++i) judge_response(requests[i], responses[i], summary, log);
    bar.step_done(static_cast<std::int64_t>(++round));
  }
}

}  // namespace detail

/// Throws config_error for settings that do not go together, std::invalid_argument if there is neither a device nor a
/// stored response.
template <class Device>
void evaluate(Device* device, const options& opt, parallel::any_communicator* ranks) {
  for (const std::string& note : opt.notes()) say("note: %s\n", note.c_str());
  const detail::judge judge(opt);
  const std::filesystem::path folder = checkpoint::expand_home(opt.get<std::string>("output_dir"));
  evaluation_summary summary;
  const std::vector<std::string> stored = opt.list("responses");
  std::optional<detail::generation_log> log;
  if (!stored.empty()) {
    for (const char* key : {"model.path", "data.files"})
      if (opt.is_set(key))
        throw config_error(std::string("responses= and ") + key + "= together; expected one of them");
    check_data_files(opt, "responses", data::check_readable);
    const std::vector<stored_response> responses = read_stored_responses(stored, judge.rule.has_value());
    for (const stored_response& s : responses) judge.check(s.source);
    log.emplace(folder);
    for (const stored_response& s : responses) {
      const judged_response r{s.source, s.problem, judge(s.source, s.text, s.truth)};
      summary.add(r);
      log->write(detail::judged_line(r, s.prompt, s.text, s.truth));
    }
  } else {
    if (device == nullptr) throw std::invalid_argument("rlcore: evaluate: no device and no stored responses");
    check_data_files(opt, "data.files", data::check_table);
    if (opt.get<std::string>("data.form") == "gsm8k") check_data_files(opt, "data.shots", data::check_table);
    detail::sample_and_judge(*device, opt, judge, summary, log, folder, ranks);
  }
  if (!log) return;
  log->close();
  nlohmann::ordered_json result = summary_json(summary);
  for (const std::string& line : opt.overrides()) {
    const std::size_t equal = line.find('=');
    result["settings"][line.substr(0, equal)] = line.substr(equal + 1);
  }
  checkpoint::write_file_atomically(folder / "result.json", text::json_text(result, 2) + "\n");
  say("\n%s\n%s\n", summary_table(summary.sources()).c_str(), (folder / "result.json").c_str());
}

}  // namespace trainer
RLCORE_END
