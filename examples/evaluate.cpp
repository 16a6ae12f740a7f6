// Evaluation: accuracy of a model on problems with known answers, or of stored responses:
//   build/bin/evaluate model.path=Qwen/Qwen2.5-0.5B-Instruct data.files=test.parquet rollout.n=4 rollout.temperature=1
//   build/bin/evaluate responses=rollouts/10.jsonl rule=gsm8k
//   build/bin/evaluate --server http://127.0.0.1:6380 model.path=Qwen/Qwen2.5-0.5B-Instruct data.files=test.parquet
#include <cstdio>

#include "rlcore/config/programs/evaluate.hpp"
#include "rlcore/trainer/program.hpp"
#include "rlcore/trainer/trainers.hpp"
#include "rlcore/training/ranks/ranks.hpp"

int main(int argc, char** argv) {
  using namespace rlcore;
  return trainer::run_program("evaluate", [&] {
    const auto options = trainer::options::parse(argc, argv, trainer::evaluate_registry());
    if (options.answer()) {
      std::fputs(options.answer()->c_str(), stdout);
      return;
    }
    if (!options.list("responses").empty()) {
      trainer::evaluate<any_device>(nullptr, options);
      return;
    }
    if (options.is_set("server")) {
#if RLCORE_HAS_SERVER
      return trainer::evaluate_by_server(options);
#else
      throw config_error("server= needs a build with cpp-httplib (Debian package libcpp-httplib-dev)");
#endif
    }
    trainer::on_ranks(options, [&](any_device& device, parallel::any_communicator& all) {
      trainer::evaluate(&device, options, &all);
    });
  });
}
