// Evaluation: accuracy of a model on problems with known answers, or of stored responses:
//   build/bin/evaluate model.path=Qwen/Qwen2.5-0.5B-Instruct data.files=test.parquet rollout.n=4 rollout.temperature=1
//   build/bin/evaluate responses=rollouts/10.jsonl rule=gsm8k
//   build/bin/evaluate --server http://127.0.0.1:6380 model.path=Qwen/Qwen2.5-0.5B-Instruct data.files=test.parquet
#include <cstdio>

#include "rlcore/config/programs/evaluate.hpp"
#include "rlcore/train/ranks/ranks.hpp"
#include "rlcore/train/run/program.hpp"
#include "rlcore/train/run/trainers.hpp"

int main(int argc, char** argv) {
  using namespace rlcore;
  return train::run_program("evaluate", [&] {
    const auto options = train::options::parse(argc, argv, train::evaluate_registry());
    if (options.answer()) {
      std::fputs(options.answer()->c_str(), stdout);
      return;
    }
    if (!options.list("responses").empty()) {
      train::evaluate<any_device>(nullptr, options);
      return;
    }
    if (options.is_set("server")) {
#if RLCORE_HAS_SERVER
      return train::evaluate_by_server(options);
#else
      throw config_error("server= needs a build with cpp-httplib (Debian package libcpp-httplib-dev)");
#endif
    }
    train::on_ranks(
        options, [&](any_device& device, parallel::any_communicator& all) { train::evaluate(&device, options, &all); });
  });
}
