// The grammar of command lines, compiled once (the target rlcore::trainer).
#include "rlcore/config/read_options.hpp"
