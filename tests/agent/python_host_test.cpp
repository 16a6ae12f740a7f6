// Tools in Python: verl's interface, failures and limits.
#include "agent/python_tools.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace python_tools;

TEST_F(PythonHost, a_tool_of_verl_0_5_gets_the_rows_values_one_by_one) {
  open({"Old"});
  const json kwargs{{"ground_truth", "42"}, {"instance_id", "mine"}, {"self", 1}};
  const agent::tool_reply reply = call("é", 0, &kwargs);
  EXPECT_EQ(reply.text, "Old é 42");
  EXPECT_EQ(reply.reward, 0.5);
  EXPECT_EQ(call("b").text, "Old b None");
}

TEST_F(PythonHost, a_tool_of_verl_0_9_gets_the_rows_values_in_one_dict_and_is_released) {
  open({"New"});
  const json kwargs{{"ground_truth", {1, 2.5, nullptr}}};
  const agent::tool_reply reply = call("a", 0, &kwargs);
  EXPECT_EQ(reply.text, R"([{"x": "a"}, {"ground_truth": [1, 2.5, null]}, {"type": "native", "limit": 3}, 0, 36])");
  EXPECT_EQ(reply.reward, 0.25);
  EXPECT_EQ(call("b").text, R"([{"x": "b"}, {}, {"type": "native", "limit": 3}, 1, 36])");
}

TEST_F(PythonHost, a_tool_without_further_parameters_gets_those_that_it_has) {
  open({"Strict"});
  const json kwargs{{"ground_truth", "42"}, {"other", 1}};
  EXPECT_EQ(call("a", 0, &kwargs).text, "id 42");
  EXPECT_THAT(failure("a"), HasSubstr("missing 1 required positional argument: 'ground_truth'"));
}

TEST_F(PythonHost, plain_methods_run_in_threads_and_may_answer_a_plain_text) {
  open({"Sync"}, {.timeout_s = 1, .grace_s = 0.5});
  const auto begin = std::chrono::steady_clock::now();
  std::vector<std::thread> callers;
  for (int i = 0; i < 8; ++i) callers.emplace_back([&] { EXPECT_EQ(call("0.5").text, "Sync7"); });
  for (std::thread& t : callers) t.join();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(3));
  EXPECT_THAT(failure("stop"), HasSubstr("StopIteration"));
  EXPECT_EQ(failure("1.2"), "timed out after 1 s");  // ends within the grace
  EXPECT_EQ(counts(), "10 calls, 1 errors, 1 timeouts, 0 restarts");
  EXPECT_EQ(failure("1000"), "timed out after 1 s");
  EXPECT_EQ(text("0"), "Sync7");
  EXPECT_EQ(counts(), "12 calls, 1 errors, 2 timeouts, 1 restarts");
}

TEST_F(PythonHost, several_tools_share_the_processes) {
  open({"Old", "Do"}, {.processes = 3});
  EXPECT_EQ(call("b", 0).text, "Old b None");
  std::set<std::string> pids;
  for (std::uint32_t row = 0; row < 40; ++row) {
    const std::string pid = call("pid", 1, nullptr, row).text;
    EXPECT_EQ(call("pid", 1, nullptr, row).text, pid);  // a row stays in its process
    pids.insert(pid);
  }
  EXPECT_EQ(pids.size(), 3u);
}

TEST_F(PythonHost, a_late_call_is_cancelled) {
  open_do(0.5);
  EXPECT_EQ(text("pid"), text("pid"));
  const std::string pid = text("pid");
  EXPECT_EQ(failure("sleep 1000"), "timed out after 0.5 s");
  EXPECT_EQ(text("pid"), pid);
  EXPECT_EQ(counts(), "5 calls, 0 errors, 1 timeouts, 0 restarts");
}

TEST_F(PythonHost, a_process_that_does_not_react_is_killed_and_its_other_calls_end) {
  open_do(1, 1, 0.5);
  for (const char* how : {"block 1000", "stubborn"}) {
    std::thread late([&] { EXPECT_EQ(failure(how), "timed out after 1 s"); });
    std::this_thread::sleep_for(std::chrono::milliseconds(800));
    EXPECT_EQ(failure("sleep 1000"), "the tool's process was stopped, since another call in it did not end");
    late.join();
    EXPECT_EQ(text("say again"), "again");
  }
  EXPECT_EQ(counts(), "6 calls, 2 errors, 2 timeouts, 2 restarts");
}

TEST_F(PythonHost, the_model_reads_the_text_of_an_exception) {
  open_do();
  EXPECT_EQ(failure("fail key"), "'key'");
  EXPECT_EQ(failure("fail empty"), "ValueError");
  EXPECT_EQ(failure("fail exit"), "SystemExit: 4");
  EXPECT_EQ(failure("fail cancel"), "CancelledError");
  EXPECT_EQ(failure("fail surrogate"), "a\uFFFDb");
  EXPECT_EQ(failure("unknown"), "'Do' object has no attribute 'unknown'");
  EXPECT_EQ(scratch::error_of<agent::tool_error>([&] { host_->call(0, {.name = "t", .arguments = 5}); }),
            "'int' object is not subscriptable");
  EXPECT_EQ(counts(), "7 calls, 7 errors, 0 timeouts, 0 restarts");
}

TEST_F(PythonHost, prints_go_to_standard_error_up_to_a_limit) {
  testing::internal::CaptureStderr();
  open_do();
  EXPECT_EQ(text("show visible"), "shown");
  EXPECT_EQ(text("flood"), "printed");
  EXPECT_EQ(text("show hidden"), "shown");
  host_.reset();
  const std::string printed = testing::internal::GetCapturedStderr();
  EXPECT_THAT(printed, HasSubstr("visible\n\\ud800\nfrom a child\n"));
  EXPECT_THAT(printed, HasSubstr("rlcore: the tools have printed more than 1 MiB; the rest is not shown\n"));
  EXPECT_EQ(printed.find("hidden"), printed.npos);
  EXPECT_GT(printed.size(), 1u << 20);
  EXPECT_LT(printed.size(), (1u << 20) + 1000);
}

TEST_F(PythonHost, standard_input_is_empty) {
  open_do();
  EXPECT_EQ(text("read"), "end");
  EXPECT_EQ(text("say on"), "on");
}

TEST_F(PythonHost, the_third_end_without_an_answer_ends_the_run) {
  open_do();
  const std::string ended = "the tool's process ended: exit code 3";
  EXPECT_EQ(failure("exit 3"), ended);
  EXPECT_EQ(failure("exit 3"), ended);
  EXPECT_EQ(text("say alive"), "alive");
  EXPECT_EQ(failure("exit 3"), ended);
  EXPECT_EQ(failure("exit 3"), ended);
  try {
    call("exit 3");
    ADD_FAILURE() << "nothing was thrown";
  } catch (const agent::tool_error& e) {
    ADD_FAILURE() << e.what();
  } catch (const error& e) {
    EXPECT_EQ(e.what(),
              file().string() + ": the process of the tools ended 3 times without an answer in between: exit code 3");
  }
  EXPECT_EQ(text("say alive"), "alive");
  EXPECT_EQ(failure("exit 3"), ended);
  EXPECT_EQ(counts(), "8 calls, 5 errors, 0 timeouts, 5 restarts");
}

TEST_F(PythonHost, children_of_a_tool_end_with_its_process) {
  open_do();
  for (const bool killed : {false, true}) {
    const std::string pids = (place_ / "pids").string();
    EXPECT_EQ(text("fork " + pids), "forked");
    pid_t first = 0, second = 0;
    std::ifstream(pids) >> first >> second;
    EXPECT_TRUE(alive(first));
    EXPECT_TRUE(alive(second));
    if (killed)
      EXPECT_EQ(failure("exit 3"), "the tool's process ended: exit code 3");  // is seen although they hold its pipes
    else
      EXPECT_EQ(open_do().counts().calls, 0);
    for (int i = 0; i < 500 && (alive(first) || alive(second)); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    EXPECT_FALSE(alive(first));
    EXPECT_FALSE(alive(second));
  }
}

TEST_F(PythonHost, replies_may_be_long_and_hold_any_text) {
  open_do();
  EXPECT_EQ(text("large 5000000"), std::string(5'000'000, 'a'));
  EXPECT_EQ(text("large 50000000 😀").size(), 4u * (10 << 20));
  EXPECT_EQ(text("large 50000000 \x01").size(), 10u << 20);
  EXPECT_EQ(text("surrogates"), "é 日本 😀 \uFFFD|😀|\uFFFD \0 \x7f"s);
  EXPECT_EQ(call("say \xff").text, "\uFFFD");
}

TEST_F(PythonHost, what_is_no_reply_is_an_error) {
  open_do();
  EXPECT_EQ(failure("image"), "images in tool replies are not supported");
  EXPECT_EQ(failure("video"), "videos in tool replies are not supported");
  EXPECT_EQ(failure("number"), "execute() returned int; expected (ToolResponse or text, reward, metrics)");
  EXPECT_EQ(failure("reward nan"), "the reward of the call is nan");
  EXPECT_EQ(call("reward -2").reward, -2);
  EXPECT_EQ(text("nothing"), "");
}

}  // namespace
}  // namespace RLCORE_TEST_ID
