// main() of a trainer, declared: trainer_main_on_ranks.hpp has what it does.
#pragma once

#include <functional>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
class any_device;

namespace train {

class options;
class registry;
class team;

/// The function that every rank of a trainer runs.
using trainer_function = std::function<void(any_device&, const options&, const team&)>;

/// Reads the command line by `known`, answers --help and the like, opens the device on every rank of this process, and
/// calls train(device, options, ranks) there. From then on messages name the flags that were typed in the place of
/// keys. Returns the exit code of main, as run_program(). A template, so that where it is declared only nothing of it
/// is compiled.
int trainer_main(int argc, char** argv, const registry& known, const trainer_function& train);

}  // namespace train
RLCORE_END
