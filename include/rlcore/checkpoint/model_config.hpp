// config.json and generation_config.json of a Hugging Face folder <-> nn::config. JSON is slow to compile: with
// RLCORE_COMPILED it is that of src/checkpoint.cpp.
#pragma once

#include <filesystem>
#include <string>

#include "rlcore/checkpoint/tensor_info.hpp"
#include "rlcore/core/abi.hpp"
#include "rlcore/nn/config.hpp"

RLCORE_BEGIN
namespace checkpoint {

/// Reads `folder`/config.json of a model of one of the families (nn/family), and the ids of generation_config.json,
/// whose eos_token_id wins. Throws file_error, or format_error naming file, key, value and expectation.
nn::config read_config(const std::filesystem::path& folder);

/// The weight dtype in `folder`/config.json: "bfloat16", "float16", "float32"; empty if missing. transformers 5 calls
/// it dtype, earlier ones torch_dtype. Throws file_error, format_error.
std::string stored_dtype(const std::filesystem::path& folder);

/// The first key of config.json in which two models differ, with both values: "rms_norm_eps is 1e-05, expected 1e-06";
/// empty if they compute the same. Ignores dtypes on disk and training-only keys.
std::string difference_of(const nn::config& found, const nn::config& expected);

/// Writes config.json and generation_config.json that `transformers` (4 and 5) reads; `type` is the dtype of the stored
/// weights (F32, F16 or BF16). Throws file_error, or config_error for a vision tower in a family that has none.
void write_config(const std::filesystem::path& folder, const nn::config& c, stored_type type = stored_type::f32);

}  // namespace checkpoint
RLCORE_END

#if !defined(RLCORE_COMPILED)
#include "rlcore/checkpoint/config_json.hpp"
#endif
