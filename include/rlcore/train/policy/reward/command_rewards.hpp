// Scores from an external program, by JSON lines; the adapter for verl's compute_score functions.
#pragma once

#include <unistd.h>
#include <cmath>
#include <filesystem>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "rlcore/agent/line_process.hpp"
#include "rlcore/checkpoint/hugging_face.hpp"
#include "rlcore/config/check_value.hpp"
#include "rlcore/core/abi.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/data/file.hpp"
#include "rlcore/text/big_integer.hpp"
#include "rlcore/text/parse_json.hpp"
#include "rlcore/train/policy/reward/reward_settings.hpp"
#include "rlcore/train/policy/reward/reward_source.hpp"

RLCORE_BEGIN
namespace train {

/// python3 -c <this> <file> <function> <further arguments as JSON> <0|1: the function takes lists>. Answers {"ready":
/// 1} or {"error": ...} first. What the function prints goes to standard error.
inline constexpr const char* python_reward = R"py(
import asyncio, importlib.util, inspect, json, os, sys
answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
os.dup2(2, 1)
path, name, further, lists = sys.argv[1], sys.argv[2], json.loads(sys.argv[3]), sys.argv[4] == "1"

def plain(x):
    if hasattr(x, "item"):
        x = x.item()
    if isinstance(x, dict):
        return {k: plain(v) for k, v in x.items() if k in ("score", "acc", "pred")}
    return x if x is None or isinstance(x, (bool, int, float, str)) else str(x)

def say(x):
    try:
        answers.write(json.dumps(x) + "\n")
        answers.flush()
    except BrokenPipeError:
        os._exit(1)

loop = asyncio.new_event_loop()  # one for all calls: what a function keeps belongs to it
asyncio.set_event_loop(loop)

def called(arguments):
    x = function(**arguments, **further)
    return loop.run_until_complete(x) if inspect.isawaitable(x) else x

def answer(x, index):
    try:
        x = plain(x[0] if isinstance(x, tuple) else x)
        x = {**(x if isinstance(x, dict) else {"score": x}), "index": index}
        json.dumps(x)
    except Exception as e:
        return tell(e, index)
    say(x)

def tell(e, index):
    say({"error": (type(e).__name__ + ": " + str(e)).replace("\n", " ")[:300], "index": index})

try:
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    spec = importlib.util.spec_from_file_location("reward_function", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["reward_function"] = module
    spec.loader.exec_module(module)
    function = getattr(module, name)
    answer(1, 0)
except BaseException as e:
    tell(e, 0)
    sys.exit(1)

waiting, batch = 0, []
for line in sys.stdin.buffer:
    request = json.loads(line)
    if not lists:
        index = request.pop("index")
        try:
            answer(called(request), index)
        except Exception as e:
            tell(e, index)
        continue
    if "count" in request:
        waiting, batch = request["count"], []
        continue
    batch.append(request)
    if len(batch) < waiting:
        continue
    try:
        columns = {"data_sources": "data_source", "solution_strs": "solution_str",
                   "ground_truths": "ground_truth", "extra_infos": "extra_info"}
        scores = list(called({k: [r[v] for r in batch] for k, v in columns.items()}))
        if len(scores) != len(batch):
            raise ValueError("%d scores for %d responses" % (len(scores), len(batch)))
        for r, score in zip(batch, scores):
            answer(score, r["index"])
    except Exception as e:
        for r in batch:
            tell(e, r["index"])
)py";

namespace detail {

/// A value of the command line as JSON.
nlohmann::ordered_json to_json(const value& v);

inline double number_of(const nlohmann::json& j) {
  if (j.is_boolean()) return j.get<bool>() ? 1 : 0;
  return j.is_number() ? j.get<double>() : std::nan("");
}

}  // namespace detail

/// The meaning of an answer: a number, or an object with a number `score` and perhaps `acc` and `pred`. Throws
/// data_error for anything else, for a score that is not finite, and with the text of an object's `error`.
judgement read_judgement(const std::string& line);

/// A program whose answers carry the `index` of the request runs as long as this object. One whose answers do not is
/// asked for one batch: its input is closed after that, and its lines have to be as many as the responses, or a line
/// too many would give each response the reward of its neighbour. An answer that is missing, late, malformed or of
/// another response throws data_error; with zero_on_failure it counts 0 and reward/failed instead, and a program that
/// has ended is started again, at most three times without an answer in between.
class command_rewards final : public text_rewards {
 public:
  /// Starts the program. `strip_end` as in response_text(). Throws file_error if it cannot be started.
  explicit command_rewards(external_reward settings, bool strip_end = false);
  /// With zero_on_failure: reward/failed, the share of responses without an answer.
  void report(metrics& out) override {
    if (settings_.zero_on_failure && asked_ > 0)
      out.set("reward/failed", static_cast<double>(failed_) / static_cast<double>(asked_));
    asked_ = failed_ = 0;
  }
  std::vector<double> take_counts() override {
    return {static_cast<double>(std::exchange(asked_, 0)), static_cast<double>(std::exchange(failed_, 0))};
  }
  /// Adds the numbers of responses and failures of another rank.
  void add_counts(std::span<const double> counts) override {
    asked_ += static_cast<std::int64_t>(counts[0]), failed_ += static_cast<std::int64_t>(counts[1]);
  }

 protected:
  void judge(std::span<const answer> answers, std::span<judgement> judgements) override;

 private:
  void fail(const std::string& why) const {
    if (!settings_.zero_on_failure) throw data_error(name_ + " " + why);
  }

  std::string how_it_failed(agent::line_process::status status);

  void ask(std::span<const answer> answers, std::size_t first);

  void start();

  /// Sets `to` from a line that answers response `index`. False if it is the answer of another response.
  bool read_answer(const std::string& line, std::size_t index, const std::string& where, judgement& to);

  /// After the last answer: ends a program whose answers have no index. The reason why it cannot be told which answer
  /// belongs to which response; empty if it can.
  std::string end_of_batch();

  external_reward settings_;
  bool python_ = false, indexed_ = false;  ///< indexed_: the last answer had an index
  std::string name_;
  std::unique_ptr<agent::line_process> process_;
  std::int64_t asked_ = 0, failed_ = 0;
};

}  // namespace train

RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TRAIN_PARTS)
RLCORE_BEGIN
namespace train::detail {

RLCORE_INLINE nlohmann::ordered_json to_json(const value& v) {
  if (const bool* x = v.as<bool>()) return *x;
  if (const auto* x = v.as<std::int64_t>()) return *x;
  if (const auto* x = v.as<double>()) return *x;
  if (const auto* x = v.as<std::string>()) return *x;
  nlohmann::ordered_json out;
  if (const auto* items = v.as<value::list>()) {
    out = nlohmann::ordered_json::array();
    for (const value& item : *items) out.push_back(to_json(item));
  } else if (const auto* members = v.as<value::map>()) {
    out = nlohmann::ordered_json::object();
    for (const member& m : *members) out[m.name] = to_json(m.item);
  }
  return out;
}

}  // namespace train::detail

namespace train {

namespace detail {

/// read_judgement() of a line that has been parsed.
RLCORE_INLINE judgement judgement_of(const nlohmann::json& j, const std::string& line) {
  const auto refuse = [&] {
    return data_error("answered '" + data::printable(line) +
                      "'; expected a finite number or an object with one as \"score\"");
  };
  const auto is_score = [](double x) { return std::abs(x) <= double{std::numeric_limits<float>::max()}; };
  if (j.is_discarded()) throw refuse();
  if (!j.is_object()) {
    const double score = detail::number_of(j);
    if (!is_score(score)) throw refuse();
    return judged(score);
  }
  if (j.contains("error") && j["error"].is_string())
    throw data_error("failed: " + data::printable(j["error"].get<std::string>(), 300));
  const double score = j.contains("score") ? detail::number_of(j["score"]) : std::nan("");
  if (!is_score(score)) throw refuse();
  judgement result = judged(score);
  if (j.contains("acc") && !j["acc"].is_null()) {
    const double accuracy = detail::number_of(j["acc"]);
    if (!std::isfinite(accuracy)) throw refuse();
    result.accuracy = accuracy;
  }
  if (j.contains("pred") && !j["pred"].is_null())
    result.verdict.pred = j["pred"].is_string() ? j["pred"].get<std::string>() : text::json_text(j["pred"]);
  return result;
}

}  // namespace detail

RLCORE_INLINE judgement read_judgement(const std::string& line) {
  return detail::judgement_of(text::try_parse_json(line), line);
}

RLCORE_INLINE command_rewards::command_rewards(external_reward settings, bool strip_end)
    : text_rewards(strip_end), settings_(std::move(settings)) {
  python_ = settings_.path.ends_with(".py");
  name_ = settings_.command.empty() ? "custom_reward_function.path=" + settings_.path
                                    : "rlcore.reward_command=" + settings_.command;
  if (settings_.whole_batch && !python_) settings_.whole_batch = false;  // a program reads its input as a stream
  start();
}

RLCORE_INLINE bool command_rewards::read_answer(const std::string& line, std::size_t index, const std::string& where,
                                                judgement& to) {
  const nlohmann::json j = text::try_parse_json(line);
  indexed_ = j.is_object() && j.contains("index");
  if (indexed_ && j["index"] != index) return false;
  try {
    to = detail::judgement_of(j, line);
  } catch (const data_error& e) {
    fail(std::string(e.what()) + " " + where);
    to = judged(0.0), ++failed_;
  }
  return true;
}

RLCORE_INLINE std::string command_rewards::end_of_batch() {
  const char* more = "wrote more lines than there were responses";
  if (indexed_) return process_->has_output() ? more : "";
  process_->close_input();
  std::string line;
  const agent::line_process::status status = process_->read_line(line, settings_.timeout);
  if (status == agent::line_process::status::end) return process_.reset(), "";
  return status == agent::line_process::status::timeout ? "did not end within " + real_text(settings_.timeout) +
                                                              " s (rlcore.reward_timeout) of the end of its input"
                                                        : more;
}

RLCORE_INLINE void command_rewards::judge(std::span<const answer> answers, std::span<judgement> judgements) {
  if (answers.empty()) return;
  asked_ += std::ssize(answers);
  std::size_t next = 0, first = 0;  // to be answered; first that this process has been asked
  int failures_in_a_row = 0;
  const auto where = [&] {
    return "for response " + std::to_string(next + 1) + " of " + std::to_string(answers.size()) + " (data_source '" +
           data::printable(answers[next].data_source) + "')";
  };
  while (next < answers.size()) {
    if (process_ == nullptr) start();
    first = next;
    ask(answers.subspan(next), next);
    while (next < answers.size()) {
      std::string line;
      const agent::line_process::status status = process_->read_line(line, settings_.timeout);
      const bool answered = status == agent::line_process::status::line;
      if (answered && read_answer(line, next, where(), judgements[next])) {
        ++next, failures_in_a_row = 0;
        continue;
      }
      const std::string why = (answered ? "answered for another response" : how_it_failed(status)) + " " + where();
      process_->stop();
      process_.reset();
      fail(why);
      if (++failures_in_a_row > 3) throw data_error(name_ + " " + why + ", the fourth time in a row");
      judgements[next] = judged(0.0), ++failed_, ++next;
      break;
    }
  }
  if (process_ == nullptr) return;
  const std::string why = end_of_batch();
  if (why.empty()) return;
  process_->stop();
  process_.reset();
  fail(why +
       ": which answer belongs to which response is not known; answer {\"index\": that of the request, \"score\": "
       "...}, or print nothing else and end with the input");
  for (; first < next; ++first) judgements[first] = judged(0.0), ++failed_;
}

RLCORE_INLINE std::string command_rewards::how_it_failed(agent::line_process::status status) {
  if (status == agent::line_process::status::timeout)
    return "gave no answer within " + real_text(settings_.timeout) + " s (rlcore.reward_timeout)";
  if (status == agent::line_process::status::too_long)
    return "answered more than " + std::to_string(process_->longest_line()) + " bytes without a line end";
  return "ended (" + process_->ending() + ") before it answered";
}

RLCORE_INLINE void command_rewards::ask(std::span<const answer> answers, std::size_t first) {
  if (settings_.whole_batch) process_->write("{\"count\":" + std::to_string(answers.size()) + "}\n");
  for (const answer& a : answers) {
    data::row extra = a.extra_info.is_null() ? data::row::object() : a.extra_info;
    if (a.num_turns > 0 && extra.is_object()) extra["num_turns"] = a.num_turns;
    const nlohmann::ordered_json request{{"data_source", a.data_source},
                                         {"solution_str", a.solution_str},
                                         {"ground_truth", a.ground_truth},
                                         {"extra_info", std::move(extra)},
                                         {"index", first++}};
    process_->write(text::exact_dump(request) + "\n");
  }
}

RLCORE_INLINE void command_rewards::start() {
  if (!settings_.command.empty()) {
    process_ = std::make_unique<agent::line_process>(std::vector<std::string>{"/bin/sh", "-c", settings_.command});
    return;
  }
  std::filesystem::path path = checkpoint::expand_home(settings_.path);
  if (!std::filesystem::is_regular_file(path)) throw config_error(name_ + ": no such file");
  if (!python_) {
    if (::access(path.c_str(), X_OK) != 0)
      throw config_error(name_ +
                         ": not executable (chmod +x); expected a program that answers JSON lines, or a .py "
                         "file with a function");
    if (!path.has_parent_path()) path = "." / path;
    process_ = std::make_unique<agent::line_process>(std::vector<std::string>{path.string()});
    return;
  }
  std::string further;
  try {
    further = detail::to_json(settings_.arguments).dump();  // json_text() would replace what is not UTF-8
  } catch (const nlohmann::json::exception&) {
    throw config_error(name_ + ": the arguments of reward_kwargs hold a text that is not valid UTF-8");
  }
  process_ = std::make_unique<agent::line_process>(
      std::vector<std::string>{"python3", "-c", python_reward, path.string(), settings_.function,
                               further == "null" ? "{}" : further, settings_.whole_batch ? "1" : "0"});
  std::string line;
  const agent::line_process::status status = process_->read_line(line, settings_.timeout);
  if (status != agent::line_process::status::line) throw config_error(name_ + " " + how_it_failed(status));
  try {
    read_judgement(line);
  } catch (const data_error& e) {
    throw config_error(name_ + " " + e.what());
  }
}

}  // namespace train
RLCORE_END
#endif
