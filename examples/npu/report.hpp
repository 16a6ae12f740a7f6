// Report archive of an NPU machine: every part runs in a separate process, so that a crash or hang loses only its own
// results.
#pragma once

#include <fcntl.h>
#include <spawn.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "rlcore/core/error.hpp"
#include "rlcore/core/version.hpp"
#include "rlcore/text/parse_json.hpp"

extern char** environ;  // of POSIX, which declares it nowhere

namespace npu_report {

namespace fs = std::filesystem;
using nlohmann::json;
using command = std::vector<std::string>;

/// A temporary folder, deleted at the end.
class scratch_folder {
 public:
  scratch_folder() {
    std::string name = (fs::temp_directory_path() / "npu-report-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw rlcore::file_error("cannot make " + name + ": " + std::strerror(errno));
    path_ = name;
  }
  scratch_folder(const scratch_folder&) = delete;
  scratch_folder& operator=(const scratch_folder&) = delete;
  ~scratch_folder() {
    std::error_code ignored;
    fs::current_path("/", ignored);
    fs::remove_all(path_, ignored);
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

inline std::string content_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// Runs a program, what it prints in `out` and `err`, for `minutes` at most; "exit code 0", or how it ended.
inline std::string run(const command& arguments, const fs::path& out, const fs::path& err, int minutes) {
  std::vector<char*> argv;
  for (const std::string& a : arguments) argv.push_back(const_cast<char*>(a.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  constexpr int flags = O_WRONLY | O_CREAT | O_TRUNC;
  posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&files, 1, out.c_str(), flags, 0644);
  posix_spawn_file_actions_addopen(&files, 2, err.c_str(), flags, 0644);
  pid_t child = 0;
  const int refused = posix_spawnp(&child, argv.front(), &files, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  if (refused != 0) return "cannot be started: " + std::string(std::strerror(refused));
  int status = 0;
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(minutes);
  while (waitpid(child, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > end) {
      kill(child, SIGKILL);
      waitpid(child, &status, 0);
      return "ended after " + std::to_string(minutes) + " minutes";
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return WIFEXITED(status) ? "exit code " + std::to_string(WEXITSTATUS(status))
                           : "signal " + std::to_string(WTERMSIG(status));
}

/// The command line.
struct request {
  fs::path file;
  bool emulator = false;
  int device = 0;
};

class archive {
 public:
  explicit archive(request r) : asked_(std::move(r)) {
    asked_.file = fs::absolute(asked_.file);
    check_place();
    const fs::path bin = fs::read_symlink("/proc/self/exe").parent_path();
    for (const char* name : {"npu_doctor", "npu_golden", "quickstart", "grpo_trainer"}) {
      if (!fs::exists(bin / name))
        throw rlcore::config_error("--report needs " + (bin / name).string() +
                                   ", which is not there; build it with "
                                   "cmake --build build --target " +
                                   name);
      programs_[name] = (bin / name).string();
    }
  }

  /// 0 if every part ended well.
  int write() {
    const std::string device = std::to_string(asked_.device), provider = asked_.emulator ? "emulator" : "cann";
    fs::create_directories(root_);
    fs::create_directories(root_ / "cann_log");
    fs::current_path(root_);
    setenv("ASCEND_PROCESS_LOG_PATH", (root_ / "cann_log").c_str(), 1);  // CANN's own log
    unsetenv("RLCORE_NPU_TRACE");                                        // one file would be written by every part

    command doctor{programs_["npu_doctor"], "--device", device, "--timings", "--json", "doctor.json"};
    if (asked_.emulator) doctor.emplace_back("--emulator");
    part("doctor", doctor, 20);
    const json found = rlcore::text::try_parse_json(content_of("doctor.json"));
    if (found.is_discarded() || !found.value("has_device", false)) {
      std::fputs(content_of("doctor.txt").c_str(), stdout);
      throw rlcore::device_error("--report: no device to report on, nothing was written");
    }
    part("golden", {programs_["npu_golden"], "record", "golden", "--provider", provider, "--device", device}, 20);
    part("golden_against_emulator", {programs_["npu_golden"], "replay", "golden", "--provider", "emulator"}, 20);
    part("task", {programs_["quickstart"], "--task_only", "quickstart.warm_start_steps=60"}, 20);
    part("grpo", grpo(), 30);
    about();
    return pack();
  }

 private:
  void check_place() const {
    const std::string name = asked_.file.filename().string();
    if (!name.ends_with(".tar") && !name.ends_with(".tar.gz"))
      throw rlcore::config_error("--report expects the name of a .tar.gz or .tar file, not '" + name + "'");
    if (fs::is_directory(asked_.file))
      throw rlcore::file_error("cannot write " + asked_.file.string() + ": it is a folder");
    const std::string probe = partial();  // checked now, not after all the work
    const int file = open(probe.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (file < 0 && errno != EEXIST)
      throw rlcore::file_error("cannot write " + asked_.file.string() + ": " + std::strerror(errno));
    if (file >= 0) {
      close(file);
      unlink(probe.c_str());
    }
  }
  std::string partial() const { return asked_.file.string() + ".partial"; }

  /// Three GRPO steps on the new task, with a log of all calls of Ascend's functions.
  command grpo() {
    command all{programs_["grpo_trainer"], asked_.emulator ? "trainer.device=npu_emulator" : "trainer.device=npu"};
    for (const char* setting : {"data.train_files=runs/quickstart/data/train.jsonl",
                                "data.val_files=runs/quickstart/data/test.jsonl",
                                "actor_rollout_ref.model.path=runs/quickstart/model",
                                "data.train_batch_size=8",
                                "data.max_prompt_length=128",
                                "data.max_response_length=20",
                                "actor_rollout_ref.rollout.n=4",
                                "actor_rollout_ref.actor.optim.lr=3e-4",
                                "actor_rollout_ref.actor.ppo_mini_batch_size=4",
                                "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=8",
                                "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=16",
                                "algorithm.adv_estimator=grpo",
                                "actor_rollout_ref.actor.use_kl_loss=True",
                                "trainer.total_training_steps=3",
                                "trainer.test_freq=-1",
                                "trainer.save_freq=-1",
                                "trainer.val_before_train=False",
                                "trainer.resume_mode=disable",
                                "trainer.logger=[console,file]",
                                "trainer.default_local_dir=grpo",
                                "trainer.rollout_data_dir=grpo/rollouts",
                                "rlcore.npu.trace=grpo_calls.txt"})
      all.emplace_back(setting);
    all.push_back("rlcore.npu.device=" + std::to_string(asked_.device));
    return all;
  }

  void part(const std::string& name, const command& line, int minutes) {
    std::printf("%-24s ", name.c_str());
    std::fflush(stdout);
    const auto start = std::chrono::steady_clock::now();
    const std::string ended = run(line, root_ / (name + ".txt"), root_ / (name + ".err"), minutes);
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
    const bool good = ended == "exit code 0";
    failed_ += good ? 0 : 1;
    std::string shown;
    for (const std::string& word : line) shown += (shown.empty() ? fs::path(word).filename().string() : " " + word);
    parts_.push_back({{"name", name}, {"command", shown}, {"ended", ended}, {"seconds", spent.count()}});
    const std::string said = content_of(root_ / (name + ".err"));
    const std::string why = said.substr(0, said.find('\n'));
    std::printf("%s, %.1f s%s\n", ended.c_str(), spent.count(), good || why.empty() ? "" : (": " + why).c_str());
    std::fflush(stdout);
  }

  void about() const {
    utsname system{};
    uname(&system);
    const json all{{"format", 1},
                   {"rlcore", RLCORE_VERSION_STRING},
                   {"compiler", __VERSION__},
                   {"system", std::string(system.sysname) + " " + system.release + " " + system.machine},
                   {"emulated", asked_.emulator},
                   {"device", asked_.device},
                   {"parts", parts_}};
    std::ofstream file("about.json");
    file << all.dump(2) << '\n';
    if (!file.flush()) throw rlcore::file_error("cannot write " + (root_ / "about.json").string());
  }

  int pack() const {
    const fs::path said = work_.path() / "tar.err";
    command tar{"tar",
                asked_.file.string().ends_with(".gz") ? "-czf" : "-cf",
                partial(),
                "-C",
                work_.path().string(),
                root_.filename().string()};
    const std::string ended = run(tar, "/dev/null", said, 20);
    std::error_code failed;
    if (ended == "exit code 0") fs::rename(partial(), asked_.file, failed);
    if (ended != "exit code 0" || failed) {
      std::string why = failed ? failed.message() : content_of(said);
      why = why.substr(0, why.find('\n'));
      unlink(partial().c_str());
      throw rlcore::file_error("cannot write " + asked_.file.string() + ": tar: " + (why.empty() ? ended : why));
    }
    std::printf("%s: %.1f MB%s\n", asked_.file.c_str(), static_cast<double>(fs::file_size(asked_.file)) * 1e-6,
                asked_.emulator ? ", of the emulated machine: modelled, no hardware" : "");
    if (failed_ > 0) std::printf("%d parts did not end well: that, too, is worth sending\n", failed_);
    return failed_ == 0 ? 0 : 1;
  }

  request asked_;
  scratch_folder work_;
  fs::path root_ = work_.path() / "npu-report";
  std::map<std::string, std::string> programs_;
  json parts_ = json::array();
  int failed_ = 0;
};

}  // namespace npu_report
