// Starts the ranks of a trainer from a command line.
#pragma once

#include <cstdio>

#include "rlcore/config/options.hpp"
#include "rlcore/config/registry.hpp"
#include "rlcore/telemetry/console.hpp"
#include "rlcore/train/ranks/ranks.hpp"
#include "rlcore/train/ranks/team.hpp"
#include "rlcore/train/run/program.hpp"
#include "rlcore/train/run/trainers.hpp"

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TRAIN_PARTS)
RLCORE_BEGIN
namespace train {

RLCORE_INLINE int trainer_main(int argc, char** argv, const registry& known, const trainer_function& train) {
  return run_program(known.program.c_str(), [&] {
    const options opt = options::parse(argc, argv, known);
    if (opt.answer()) {
      std::fputs(opt.answer()->c_str(), stdout);
      return;
    }
    displayed_option_names() = opt.typed();
    on_ranks(opt,
             [&](any_device& device, parallel::any_communicator& world) { train(device, opt, team(opt, &world)); });
  });
}

}  // namespace train
RLCORE_END
#endif
