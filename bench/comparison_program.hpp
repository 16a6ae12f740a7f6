// Driver of examples/variants.cpp: command line, one run per variant and seed, table and report.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cctype>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "embedded_task.hpp"
#include "rlcore/checkpoint/atomic_file.hpp"
#include "rlcore/config/programs/main_ppo.hpp"
#include "rlcore/core/suggest.hpp"
#include "rlcore/telemetry/comparison/comparison.hpp"
#include "rlcore/telemetry/logger.hpp"
#include "rlcore/train/policy/algorithm/any_algorithm.hpp"
#include "rlcore/train/run/read_device.hpp"
#include "rlcore/train/run/trainers.hpp"

namespace comparison_program {

using namespace rlcore;
namespace fs = std::filesystem;

/// A type as it is written in the code, without namespaces.
template <class T>
std::string type_name() {
  std::string_view text = __PRETTY_FUNCTION__;  // "... [with T = rlcore::v0::k3; std::string = ...]", "... [T = ...]"
  text.remove_prefix(text.find("T = ") + 4);
  std::string out;
  int depth = 0;
  for (std::size_t i = 0; i < text.size() && !(depth == 0 && (text[i] == ';' || text[i] == ']')); ++i) {
    depth += (text[i] == '<') - (text[i] == '>');
    if (text.substr(i, 2) == "::") {
      while (!out.empty() && (std::isalnum(static_cast<unsigned char>(out.back())) != 0 || out.back() == '_'))
        out.pop_back();
      ++i;
    } else if (!(text[i] == ' ' && out.ends_with('>'))) {
      out += text[i];
    }
  }
  return out;
}

template <class T, std::size_t... Index>
constexpr bool holds_numbers_only(std::index_sequence<Index...>) {
  return requires(double x) { T{(static_cast<void>(Index), x)...}; };
}

/// "ppo_clip{0.2, 0.28}": the type, and its settings if they are all numbers.
template <class T>
std::string text_of(const T& x) {
  std::string out = type_name<T>();
  if constexpr (std::is_aggregate_v<T> && !std::is_empty_v<T> && sizeof(T) % sizeof(double) == 0) {
    constexpr std::size_t count = sizeof(T) / sizeof(double);
    if constexpr (holds_numbers_only<T>(std::make_index_sequence<count>{})) {
      out += "{";
      for (const double setting : std::bit_cast<std::array<double, count>>(x))
        out += (out.ends_with('{') ? "" : ", ") + train::html::brief(setting);
      out += "}";
    }
  }
  return out;
}

/// "ppo_clip{0.2, 0.2} + 0.04 k3": the pieces of an objective with their coefficients.
template <class Objective>
std::string objective_text(const Objective& objective) {
  if constexpr (composite_piece<Objective> || token_piece<Objective>) {
    return [&]<std::size_t... Index>(std::index_sequence<Index...>) {
      std::string out;
      const auto add = [&](const std::string& name, double coefficient) {
        if (!out.empty()) out += coefficient < 0 ? " - " : " + ";
        const double size = std::abs(coefficient);
        out += (size == 1 ? "" : train::html::brief(size) + " ") + name;
      };
      (add(text_of(piece_at<Index>(objective)), coefficient_at<Index>(objective)), ...);
      return out;
    }(std::make_index_sequence<piece_count<Objective>>{});
  } else {
    return type_name<Objective>();
  }
}

/// An algorithm under a name; the three texts describe its parts.
struct variant {
  std::string name, advantage, objective, aggregation, remark;
  train::any_algorithm algorithm;

  /// A selection, if any, chooses tokens before the first update of a step.
  template <class Advantage, class Objective, class Aggregation, class Selection = train::no_selection>
  variant(std::string name_, const rlcore::algorithm<Advantage, Objective, Aggregation>& a, std::string remark_,
          Selection selection = {})
      : name(std::move(name_)),
        advantage(text_of(a.advantage)),
        objective(objective_text(a.objective)),
        aggregation(text_of(a.aggregation)),
        remark(std::move(remark_)),
        algorithm(train::any_algorithm(a, selection)) {
    if constexpr (!std::is_same_v<Selection, train::no_selection>) objective += ", selected by " + text_of(selection);
  }
};

using arguments = std::vector<std::string>;

/// The command line, read but not yet checked against the variants.
struct request {
  arguments algorithms;
  std::vector<std::uint64_t> seeds;
  std::int64_t steps;
  std::uint32_t warm_start;
  fs::path output;
  arguments settings;  ///< key=value
};

/// The parts of `--flag a,b,c`, or of flag=[a,b,c].
inline arguments parts_of(const train::options& o, const std::string& flag) {
  arguments parts;
  for (const std::string& text : o.list(flag)) {
    const auto refuse = [&](const std::string& why) { throw config_error("--" + flag + " '" + text + "': " + why); };
    for (std::size_t first = 0; first <= text.size();) {
      const std::size_t end = std::min(text.find(',', first), text.size());
      const std::string part = text.substr(first, end - first);
      if (part.empty()) refuse("expected names or numbers with commas between");
      if (std::find(parts.begin(), parts.end(), part) != parts.end()) refuse(part + " stands there twice");
      parts.push_back(part);
      first = end + 1;
    }
  }
  if (parts.empty()) throw config_error(flag + "=[]: expected names or numbers");
  return parts;
}

inline std::uint64_t read_seed(const std::string& text) {
  constexpr std::uint64_t largest = std::uint64_t{1} << 62;
  std::uint64_t x{};
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), x);
  if (failure != std::errc() || end != text.data() + text.size() || x > largest)
    throw config_error("--seeds '" + text + "': expected an integer from 0 to " + std::to_string(largest));
  return x;
}

inline request read_request(const train::options& o) {
  request r{.algorithms = parts_of(o, "algorithms"),
            .seeds = {},
            .steps = o.get<std::int64_t>("steps"),
            .warm_start = static_cast<std::uint32_t>(o.get<std::int64_t>("warm-start")),
            .output = o.get<std::string>("output"),
            .settings = o.list("setting")};
  for (const std::string& text : parts_of(o, "seeds")) r.seeds.push_back(read_seed(text));
  for (const std::string& word : r.settings)
    if (word.find('=') == std::string::npos)
      throw config_error("'" + word + "' is no setting key=value" + did_you_mean("--" + word, o.known().flag_names()));
  return r;
}

/// Settings of grpo_trainer that belong to the variant or to an option of this program.
inline void refuse_settings_of_our_own(const train::options& opt) {
  static constexpr std::pair<const char*, const char*> options[] = {{"trainer.total_training_steps", "--steps"},
                                                                    {"trainer.total_epochs", "--steps"},
                                                                    {"trainer.default_local_dir", "--output"},
                                                                    {"rlcore.seed", "--seeds"}};
  for (const auto& [key, flag] : options)
    if (opt.is_set(key)) throw config_error(std::string(key) + ": use " + flag + " here");
  for (const char* key : {"trainer.resume_mode", "trainer.resume_from_path"})
    if (opt.is_set(key))
      throw config_error(std::string(key) + ": a run that ended is taken over, one that was cut short starts anew");
  const std::string actor = "actor_rollout_ref.actor.";
  for (const std::string& key :
       {std::string("algorithm.adv_estimator"), std::string("algorithm.norm_adv_by_std_in_grpo"), actor + "clip_ratio",
        actor + "clip_ratio_low", actor + "clip_ratio_high", actor + "clip_ratio_c", actor + "loss_agg_mode",
        actor + "entropy_coeff", actor + "use_kl_loss", actor + "kl_loss_coef", actor + "kl_loss_type",
        actor + "policy_loss.loss_mode"})
    if (opt.is_set(key))
      throw config_error(key + ": that is what the variants differ in; add one to examples/variants.cpp");
}

/// 16 hex digits that change with the bytes (FNV-1a).
inline std::string fingerprint(std::string_view bytes) {
  std::uint64_t h = 0xcbf29ce484222325u;
  for (const char c : bytes) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(h));
  return text;
}

/// Whether `file` records exactly this work as done; results of a different build do not count.
class done_mark {
 public:
  done_mark(fs::path file, nlohmann::ordered_json what) : file_(std::move(file)) {
    static const std::string program = fingerprint(data::read_file("/proc/self/exe"));
    what["program"] = program;
    text_ = what.dump(2) + "\n";
  }
  bool is_set() const { return fs::exists(file_) && data::read_file(file_) == text_; }
  void clear() const {
    std::error_code failure;
    fs::remove(file_, failure);
    if (failure) throw file_error(file_.string() + ": cannot remove the file: " + failure.message());
  }
  void set() const { checkpoint::write_file_atomically(file_, text_); }

 private:
  fs::path file_;
  std::string text_;
};

class program {
 public:
  program(const std::vector<variant>& known, request r) : request_(std::move(r)) {
    for (const std::string& name : request_.algorithms) {
      const auto found = std::find_if(known.begin(), known.end(), [&](const variant& v) { return v.name == name; });
      if (found == known.end()) {
        arguments names;
        for (const variant& v : known) names.push_back(v.name);
        throw config_error("no algorithm '" + name + "'" + did_you_mean(name, names) + "; --list shows all");
      }
      chosen_.push_back(*found);
    }
    arguments all = embedded_task::settings(request_.output);
    all.insert(all.end(), {"trainer.logger=file", "trainer.project_name=variants"});
    all.insert(all.end(), request_.settings.begin(), request_.settings.end());
    refuse_settings_of_our_own(train::options::parse(all, train::main_ppo_registry()));
    base_ = std::move(all);
    options_for(chosen_.front(), request_.seeds.front());  // reports invalid settings now
  }

  void run() {
    const train::options opt = options_for(chosen_.front(), request_.seeds.front());
    for (const std::string& note : opt.notes()) std::printf("note: %s\n", note.c_str());
    const auto opened = train::open_device(opt);
    any_device& device = *opened;
    make_task(device, opt);
    const std::size_t total = chosen_.size() * request_.seeds.size();
    describe(device, opt);
    std::size_t width = 0;
    for (const variant& v : chosen_) width = std::max(width, v.name.size());
    double spent = 0;  // in runs executed here, not reused
    std::size_t made = 0, number = 0;
    for (const std::uint64_t seed : request_.seeds)
      for (const variant& v : chosen_) {
        const auto start = std::chrono::steady_clock::now();
        const bool fresh = one_run(device, v, seed);
        if (fresh) spent += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(), ++made;
        ++number;
        const auto of_this = train::summarize(std::span(&runs_.back(), 1)).front();
        std::string tail = fresh ? "" : "  taken over";
        if (made > 0 && number < total)
          tail += "  " + train::duration_text(spent / static_cast<double>(made) * static_cast<double>(total - number)) +
                  " left";
        std::printf("[%*zu/%zu] %-*s  seed %llu  validation %.3f -> %.3f  %6.1f s%s\n",
                    static_cast<int>(std::to_string(total).size()), number, total, static_cast<int>(width),
                    v.name.c_str(), static_cast<unsigned long long>(seed), of_this.first_reward, of_this.last_reward,
                    of_this.seconds, tail.c_str());
        std::fflush(stdout);
        train::write_comparison(report(), info_, runs_);
      }
    std::printf("\n%s\nreport  %s\n", train::comparison_table(train::summarize(runs_)).c_str(), report().c_str());
  }

 private:
  fs::path report() const { return request_.output / "report.html"; }
  static std::string run_name(const variant& v, std::uint64_t seed) { return v.name + "-seed" + std::to_string(seed); }

  train::options options_for(const variant& v, std::uint64_t seed) const {
    arguments all = base_;
    all.insert(all.end(), {"algorithm.adv_estimator=grpo", "trainer.resume_mode=disable",
                           "trainer.total_training_steps=" + std::to_string(request_.steps),
                           "trainer.experiment_name=" + run_name(v, seed), "rlcore.seed=" + std::to_string(seed),
                           "trainer.default_local_dir=" + (request_.output / run_name(v, seed)).string()});
    return train::options::parse(all, train::main_ppo_registry());
  }

  /// Problems and warm start are made once, with seed 1, for all runs; skipped if the settings name their own.
  void make_task(any_device& device, const train::options& opt) {
    const auto model = opt.get<std::string>("actor_rollout_ref.model.path");
    std::vector<std::string> read{model};
    for (const char* key : {"data.train_files", "data.val_files"})
      for (const std::string& file : opt.list(key)) read.push_back(file);
    const std::string inside = (request_.output / "").string();
    if (std::none_of(read.begin(), read.end(), [&](const std::string& path) { return path.starts_with(inside); }))
      return;
    fs::create_directories(request_.output);
    const done_mark mark(request_.output / "task.json", {{"seed", 1}, {"warm_start_steps", request_.warm_start}});
    if (mark.is_set()) return void(std::printf("warm start  taken over from %s\n", model.c_str()));
    mark.clear();
    embedded_task::make(device, request_.output, 1, request_.warm_start);
    mark.set();
  }

  void describe(const any_device& device, const train::options& opt) {
    const auto count = [](std::size_t n, const char* what) {
      return std::to_string(n) + " " + what + (n == 1 ? "" : "s");
    };
    info_.name = "variants";
    info_.about = count(chosen_.size(), "variant") + " x " + count(request_.seeds.size(), "seed") + " x " +
                  count(static_cast<std::size_t>(request_.steps), "step") + "  \xC2\xB7  " + rlcore::describe(device);
    info_.variant_head = {"name", "advantage", "objective", "aggregation", "remark"};
    for (const variant& v : chosen_)
      info_.variants.push_back({v.name, v.advantage, v.objective, v.aggregation, v.remark});
    for (const std::string& line : opt.overrides()) {
      const std::size_t equal = line.find('=');
      const std::string key = line.substr(0, equal);
      if (key == "trainer.experiment_name" || key == "trainer.default_local_dir" || key == "rlcore.seed" ||
          key == "algorithm.adv_estimator" || key == "trainer.resume_mode")
        continue;
      info_.settings.emplace_back(key, line.substr(equal + 1));
    }
  }

  /// Executes the run and appends its rows to runs_. If a run of the same variant, settings, initial weights and
  /// program has finished here before, reuses its rows and returns false.
  bool one_run(any_device& device, const variant& v, std::uint64_t seed) {
    const train::options opt = options_for(v, seed);
    const fs::path folder = request_.output / run_name(v, seed);
    const fs::path weights = fs::path(opt.get<std::string>("actor_rollout_ref.model.path")) / "model.safetensors";
    const done_mark mark(folder / "done.json",
                         {{"variant", v.name},
                          {"objective", v.advantage + " | " + v.objective + " | " + v.aggregation},
                          {"weights", fs::exists(weights) ? fingerprint(data::read_file(weights)) : ""},
                          {"settings", opt.overrides()}});
    const bool fresh = !mark.is_set();
    if (fresh) {
      mark.clear();
      train::train_policy(device, opt, v.algorithm, true);
      mark.set();
    }
    runs_.push_back({v.name, seed, train::read_metric_rows(folder / "metrics.jsonl")});
    return fresh;
  }

  request request_;
  std::vector<variant> chosen_;
  arguments base_;
  train::comparison_info info_;
  std::vector<train::compared_run> runs_;
};

/// The table of --list: one line for the description of an algorithm, one for its parts.
inline std::string list_text(const std::vector<variant>& known) {
  std::vector<std::array<std::string, 5>> rows{{"name", "remark", "  advantage", "aggregation", "objective"}};
  for (const variant& v : known) rows.push_back({v.name, v.remark, "  " + v.advantage, v.aggregation, v.objective});
  const auto padded = [&](const auto& row, std::size_t i) {
    std::size_t width = 0;
    for (const auto& other : rows) width = std::max(width, other[i].size());
    return row[i] + std::string(width - row[i].size() + 2, ' ');
  };
  std::string out;
  for (const auto& row : rows) out += padded(row, 0) + row[1] + "\n" + padded(row, 2) + padded(row, 3) + row[4] + "\n";
  return out;
}

}  // namespace comparison_program
