// Hugging Face model folders: finds one, and reads its configuration.
//
// config.json and generation_config.json of a Hugging Face folder <-> nn::config. JSON is slow to compile: with
// RLCORE_COMPILED it is that of src/checkpoint.cpp.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <string>
#include <system_error>
#include <vector>

#include "rlcore/checkpoint/layout.hpp"
#include "rlcore/checkpoint/tensor_info.hpp"
#include "rlcore/core/abi.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/data/file.hpp"
#include "rlcore/nn/config.hpp"

RLCORE_BEGIN
namespace checkpoint {

/// "~" and "~/..." with $HOME in place of the tilde; anything else as it is.
inline std::filesystem::path expand_home(const std::string& path) {
  const char* home = std::getenv("HOME");
  if (home == nullptr || path.empty() || path[0] != '~' || (path.size() > 1 && path[1] != '/')) return path;
  return home + path.substr(1);
}

/// The hub cache: $HF_HUB_CACHE, else $HF_HOME/hub, else ~/.cache/huggingface/hub.
inline std::filesystem::path hub_cache() {
  if (const char* cache = std::getenv("HF_HUB_CACHE"); cache != nullptr && *cache != '\0') return expand_home(cache);
  if (const char* home = std::getenv("HF_HOME"); home != nullptr && *home != '\0') return expand_home(home) / "hub";
  return expand_home("~/.cache/huggingface/hub");
}

/// The newest model in the folder of a run or in one of its checkpoints; empty if there is none. Steps after the one
/// that the tracker names are those of an earlier run.
std::filesystem::path model_of_run(const std::filesystem::path& folder);

/// The folder that holds config.json of `model`: a local folder, or huggingface/ in it (a checkpoint), the same of
/// $RLCORE_MODEL_DIR/<model>, or what refs/main of models--org--name points to in the hub cache. Nothing is downloaded.
/// Throws config_error with all places tried.
std::filesystem::path resolve_model(const std::string& model);

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

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_CHECKPOINT)
RLCORE_BEGIN
namespace checkpoint {

RLCORE_INLINE std::filesystem::path model_of_run(const std::filesystem::path& folder) {
  std::int64_t last = std::numeric_limits<std::int64_t>::max();
  try {
    last = read_tracker(folder).value_or(last);
  } catch (const error&) {  // a damaged tracker names no step
  }
  std::filesystem::path newest;
  std::int64_t best = -1;
  const auto look = [&](const std::filesystem::path& checkpoint, std::int64_t step) {
    std::error_code ignored;
    for (const char* part : {"actor/huggingface", "huggingface"})
      if (step > best && std::filesystem::is_regular_file(checkpoint / part / "config.json", ignored))
        newest = checkpoint / part, best = step;
  };
  look(folder, 0);
  std::error_code failure;
  for (std::filesystem::directory_iterator at(folder, failure), end; !failure && at != end; at.increment(failure))
    if (const auto step = step_of(at->path()); step && *step <= last) look(at->path(), *step);
  return newest;
}

RLCORE_INLINE std::filesystem::path resolve_model(const std::string& model) {
  if (model.empty()) throw config_error("the model path is empty; expected a folder or a model id such as org/name");
  std::vector<std::filesystem::path> candidates{expand_home(model)};
  const bool id = model[0] != '/' && model[0] != '.' && model[0] != '~' && model.find("..") == std::string::npos;
  if (const char* root = std::getenv("RLCORE_MODEL_DIR");
      root != nullptr && *root != '\0' && model[0] != '/' && model[0] != '~')
    candidates.push_back(expand_home(root) / model);
  std::error_code ignored;
  const auto is_model = [&](const std::filesystem::path& folder) {
    return std::filesystem::is_regular_file(folder / "config.json", ignored);
  };
  for (const auto& folder : candidates)
    if (is_model(folder)) return folder;
  for (const auto& folder : candidates)
    if (is_model(folder / "huggingface")) return folder / "huggingface";
  if (std::filesystem::is_directory(candidates[0], ignored)) {
    const std::filesystem::path inside = model_of_run(candidates[0]);
    throw config_error("model '" + model + "': the folder exists but has no config.json" +
                       (inside.empty() ? "" : "; the model of the run in it is " + inside.string()));
  }

  if (id) {
    std::string name = "models--";
    for (const char c : model) name += c == '/' ? std::string("--") : std::string(1, c);
    const std::filesystem::path repository = hub_cache() / name, main = repository / "refs" / "main";
    candidates.push_back(main);
    if (std::filesystem::is_regular_file(main, ignored)) {
      std::string revision = data::read_file(main);
      while (!revision.empty() && (revision.back() == '\n' || revision.back() == ' ')) revision.pop_back();
      candidates.back() = repository / "snapshots" / revision;
      if (is_model(candidates.back())) return candidates.back();
    }
  }
  std::string tried;
  for (const auto& folder : candidates) tried += (tried.empty() ? "" : ", ") + data::printable(folder.string(), 400);
  const char* root = std::getenv("RLCORE_MODEL_DIR");
  const bool named = root != nullptr && *root != '\0';
  throw config_error(
      "model '" + data::printable(model) + "' not found; tried " + tried +
      (named || !id ? "" : "; RLCORE_MODEL_DIR in the environment names a folder of models to look in as well"));
}

}  // namespace checkpoint
RLCORE_END
#endif

#if !defined(RLCORE_COMPILED)
#include "rlcore/checkpoint/config_json.hpp"
#endif
