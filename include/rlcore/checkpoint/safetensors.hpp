// The safetensors format: reading and writing files and sharded folders.
#pragma once

#include "rlcore/checkpoint/safetensors_reader.hpp"
#include "rlcore/checkpoint/safetensors_writer.hpp"
#include "rlcore/checkpoint/tensor_folder.hpp"
