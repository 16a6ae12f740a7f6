// main() of a trainer.
#pragma once

#include <cstdio>
#include <functional>

#include "rlcore/config/options.hpp"
#include "rlcore/config/registry.hpp"
#include "rlcore/trainer/program.hpp"
#include "rlcore/training/ranks/ranks.hpp"

RLCORE_BEGIN
namespace trainer {

/// Reads the command line by `known`, answers --help and the like, opens the device on every rank of this process, and
/// calls train(device, options, ranks) there. Returns the exit code of main, as run_program().
inline int trainer_main(int argc, char** argv, const registry& known,
                        const std::function<void(any_device&, const options&, parallel::any_communicator&)>& train) {
  return run_program(known.program.c_str(), [&] {
    const options opt = options::parse(argc, argv, known);
    if (opt.answer()) {
      std::fputs(opt.answer()->c_str(), stdout);
      return;
    }
    on_ranks(opt, [&](any_device& device, parallel::any_communicator& ranks) { train(device, opt, ranks); });
  });
}

}  // namespace trainer
RLCORE_END
