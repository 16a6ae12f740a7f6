// Serves a model as OpenAI's API and vLLM do, with vLLM's flags:
//   build/bin/openai_server --model Qwen/Qwen2.5-0.5B-Instruct --served-model-name auto --port 6380
#include <cstdio>
#include <string>
#include <vector>
#if defined(__GLIBC__)
#include <malloc.h>
#endif

#include "rlcore/config/programs/openai_server.hpp"
#include "rlcore/serving/served_model.hpp"
#include "rlcore/serving/server.hpp"
#include "rlcore/train/run/program.hpp"

int main(int argc, char** argv) {
  using namespace rlcore;
#if defined(__GLIBC__)
  ::mallopt(M_ARENA_MAX, 2);  // a thousand connections have a thread each: more arenas are mostly holes
#endif
  int stopped_by = 0;
  const int code = train::run_program(
      "openai_server",
      [&] {
        const auto options = train::options::parse(
            train::vllm_arguments(std::vector<std::string>(argv + 1, argv + argc)), train::openai_server_registry());
        if (options.answer()) return void(std::fputs(options.answer()->c_str(), stdout));
        const serving::awaited_signals signals;
        const auto devices = serving::open_served_devices(options);
        stopped_by = serving::serve(devices, options, signals);
      },
      "a smaller --gpu-memory-utilization, --max-num-seqs or --max-model-len");
  return stopped_by == 0 ? code : 128 + stopped_by;
}
