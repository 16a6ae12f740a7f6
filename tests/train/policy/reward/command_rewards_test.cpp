// External reward programs: what they may answer, and everything that can go wrong with them.
#include "rlcore/train/policy/reward/command_rewards.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <chrono>
#include <fstream>

#include "data/scratch.hpp"
#include "rlcore/config/grammar/override.hpp"
#include "rlcore/telemetry/metric_names.hpp"
#include "rlcore/text/train_bpe.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using train::external_reward;
using train::trajectory;
using strings = std::vector<std::string>;

class command_rewards : public testing::Test {
 protected:
  command_rewards() {
    for (int i = 0; i < 40; ++i) {
      data::prompt p;
      p.data_source = "mine", p.ground_truth = std::to_string(i), p.extra = {{"index", i}, {"text", "\"\n\\"}};
      prompts.prompts.push_back(p);
    }
  }
  /// Scores `count` responses "#### <row>".
  std::vector<trajectory> score(train::command_rewards& source, std::uint32_t count = 5) const {
    std::vector<trajectory> batch(count);
    for (std::uint32_t i = 0; i < count; ++i) {
      trajectory& t = batch[i];
      t.row = i, t.tokens = {0}, t.prompt_length = 1;
      for (const std::int32_t id : tokenizer.encode("#### " + std::to_string(i))) t.tokens.push_back(id);
    }
    source.score(batch, prompts, tokenizer);
    return batch;
  }
  std::vector<trajectory> score(const external_reward& how, std::uint32_t count = 5) const {
    train::command_rewards source(how);
    return score(source, count);
  }
  std::string failure(const std::string& command, double timeout = 20) const {
    try {
      score(external_reward{.command = command, .timeout = timeout});
    } catch (const error& e) {
      return e.what();
    }
    return "no failure";
  }
  /// Waits for the end of the process whose number is in a file.
  static void expect_death(const std::string& file) {
    pid_t left = 0;
    std::ifstream(file) >> left;
    ASSERT_GT(left, 0);
    for (int i = 0; i < 6000 && ::kill(left, 0) == 0; ++i) {  // perhaps not yet reaped by the process that adopted it
      std::ifstream stat("/proc/" + std::to_string(left) + "/stat");
      std::string number, name, state;
      if (stat >> number >> name >> state && state == "Z") break;
      ASSERT_LT(i, 5999) << "the command's own child lives on";
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
  static std::vector<float> rewards(const std::vector<trajectory>& batch) {
    std::vector<float> all;
    for (const trajectory& t : batch) all.push_back(t.reward);
    return all;
  }
  std::string file(const std::string& name, const std::string& text, bool executable = false) const {
    scratch::write(place / name, text);
    if (executable) std::filesystem::permissions(place / name, std::filesystem::perms::owner_all);
    return (place / name).string();
  }

  const scratch::folder place;
  const text::tokenizer tokenizer =
      text::train_bpe(strings{"#### 0123456789"}, 261, strings{"<|endoftext|>", "<|im_start|>", "<|im_end|>"});
  data::prompt_dataset prompts;
};

TEST_F(command_rewards, answers_are_numbers_or_objects) {
  const auto batch = score(external_reward{
      .command = "for a in 1 -0.5 true '{\"score\": 2.5, \"acc\": true, \"pred\": \"x\", \"more\": [1]}' "
                 "'{\"score\": 0, \"acc\": 0.25, \"pred\": 7}'; do read line; echo \"$a\"; done"});
  EXPECT_EQ(rewards(batch), (std::vector<float>{1, -0.5, 1, 2.5, 0}));
  EXPECT_FALSE(batch[0].accuracy);
  EXPECT_EQ(batch[3].accuracy, 1.0);
  EXPECT_EQ(batch[3].verdict.pred, "x");
  EXPECT_EQ(batch[4].accuracy, 0.25);
  EXPECT_EQ(batch[4].verdict.pred, "7");
}

TEST_F(command_rewards, a_program_reads_one_json_line_per_response) {
  const std::string seen = (place / "seen").string();
  score(external_reward{.path = file("score.sh",
                                     "#!/bin/sh\nwhile read -r line; do printf '%s\\n' \"$line\" >> " + seen +
                                         "; echo 1; done\n",
                                     true)},
        2);
  const auto request = [](int i) {
    const std::string n = std::to_string(i);
    return R"({"data_source":"mine","solution_str":"#### )" + n + R"(","ground_truth":")" + n +
           R"(","extra_info":{"index":)" + n + R"(,"text":"\"\n\\"},"index":)" + n + "}\n";
  };
  EXPECT_EQ(scratch::read(seen), request(0) + request(1));
}

TEST_F(command_rewards, every_failure_has_one_line) {
  const std::string begins = "rlcore.reward_command=", first = " for response 1 of 5 (data_source 'mine')";
  EXPECT_EQ(failure("exit 3"), begins + "exit 3 ended (exit code 3) before it answered" + first);
  EXPECT_EQ(failure("kill -SEGV $$"),
            begins + "kill -SEGV $$ ended (signal 11 (Segmentation fault)) before it answered" + first);
  EXPECT_NE(failure("nosuchprogram 2>/dev/null").find("ended (exit code 127) before it answered"), std::string::npos);
  EXPECT_EQ(failure("exec 1>&-; sleep 0.1; exit 0"),
            begins + "exec 1>&-; sleep 0.1; exit 0 ended (exit code 0) before it answered" + first);
  EXPECT_NE(failure("read a; echo 1; read a; echo 1").find("before it answered for response 3 of 5"),
            std::string::npos);
  EXPECT_EQ(failure("sleep 20", 0.1), begins + "sleep 20 gave no answer within 0.1 s (rlcore.reward_timeout)" + first);
  EXPECT_NE(failure("read a; echo; cat").find("answered ''; expected a finite number or an object"), std::string::npos);
  for (const char* garbage :
       {"hello", "NaN", "1e999", "1e300", "-4e38", "null", "[1]", "\\\"1\\\"", "{}", "{\\\"score\\\":null}",
        "{\\\"score\\\":\\\"1\\\"}", "{\\\"score\\\":NaN}", "{\\\"score\\\":1,\\\"acc\\\":[]}"})
    EXPECT_NE(
        failure("read -r a; echo \"" + std::string(garbage) + "\"; cat > /dev/null").find("; expected a finite number"),
        std::string::npos)
        << garbage << ": " << failure("read -r a; echo \"" + std::string(garbage) + "\"; cat > /dev/null");
  EXPECT_NE(failure("read -r a; printf '%s\\n' '{\"error\": \"no\\nway\"}'; cat >/dev/null")
                .find("failed: no\\nway for response 1"),
            std::string::npos);
  EXPECT_NE(failure("read -r a; head -c 3000000 /dev/zero; cat > /dev/null")
                .find("answered more than 1048576 bytes without a line end"),
            std::string::npos);
  for (const char* command : {"exit 3", "sleep 20", "echo hello"})
    EXPECT_EQ(failure(command, 0.1).find('\n'), std::string::npos);
}

TEST_F(command_rewards, a_line_too_many_shifts_no_reward) {
  for (const char* command : {"while read a; do printf '1\\n2\\n'; done", "echo 0; while read a; do echo 1; done",
                              "n=0; while read a; do echo 1; n=$((n+1)); test $n = 2 && echo 5; done; sleep 0.2",
                              "while read a; do echo 1; done; echo 7"})
    EXPECT_NE(failure(command).find("wrote more lines than there were responses"), std::string::npos) << command;
  const std::string late = "read a; echo 1; read a; echo 1; read a; echo 1; read a; echo 1; read a; echo 1; sleep 20";
  EXPECT_NE(failure(late, 0.3).find("did not end within 0.3 s"), std::string::npos);
  train::command_rewards source(
      external_reward{.command = "echo 0; while read a; do echo 1; done", .zero_on_failure = true});
  EXPECT_EQ(rewards(score(source, 4)), std::vector<float>(4, 0));
}

TEST_F(command_rewards, answers_with_an_index_belong_to_their_request) {
  const std::string starts = (place / "starts").string(),
                    mine = R"(while read -r a; do n=${a##*:}; n=${n%\}}; echo "{\"index\": $n, \"score\": $n}"; )";
  train::command_rewards source(external_reward{.command = "echo >> " + starts + "; " + mine + "done"});
  for (int step = 0; step < 3; ++step) EXPECT_EQ(rewards(score(source, 3)), (std::vector<float>{0, 1, 2}));
  EXPECT_EQ(scratch::read(starts), "\n");  // one process for all steps
  const std::string twice = R"(test $n = 1 && echo '{"index": 1, "score": 9}'; done)";
  EXPECT_NE(failure(mine + twice).find("answered for another response for response 3 of 5"), std::string::npos)
      << failure(mine + twice);
}

TEST_F(command_rewards, failures_may_count_zero) {
  train::command_rewards source(
      external_reward{.command = "read a; echo 1; read a; echo what; read a; echo 3; exit 1", .zero_on_failure = true});
  EXPECT_EQ(rewards(score(source, 8)), (std::vector<float>{1, 0, 3, 0, 1, 0, 3, 0}));
  train::metrics m;
  source.report(m);
  EXPECT_EQ(m.get("reward/failed"), 0.5);
  for (const auto& [name, x] : m) EXPECT_TRUE(train::is_defined_metric(name)) << name;
  train::command_rewards dead(external_reward{.command = "exit 1", .zero_on_failure = true});
  EXPECT_THROW(score(dead), data_error);  // nothing ever answers
}

TEST_F(command_rewards, much_text_in_both_directions) {
  for (data::prompt& p : prompts.prompts) p.extra["text"] = std::string(30000, 'x');
  const std::string read = "head -n 40 > /dev/null; ",
                    write =
                        "x=$(head -c 30000 /dev/zero | tr '\\0' x); i=0; while [ $i -lt 40 ]; do echo "
                        "'{\"score\":1,\"pred\":\"'$x'\"}'; i=$((i+1)); done; ";
  for (const std::string& command : {read + write, "head -c 1 > /dev/null; " + write + "cat > /dev/null"}) {
    const auto batch = score(external_reward{.command = command}, 40);
    EXPECT_EQ(rewards(batch), std::vector<float>(40, 1));
    EXPECT_EQ(batch[39].verdict.pred, std::string(30000, 'x'));
  }
}

TEST_F(command_rewards, no_process_is_left) {
  const std::string pid = (place / "pid").string();
  {
    train::command_rewards source(external_reward{
        .command = "sleep 300 & echo $! > " + pid +
                   "; trap '' TERM; read a; echo '{\"index\": 0, \"score\": 1}'; while :; do sleep 1; done"});
    score(source, 1);
  }
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);  // no zombie, no child
  expect_death(pid);
}

TEST_F(command_rewards, no_process_outlives_a_killed_run) {
  const std::string pid = (place / "pid").string();
  const pid_t run = ::fork();
  if (run == 0) {
    agent::line_process program({"/bin/sh", "-c", "sleep 300 & echo $! > " + pid + "; echo ready; wait"});
    std::string line;
    program.read_line(line, 20);
    ::kill(::getpid(), SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(run, &status, 0), run);
  EXPECT_TRUE(WIFSIGNALED(status));
  expect_death(pid);
}

TEST_F(command_rewards, files_that_cannot_be_run) {
  const auto refusal = [&](const std::string& path, const std::string& function = "compute_score") -> std::string {
    try {
      train::command_rewards source(external_reward{.path = path, .function = function});
    } catch (const error& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_NE(refusal((place / "nosuch").string()).find("no such file"), std::string::npos);
  EXPECT_NE(refusal(file("plain.sh", "#!/bin/sh\n")).find("not executable"), std::string::npos);
  EXPECT_NE(refusal(file("bad.sh", "#!/no/such/shell\n", true)).find("cannot run"), std::string::npos);
  if (std::system("python3 -c 'import json' > /dev/null 2>&1") != 0) GTEST_SKIP() << "no python3";
  EXPECT_NE(refusal(file("syntax.py", "def compute_score(:\n")).find("failed: SyntaxError"), std::string::npos);
  EXPECT_NE(refusal(file("other.py", "x = 1\n")).find("no attribute 'compute_score'"), std::string::npos);
  EXPECT_NE(refusal(file("exits.py", "import sys\nsys.exit(2)\n")).find("failed: SystemExit: 2"), std::string::npos);
}

TEST_F(command_rewards, functions_of_verl) {
  if (std::system("python3 -c 'import json' > /dev/null 2>&1") != 0) GTEST_SKIP() << "no python3";
  const std::string path =
      file("score.py",
           "def compute_score(data_source, solution_str, ground_truth, extra_info, bonus=0):\n"
           "  print('seen', file=__import__('os').fdopen(__import__('os').dup(1), 'w'))\n"
           "  right = solution_str == '#### ' + ground_truth and data_source == 'mine'\n"
           "  if extra_info['index'] == 3: return {'score': -1.5, 'acc': right, 'pred': solution_str}\n"
           "  return right + bonus\n"
           "def fails(data_source, solution_str, ground_truth, extra_info):\n"
           "  raise KeyError('two\\nlines')\n"
           "def lists(data_sources, solution_strs, ground_truths, extra_infos):\n"
           "  return [len(data_sources) + float(t) for t in ground_truths]\n"
           "import asyncio\n"
           "gate = asyncio.Semaphore(1)\n"
           "async def later(data_source, solution_str, ground_truth, extra_info):\n"
           "  async with gate:\n"
           "    await asyncio.sleep(0)\n"
           "    return {'score': float(ground_truth), 'pred': 'x'}\n"
           "async def later_lists(data_sources, solution_strs, ground_truths, extra_infos):\n"
           "  return await asyncio.gather(*(later(*row) for row in zip(data_sources, solution_strs, ground_truths, "
           "extra_infos)))\n");
  const auto batch = score(
      external_reward{.path = path, .function = "compute_score", .arguments = train::parse_value("{bonus: 0.5}")});
  EXPECT_EQ(rewards(batch), (std::vector<float>{1.5, 1.5, 1.5, -1.5, 1.5}));
  EXPECT_EQ(batch[3].accuracy, 1.0);
  EXPECT_EQ(batch[3].verdict.pred, "#### 3");
  EXPECT_EQ(rewards(score(external_reward{.path = path, .function = "lists", .whole_batch = true}, 3)),
            (std::vector<float>{3, 4, 5}));
  for (const bool whole : {false, true}) {  // verl awaits such functions
    const auto awaited =
        score(external_reward{.path = path, .function = whole ? "later_lists" : "later", .whole_batch = whole}, 3);
    EXPECT_EQ(rewards(awaited), (std::vector<float>{0, 1, 2}));
    EXPECT_EQ(awaited[2].verdict.pred, "x");
  }
  try {
    score(external_reward{.path = path, .function = "fails"});
    ADD_FAILURE();
  } catch (const data_error& e) {
    EXPECT_NE(std::string(e.what()).find("failed: KeyError: 'two"), std::string::npos) << e.what();
    EXPECT_EQ(std::string(e.what()).find('\n'), std::string::npos);
  }
}

}  // namespace
}  // namespace RLCORE_TEST_ID
