// Hugging Face model folders: path, configuration and weights.
#pragma once

#include "rlcore/checkpoint/model_weights.hpp"
#include "rlcore/checkpoint/resolve_model.hpp"
