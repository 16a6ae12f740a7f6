// Models and data files named on the command line: model folders (Hugging Face format), optimizer moments, and
// fingerprints of weights and data.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <optional>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rlcore/checkpoint/hugging_face.hpp"
#include "rlcore/checkpoint/model_weights.hpp"
#include "rlcore/checkpoint/safetensors_reader.hpp"
#include "rlcore/checkpoint/safetensors_writer.hpp"
#include "rlcore/checkpoint/tensor_folder.hpp"
#include "rlcore/checkpoint/write_config.hpp"
#include "rlcore/config/options.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/core/fingerprint.hpp"
#include "rlcore/data/file.hpp"
#include "rlcore/exec/threads.hpp"
#include "rlcore/nn/model/causal_lm.hpp"
#include "rlcore/parallel/communicator/any.hpp"
#include "rlcore/parallel/device_memory.hpp"
#include "rlcore/parallel/strategy/any_strategy.hpp"
#include "rlcore/parallel/world.hpp"
#include "rlcore/text/model_file.hpp"
#include "rlcore/text/text_file.hpp"
#include "rlcore/train/model/owned_runs.hpp"

RLCORE_BEGIN

namespace train {

namespace detail {

/// All values of a matrix that the ranks of `tensor` split by rows, or equally by columns, in order. Collective.
inline std::vector<float> joined_parts(parallel::any_communicator& tensor, const nn::parameter& p,
                                       std::span<const float> mine) {
  std::vector<float> parts = parallel::gather_parts(tensor, mine);
  const auto columns = static_cast<std::size_t>(p.shape.back());
  if (p.shape.size() == 1 || p.shape.back() == p.global_shape.back()) return parts;
  std::vector<float> whole(parts.size());
  const std::size_t rows = mine.size() / columns, ranks = parts.size() / mine.size();
  for (std::size_t r = 0; r < ranks; ++r)
    for (std::size_t row = 0; row < rows; ++row)
      std::copy_n(parts.data() + (r * rows + row) * columns, columns, whole.data() + (row * ranks + r) * columns);
  return whole;
}

/// Adds the weights of a stage of a pipeline, or of a whole model, except the head of a score model and a second copy
/// of the embedding. whole(parameter, its values here) returns all values of one that ranks split.
template <class Device, class Whole>
void add_weights(fingerprint& hash, const nn::causal_lm<Device>& model, Whole&& whole) {
  constexpr std::size_t piece = std::size_t{1} << 20;
  std::vector<float> values;
  const auto add = [&] {
    if (values.size() % 2 != 0) values.push_back(0);
    for (std::size_t i = 0; i < values.size(); i += 2) {
      std::uint64_t word;
      std::memcpy(&word, values.data() + i, sizeof word);
      hash.add(word);
    }
  };
  offset_pointer<const float> weights{model.weights().data(), 0};
  const auto download = [&](const nn::parameter& p, std::size_t begin, std::size_t n) {
    values.resize(n);
    model.device().download(values.data(), weights + (p.offset + begin), n * sizeof(float));
  };
  const auto add_parameter = [&](const nn::parameter& p) {
    if (p.name.starts_with("score.")) return;
    hash.add(std::uint64_t{parallel::elements_of(p.whole_shape())});
    if (p.split()) {
      download(p, 0, p.size);
      values = whole(p, values);
      return add();
    }
    for (std::size_t begin = 0; begin < p.size; begin += piece) {
      download(p, begin, std::min(piece, p.size - begin));
      add();
    }
  };
  // Of a tied embedding the first stage has a copy behind its layers, which stands for that of the last stage.
  const auto& stage = model.part().stage;
  const bool second = stage.split() && model.settings().tied() && stage.has_head();
  if (model.copies_embedding()) add_parameter(model.parameters().back());
  const std::vector<std::size_t> ends = nn::unit_ends(model.parameters());
  std::size_t unit = ends.size();  // none
  for (const nn::parameter& p : model.own_parameters().subspan(second ? 1 : 0)) {
    if (nn::unit_source* const units = model.units()) {  // in shards: one unit at a time is whole
      const auto of = static_cast<std::size_t>(std::ranges::upper_bound(ends, p.offset) - ends.begin());
      if (of != unit && unit < ends.size()) units->leave(unit);
      if (of != unit) weights = units->enter(of, false).weights;
      unit = of;
    }
    add_parameter(p);
  }
  if (unit < ends.size()) model.units()->leave(unit), model.units()->rest();
}

}  // namespace detail

/// Fingerprint of all weights in order, except the head of a score model.
template <class Device>
std::string weights_fingerprint(const nn::causal_lm<Device>& model) {
  fingerprint hash;
  detail::add_weights(hash, model, [](const nn::parameter&, std::vector<float> mine) { return mine; });
  return hash.text();
}
/// The same of a model that ranks divide by tensors or stages. Collective.
template <class Device>
std::string weights_fingerprint(const nn::causal_lm<Device>& model, parallel::world& ranks) {
  std::uint64_t word = fingerprint().word();
  for (int stage = 0; stage < ranks.pipeline().size(); ++stage) {
    if (stage == ranks.pipeline().rank()) {
      fingerprint hash(word);
      detail::add_weights(hash, model, [&](const nn::parameter& p, std::span<const float> mine) {
        return detail::joined_parts(ranks.tensor(), p, mine);
      });
      word = hash.word();
    }
    parallel::meet_stages(ranks);
    ranks.pipeline().broadcast(std::span(&word, 1), stage);
  }
  return fingerprint(word).text();
}

/// Fingerprint of the weights in a folder from a sample, fast for any size: names, sizes, and the first numbers of each
/// tensor. Throws format_error, file_error.
inline std::string sampled_fingerprint(const std::filesystem::path& folder) {
  constexpr std::size_t numbers = 256;
  const checkpoint::tensor_folder weights(folder);
  fingerprint hash;
  for (const std::string& name : weights.names()) {
    const std::size_t size = weights.info(name).size();
    std::vector<float> values(std::min(numbers, size));
    if (!values.empty()) weights.read_f32(name, values, 0);
    hash.add(name);
    hash.add(std::uint64_t{size});
    for (const float x : values) hash.add(std::uint64_t{std::bit_cast<std::uint32_t>(x)});
  }
  return hash.text();
}

/// A copy of device memory.
template <class Device>
std::vector<float> to_host(Device& device, const buffer<float, Device>& values) {
  std::vector<float> host(values.size());
  device.download(host.data(), values.data(), host.size() * sizeof(float));
  return host;
}
/// The values of device memory: the memory itself if the host can read it, otherwise a copy in `copy`.
template <class Device>
std::span<const float> on_host(Device& device, const buffer<float, Device>& values, std::vector<float>& copy) {
  return {parallel::host_view(device, values.data(), values.size(), copy), values.size()};
}

/// A copy of a moment.
template <class Device>
std::vector<float> to_host(Device&, const optim::moment<Device>& values) {
  std::vector<float> host(values.size());
  values.download(host);
  return host;
}
/// The values of a moment: those in memory if the host can read it, otherwise a copy in `copy`.
template <class Device>
std::span<const float> on_host(Device& device, const optim::moment<Device>& values, std::vector<float>& copy) {
  if (values.offloaded()) return {values.data(), values.size()};
  return {parallel::host_view(device, values.data(), values.size(), copy), values.size()};
}

/// The names of the tensors of all stages of a model.
template <class Device>
std::set<std::string> names_of_whole(const nn::causal_lm<Device>& model) {
  const nn::causal_lm<Device> whole(model.device(), model.settings(), {}, nn::weights_in::units);
  std::set<std::string> names;
  for (const nn::parameter& p : whole.parameters()) names.insert(p.name);
  if (model.settings().tied()) names.insert(std::string(checkpoint::output_name));  // may be stored beside it
  return names;
}

/// Fills `values` with pieces of a model from a Hugging Face folder, those of p from values[p.at] on. With `head_seed`
/// a score model may be read from a causal one: the seed initialises its head. Throws file_error or format_error naming
/// the tensor, also for a weight that is not finite.
template <class Device>
void read_weights(const nn::causal_lm<Device>& model, const std::filesystem::path& folder,
                  std::optional<std::uint64_t> head_seed, std::span<const placed_piece> pieces,
                  std::span<float> values) {
  const bool new_head = head_seed && model.settings().output == nn::model_output::score &&
                        checkpoint::read_config(folder).output == nn::model_output::logits;
  const bool of_stage = model.part().stage.split();  // the folder has the other stages, too
  const std::span<const nn::parameter> parameters = model.parameters();
  std::vector<nn::parameter> stored(parameters.begin(), parameters.end());
  if (new_head) std::erase_if(stored, nn::causal_lm<Device>::is_score);
  const checkpoint::tensor_folder from(folder);
  const std::set<std::string> elsewhere = of_stage ? names_of_whole(model) : std::set<std::string>();
  checkpoint::check_tensors(from, stored, [&](const std::string& name) {
    return elsewhere.contains(name) || (new_head && name == checkpoint::output_name);
  });
  const bool twice = !new_head && (!of_stage || model.settings().tied()) && from.contains(checkpoint::output_name) &&
                     std::ranges::none_of(parameters, [](const auto& p) { return p.name == checkpoint::output_name; });
  const rlcore::threads pool;
  for (const auto& [piece, at] : pieces) {
    const std::span<float> to = values.subspan(at, piece.size());
    if (new_head && piece.tensor.starts_with("score.")) {
      const auto p = std::ranges::find(parameters, piece.tensor, &nn::parameter::name);
      const std::vector<float> initial =
          model.initial_values(*head_seed, static_cast<std::size_t>(p - parameters.begin()));
      std::copy_n(initial.begin() + static_cast<std::ptrdiff_t>(piece.first), to.size(), to.begin());
      continue;
    }
    checkpoint::read_piece(from, piece, to, pool);
    if (twice && piece.tensor == checkpoint::embedding_name) checkpoint::check_tied_output(from, piece);
  }
}

/// read_weights() into a rank's memory, directly into place if the host can access it.
template <class Device>
void load_resident(const nn::causal_lm<Device>& model, const resident_weights<Device>& to,
                   const std::filesystem::path& folder, std::uint64_t seed) {
  std::vector<float> copy;
  parallel::with_host_view(model.device(), to.values.data(), to.values.size(), copy,
                           [&](std::span<float> values) { read_weights(model, folder, seed, to.pieces, values); });
}

/// Loads the weights of `folder`, as read_weights().
template <class Device>
void load_model(nn::causal_lm<Device>& model, const std::filesystem::path& folder, std::uint64_t seed = 1) {
  load_resident(model, {model.weights(), model.parameters()}, folder, seed);
}

/// load_model() for a model of weights_in::packed that multiplies in `format`, by default the device's. Calls
/// seen(first, values) for all values read, in any order and from several threads.
template <class Device, class Seen>
void load_packed(nn::causal_lm<Device>& model, const std::filesystem::path& folder, std::optional<weight_format> format,
                 Seen&& seen) {
  const checkpoint::stored_weights stored(folder, model.parameters());
  model.fill(format.value_or(model.device().compute_format()), stored.rounded(),
             [&](std::size_t first, std::span<float> values) {
               stored.read(first, values);
               seen(first, std::span<const float>(values));
             });
}

/// Where a model came from, and what its saved folder has in place of what is there.
struct model_source {
  std::filesystem::path folder;  ///< its tokenizer, and what rlcore does not change in its configuration
  std::string chat_template;     ///< Jinja, as the model was trained; empty: the folder's

  /// From a folder, with its own template unless `jinja` is another.
  model_source(std::filesystem::path from, std::string jinja = {})
      : folder(std::move(from)), chat_template(std::move(jinja)) {}
};

/// Saves the files of a model's folder besides weights: config, tokenizer and chat template.
template <class Device>
void save_config(const std::filesystem::path& folder, const nn::causal_lm<Device>& model, const model_source& from) {
  std::filesystem::create_directories(folder);
  checkpoint::write_config(folder, model.settings(), checkpoint::stored_type::f32, from.folder);
  text::copy_files(from.folder, folder);
  if (!from.chat_template.empty()) checkpoint::write_chat_template(folder, from.chat_template);
}

/// Saves a folder that transformers can load: weights in F32, config, tokenizer and chat template. Throws
/// std::logic_error for a stage of a pipeline, whose weights are not the whole model's.
template <class Device>
void save_model(const std::filesystem::path& folder, const nn::causal_lm<Device>& model, const model_source& from) {
  if (model.part().stage.split())
    throw std::logic_error("rlcore: save_model: " + folder.string() + ": stage " +
                           std::to_string(model.part().stage.stage) + " of " +
                           std::to_string(model.part().stage.stages) +
                           " has only its own weights; expected a whole model, as save_checkpoint() writes");
  save_config(folder, model, from);
  std::vector<float> copy;
  checkpoint::save_weights(folder, model.parameters(), on_host(model.device(), model.weights(), copy));
}

/// The moments as tensors named after their parameters.
inline std::vector<checkpoint::tensor_source> moment_tensors(std::span<const nn::parameter> parameters,
                                                             std::span<const float> m, std::span<const float> v) {
  std::vector<checkpoint::tensor_source> tensors;
  for (const nn::parameter& p : parameters) {
    tensors.push_back({"exp_avg." + p.name, p.shape, m.subspan(p.offset, p.size)});
    tensors.push_back({"exp_avg_sq." + p.name, p.shape, v.subspan(p.offset, p.size)});
  }
  return tensors;
}

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
