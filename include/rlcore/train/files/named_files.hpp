// Models and data files named on the command line.
#pragma once

#include <filesystem>
#include <string>

#include "rlcore/checkpoint/hugging_face.hpp"
#include "rlcore/config/options.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/data/file.hpp"

RLCORE_BEGIN
namespace train {

/// The folder of `model`, the value of `key`. Throws config_error that names the key, or the flag that stands for it.
inline std::filesystem::path named_model(const options& opt, const std::string& key, const std::string& model) {
  try {
    return checkpoint::resolve_model(model);
  } catch (const config_error& e) {
    throw config_error(opt.typed().in(opt.known().typed_name(key)) + ": " + e.what());
  }
}

/// The same for the value that `opt` has.
inline std::filesystem::path named_model(const options& opt, const std::string& key) {
  return named_model(opt, key, opt.get<std::string>(key));
}

/// Calls check(path) for every file that `key` lists, so that a missing file is reported before the first one is read,
/// even if data.*_max_samples makes it unnecessary. An error begins with the key. `check` is data::check_table, or
/// data::check_readable where the extension does not matter.
template <class Check>
void check_data_files(const options& opt, const std::string& key, Check&& check) {
  for (const std::string& file : opt.list(key)) {
    if (file.empty()) throw config_error(key + " names an empty path; expected a file");
    try {
      check(checkpoint::expand_home(file));
    } catch (const data_error& e) {
      throw data_error(key + ": " + e.what());
    } catch (const file_error& e) {
      throw file_error(key + ": " + e.what());
    }
  }
}

}  // namespace train

RLCORE_END
