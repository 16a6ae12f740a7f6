// A checkpoint of a trainer, ours or verl's FSDP shards, as a Hugging Face folder; the command line is verl's:
//   build/bin/model_merger merge --backend fsdp --local_dir checkpoints/p/e/global_step_10/actor --target_dir model
//   build/bin/model_merger test --backend fsdp --local_dir checkpoints/p/e/global_step_10/actor --test_hf_dir model
#include <cstdio>
#include <string>
#include <vector>

#include "rlcore/config/programs/tools.hpp"
#include "rlcore/train/files/model_merger.hpp"
#include "rlcore/train/run/program.hpp"

int main(int argc, char** argv) {
  using namespace rlcore;
  return train::run_program("model_merger", [&] {
    std::vector<std::string> arguments(argv + (argc > 0 ? 1 : 0), argv + argc);
    std::string operation;
    if (!arguments.empty() && !arguments.front().starts_with('-')) {
      operation = arguments.front();
      arguments.erase(arguments.begin());
    }
    const auto options = train::options::parse(arguments, train::model_merger_registry());
    if (options.answer()) {
      std::fputs(options.answer()->c_str(), stdout);
      return;
    }
    for (const std::string& note : options.notes()) std::puts(note.c_str());
    train::merge_model(train::read_merger_settings(operation, options));
  });
}
