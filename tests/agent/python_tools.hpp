// What the tests of tools in Python share.
#pragma once

#include "rlcore/agent/python_host.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "data/scratch.hpp"
#include "rlcore/core/error.hpp"
#include "support/has_python.hpp"

namespace python_tools {

using namespace rlcore;
using namespace std::string_literals;
using json = nlohmann::ordered_json;
using testing::HasSubstr;

inline json schema(const std::string& name) {
  return agent::function_schema(name, "A tool.", {{"x", "string", "Anything."}});
}

/// Every test's tools.
constexpr const char* tool_file = R"py(
import asyncio, json, os, subprocess, sys, time
from typing import Any, Optional
from uuid import uuid4

from verl.tools.base_tool import BaseTool
from verl.tools.schemas import (OpenAIFunctionParametersSchema, OpenAIFunctionPropertySchema, OpenAIFunctionSchema,
                                OpenAIFunctionToolSchema, ToolResponse)
from verl.utils.rollout_trace import rollout_trace_op


class Old(BaseTool):  # as verl 0.5 has them
    def __init__(self, config: dict, tool_schema: OpenAIFunctionToolSchema):
        super().__init__(config, tool_schema)
        self._instances = {}

    async def create(self, instance_id: Optional[str] = None, ground_truth: Optional[str] = None, **kwargs) -> str:
        instance_id = instance_id or str(uuid4())
        self._instances[instance_id] = ground_truth
        return instance_id

    @rollout_trace_op
    async def execute(self, instance_id: str, parameters: dict[str, Any], **kwargs) -> tuple[str, float, dict]:
        return f"{self.name} {parameters['x']} {self._instances[instance_id]}", 0.5, {"seen": 1}

    async def release(self, instance_id: str, **kwargs) -> None:
        del self._instances[instance_id]


class New(BaseTool):  # as verl 0.9 has them
    released = 0

    async def create(self, instance_id=None, **kwargs) -> tuple[str, ToolResponse]:
        self.given = kwargs["create_kwargs"]
        return str(uuid4()), ToolResponse()

    async def execute(self, instance_id, parameters, **kwargs) -> tuple[ToolResponse, float, dict]:
        await asyncio.sleep(0.001)
        text = json.dumps([parameters, self.given, self.config, New.released, len(instance_id)])
        return ToolResponse(text=text), 0.25, {}

    async def release(self, instance_id, **kwargs) -> None:
        New.released += 1


class Strict(BaseTool):  # has no **kwargs
    async def create(self, ground_truth):
        self.ground_truth = ground_truth
        return "id"

    async def execute(self, instance_id, parameters):
        return instance_id + " " + self.ground_truth, 0, {}


class Sync:  # plain methods, no base class
    def __init__(self, config, tool_schema):
        self.name = tool_schema.function.name

    def create(self, instance_id=None):
        return "7"

    def execute(self, instance_id, parameters):
        if parameters["x"] == "stop":
            next(iter([]))
        time.sleep(float(parameters["x"]))
        return self.name + instance_id

    def release(self, instance_id):
        raise RuntimeError("not released")


class OwnSchema(BaseTool):
    def get_openai_tool_schema(self):
        return OpenAIFunctionToolSchema(type="function", function=OpenAIFunctionSchema(
            name="own", description="Has a schema.", parameters=OpenAIFunctionParametersSchema(
                type="object", required=["x"],
                properties={"x": OpenAIFunctionPropertySchema(type="string", description="Anything.")})))


class GivenSchema(BaseTool):
    def get_openai_tool_schema(self):
        return OpenAIFunctionToolSchema.model_validate({
            "type": "function", "more": 1, "function": {
                "name": "given", "description": "D.", "parameters": {
                    "type": "object", "properties": {"x": {"type": "integer", "enum": [1, 2], "default": 1}}}}})


class Do(BaseTool):  # what its argument says
    async def execute(self, instance_id, parameters, **kwargs):
        what = parameters["x"]
        answer = await getattr(self, what.split()[0])(*what.split()[1:])
        return ToolResponse(text=answer) if isinstance(answer, str) or answer is None else answer

    async def say(self, text=None):
        return text

    async def sleep(self, seconds):
        await asyncio.sleep(float(seconds))
        return "slept"

    async def stubborn(self):
        while True:
            try:
                await asyncio.sleep(1000)
            except asyncio.CancelledError:
                pass

    async def block(self, seconds):
        time.sleep(float(seconds))
        return "blocked"

    async def fail(self, kind):
        if kind == "empty":
            raise ValueError
        if kind == "exit":
            sys.exit(4)
        if kind == "cancel":
            raise asyncio.CancelledError
        if kind == "surrogate":
            raise ValueError("a\ud800b")
        return {}[kind]

    async def show(self, text):
        print(text)
        print("\ud800")
        subprocess.run(["echo", "from a child"])
        return "shown"

    async def flood(self):
        for i in range(100):
            print("x" * (1 << 20))
        return "printed"

    async def exit(self, code):
        os._exit(int(code))

    async def pid(self):
        return str(os.getpid())

    async def fork(self, file):
        child = os.fork()
        if child == 0:
            time.sleep(1000)
            os._exit(0)
        more = subprocess.Popen(["sleep", "1000"])
        open(file, "w").write(f"{child} {more.pid}")
        return "forked"

    async def large(self, size, unit="a"):
        return unit * int(size)

    async def image(self):
        return ToolResponse(text="here", image=["not a picture"]), 0.0, {}

    async def video(self):
        return ToolResponse(text="here", video=["not a film"]), 0.0, {}

    async def number(self):
        return 5, 0.0, {}

    async def reward(self, value):
        return "text", float(value), {}

    async def nothing(self):
        return ToolResponse(), None, {}

    async def surrogates(self):
        return "é 日本 😀 \ud800|\ud83d\ude00|\udc00 \x00 \x7f"

    async def read(self):
        return sys.stdin.read() + "end"
)py";

/// A folder with the tools, and a host for some of its classes. Skips the test where there is no Python.
class PythonHost : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_python()) GTEST_SKIP() << "no python3";
    scratch::write(place_ / "host_tools.py", tool_file);
    processes_before_ = children();
    descriptors_before_ = descriptors();
  }
  void TearDown() override {
    host_.reset();
    if (IsSkipped()) return;
    EXPECT_EQ(children(), processes_before_);
    EXPECT_EQ(descriptors(), descriptors_before_);
  }

  static std::size_t descriptors() {
    const std::filesystem::directory_iterator all("/proc/self/fd");
    return static_cast<std::size_t>(std::distance(begin(all), end(all)));
  }

  /// The child processes of this one, zombies included.
  static std::size_t children() {
    std::size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      std::ifstream file(entry.path() / "status");
      for (std::string line; std::getline(file, line);)
        if (line == "PPid:\t" + std::to_string(::getpid())) ++count;
    }
    return count;
  }

  static bool alive(pid_t pid) {
    const std::string status = scratch::read("/proc/" + std::to_string(pid) + "/status");
    return !status.empty() && status.find("State:\tZ") == status.npos;
  }

  std::filesystem::path file() const { return place_ / "tools.yaml"; }

  agent::python_host& open(const std::vector<std::string>& classes, agent::python_host_settings settings = {}) {
    std::vector<agent::tool_entry> entries;
    for (const std::string& c : classes)
      entries.push_back({"host_tools." + c, {{"type", "native"}, {"limit", 3}}, schema(c)});
    return *(host_ = std::make_unique<agent::python_host>(entries, file(), settings));
  }

  agent::python_host& open_do(double timeout_s = 60, std::int64_t processes = 1, double grace_s = 5) {
    return open({"Do"}, {.timeout_s = timeout_s, .processes = processes, .grace_s = grace_s});
  }

  agent::tool_reply call(const std::string& x, std::size_t entry = 0, const json* kwargs = nullptr,
                         std::uint32_t row = 0) {
    return host_->call(entry, {.name = "t", .arguments = {{"x", x}}, .kwargs = kwargs, .row = row});
  }

  std::string text(const std::string& x) { return call(x).text; }

  /// The text of the tool_error of a call.
  std::string failure(const std::string& x, std::uint32_t row = 0) {
    return scratch::error_of<agent::tool_error>([&] { call(x, 0, nullptr, row); });
  }

  std::string counts() const {
    const agent::host_counts c = host_->counts();
    return std::to_string(c.calls) + " calls, " + std::to_string(c.errors) + " errors, " + std::to_string(c.timeouts) +
           " timeouts, " + std::to_string(c.restarts) + " restarts";
  }

  scratch::folder place_;
  std::unique_ptr<agent::python_host> host_;
  std::size_t processes_before_ = 0, descriptors_before_ = 0;
};

}  // namespace python_tools
