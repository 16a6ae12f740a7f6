// The JSON of models' folders, compiled once (the target rlcore::checkpoint).
#include "rlcore/checkpoint/adapter_json.hpp"
#include "rlcore/checkpoint/config_json.hpp"
#include "rlcore/checkpoint/manifest_json.hpp"
