// GSM8K's example_model_solutions.jsonl (right and wrong solutions of four models) to preference data:
//   build/bin/gsm8k_solutions --input grade_school_math/data/example_model_solutions.jsonl --local_save_dir
//   ~/data/pairs
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "rlcore/checkpoint/atomic_file.hpp"
#include "rlcore/checkpoint/hugging_face.hpp"
#include "rlcore/config/options.hpp"
#include "rlcore/config/programs/tools.hpp"
#include "rlcore/data/blend.hpp"
#include "rlcore/data/jsonl.hpp"
#include "rlcore/train/run/program.hpp"
#include "rlcore/verify/dataset_rows.hpp"

namespace {

using rlcore::config_error;
using rlcore::data::row;
using rlcore::verify::solved_question;

struct settings {
  std::string input, output, mark, step_labels;
  double held_out;
  std::uint64_t seed;
  bool messages, mixed;
};

settings read_settings(const rlcore::train::options& o) {
  const auto input = o.find<std::string>("input");
  if (!input) throw config_error("no --input; expected example_model_solutions.jsonl (see --help)");
  return {.input = *input,
          .output = o.get<std::string>("local_save_dir"),
          .mark = o.get<std::string>("placeholder"),
          .step_labels = o.get<std::string>("step_labels"),
          .held_out = o.get<double>("held_out"),
          .seed = static_cast<std::uint64_t>(o.get<std::int64_t>("seed")),
          .messages = o.get<bool>("messages"),
          .mixed = o.get<bool>("mixed")};
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
  const bool some = std::any_of(q.solutions.begin(), q.solutions.end(), [](const auto& x) { return x.correct; }),
             all = std::all_of(q.solutions.begin(), q.solutions.end(), [](const auto& x) { return x.correct; });
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
  return rlcore::train::run_program("gsm8k_solutions", [&] {
    const auto options = rlcore::train::options::parse(argc, argv, rlcore::train::gsm8k_solutions_registry());
    if (options.answer()) return void(std::fputs(options.answer()->c_str(), stdout));
    run(read_settings(options));
  });
}
