// Hugging Face model folders: where they are, what they say, what they hold.
#pragma once

#include "rlcore/checkpoint/model_config.hpp"
#include "rlcore/checkpoint/model_weights.hpp"
#include "rlcore/checkpoint/resolve_model.hpp"
