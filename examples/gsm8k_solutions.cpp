// GSM8K's example_model_solutions.jsonl (right and wrong solutions of four models) to preference data:
//   build/bin/gsm8k_solutions --input grade_school_math/data/example_model_solutions.jsonl --local_save_dir
//   ~/data/pairs
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "rlcore/checkpoint/atomic_file.hpp"
#include "rlcore/checkpoint/resolve_model.hpp"
#include "rlcore/data/jsonl.hpp"
#include "rlcore/data/sampler.hpp"
#include "rlcore/trainer/program.hpp"
#include "rlcore/verify/gsm8k_solution.hpp"

namespace {

using rlcore::config_error;
using rlcore::data::row;
using rlcore::verify::solved_question;

constexpr const char* usage = R"(usage: gsm8k_solutions --input FILE [--local_save_dir DIR] [options]

Writes, for training and for held-out questions (no question is in both):

  pairs_{train,test}.jsonl     prompt, chosen, rejected: every right with every wrong solution   (rm, dpo)
  unpaired_{train,test}.jsonl  input, output, label: 1 for a right solution, 0 for a wrong one   (kto)
  steps_{train,test}.jsonl     input with a mark after each step, value: "+" or "-" per mark      (prm)

  --input FILE           example_model_solutions.jsonl; nothing is downloaded
  --local_save_dir DIR   where the files are written, default ~/data/gsm8k_solutions
  --held_out X           share of the questions that are held out, default 0.25
  --seed N               which ones, default 1
  --messages             prompts and solutions as message lists, for --apply_chat_template
  --mixed                unpaired rows and steps only of questions with right and wrong solutions
  --step_labels RULE     first_error (default) or solution: every step is as good as its solution
  --placeholder TEXT     the mark after a step, default "ки"; it has to be one token of the model
  --help                 this text

The data judges whole solutions. With first_error the steps of a wrong one are good until a calculator result does not
occur in the true solution.
)";

struct settings {
  std::string input, output = "~/data/gsm8k_solutions", mark = "ки", step_labels = "first_error";
  double held_out = 0.25;
  std::uint64_t seed = 1;
  bool messages = false, mixed = false, help = false;
};

template <class T>
T number(const std::string& name, const std::string& text, double least, double most) {
  T x{};
  const auto end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, x);
  if (read.ec != std::errc() || read.ptr != end || static_cast<double>(x) < least || static_cast<double>(x) > most)
    throw config_error("option " + name + " is '" + text + "'; expected a number from " + std::to_string(least) +
                       " to " + std::to_string(most));
  return x;
}

settings parse(std::span<char*> arguments) {
  settings s;
  const std::vector<std::string> names{"--input", "--local_save_dir", "--held_out",    "--seed", "--messages",
                                       "--mixed", "--step_labels",    "--placeholder", "--help"};
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    std::string name = arguments[i], value;
    const std::size_t equals = name.find('=');
    if (equals != name.npos) value = name.substr(equals + 1), name.resize(equals);
    if (std::find(names.begin(), names.end(), name) == names.end())
      throw config_error("unknown option '" + name + "'" + rlcore::did_you_mean(name, names) + "; see --help");
    if (name == "--help" || name == "--messages" || name == "--mixed") {
      (name == "--help" ? s.help : name == "--mixed" ? s.mixed : s.messages) = true;
      continue;
    }
    if (equals == std::string::npos && i + 1 < arguments.size()) value = arguments[++i];
    if (value.empty()) throw config_error("option " + name + " needs a value");
    if (name == "--held_out")
      s.held_out = number<double>(name, value, 0, 1);
    else if (name == "--seed")
      s.seed = number<std::uint64_t>(name, value, 0, 1e15);
    else
      (name == "--input"         ? s.input
       : name == "--placeholder" ? s.mark
       : name == "--step_labels" ? s.step_labels
                                 : s.output) = value;
  }
  if (s.step_labels != "first_error" && s.step_labels != "solution")
    throw config_error("--step_labels is '" + s.step_labels + "'; expected first_error or solution");
  if (!s.help && s.input.empty()) throw config_error("no --input; expected example_model_solutions.jsonl (see --help)");
  return s;
}

struct files {
  std::vector<row> pairs, unpaired, steps;
};

row said_by(const char* role, const std::string& text, bool messages) {
  if (!messages) return text;
  return row::array({row{{"role", role}, {"content", text}}});
}

void add(files& to, const solved_question& q, const settings& s) {
  const row prompt = said_by("user", q.question, s.messages);
  for (const auto& right : q.solutions)
    for (const auto& wrong : q.solutions)
      if (right.correct && !wrong.correct)
        to.pairs.push_back({{"prompt", prompt},
                            {"chosen", said_by("assistant", right.text, s.messages)},
                            {"rejected", said_by("assistant", wrong.text, s.messages)}});
  const bool some = std::any_of(q.solutions.begin(), q.solutions.end(), [](const auto&x) { return x.correct; }),
             all = std::all_of(q.solutions.begin(), q.solutions.end(), [](const auto&x) { return x.correct; });
  if (s.mixed && (all || !some)) return;
  for (const auto& one : q.solutions) {
    to.unpaired.push_back(
        {{"input", prompt}, {"output", said_by("assistant", one.text, s.messages)}, {"label", one.correct ? 1 : 0}});
    const std::vector<std::string> steps = rlcore::verify::solution_steps(one.text);
    std::vector<bool> good = rlcore::verify::good_steps(q, one);
    if (s.step_labels == "solution") good.assign(steps.size(), one.correct);
    std::string text = q.question + "\n";
    row labels = row::array();
    for (std::size_t i = 0; i < steps.size(); ++i) {
      text += steps[i] + " " + s.mark + "\n";
      labels.push_back(good[i] ? "+" : "-");
    }
    to.steps.push_back({{"input", text}, {"value", labels}});
  }
}

void run(const settings& s) {
  const std::filesystem::path input = rlcore::checkpoint::expand_home(s.input),
                              folder = rlcore::checkpoint::expand_home(s.output);
  const std::vector<row> raw = rlcore::data::read_jsonl(input);
  const auto order = rlcore::data::epoch_order(raw.size(), s.seed, 0, true);
  std::vector<bool> held(raw.size());
  for (std::size_t i = 0; i < static_cast<std::size_t>(s.held_out * static_cast<double>(raw.size())); ++i)
    held[order[i]] = true;
  files splits[2];  // train, test
  for (std::size_t i = 0; i < raw.size(); ++i) {
    const solved_question q = rlcore::verify::read_solved_question(raw[i], rlcore::data::row_text(input.string(), i));
    if (q.question.find(s.mark) != std::string::npos)
      throw config_error("--placeholder '" + s.mark + "' occurs in the question of row " + std::to_string(i));
    add(splits[held[i]], q, s);
  }
  std::error_code code;
  std::filesystem::create_directories(folder, code);
  if (code) rlcore::data::throw_file_error(folder, "create the folder", code.value());
  for (int split = 0; split < 2; ++split)
    for (const auto& [name, member] : {std::pair{"pairs", &files::pairs}, std::pair{"unpaired", &files::unpaired},
                                       std::pair{"steps", &files::steps}}) {
      const std::filesystem::path path = folder / (std::string(name) + (split == 0 ? "_train" : "_test") + ".jsonl");
      const std::vector<row>& rows = splits[split].*member;
      rlcore::checkpoint::write_file_atomically(path, rlcore::data::to_jsonl(rows));
      std::printf("%s: %zu rows\n", path.c_str(), rows.size());
    }
}

}  // namespace

int main(int argc, char** argv) {
  return rlcore::trainer::run_program("gsm8k_solutions", [&] {
    const settings s = parse(std::span(argv, static_cast<std::size_t>(argc)).subspan(1));
    s.help ? static_cast<void>(std::fputs(usage, stdout)) : run(s);
  });
}
