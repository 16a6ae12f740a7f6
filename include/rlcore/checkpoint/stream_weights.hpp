// Writes a weight source to the safetensors of a folder, or compares it with another source, block by block.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "rlcore/checkpoint/layout.hpp"
#include "rlcore/checkpoint/safetensors_writer.hpp"
#include "rlcore/checkpoint/tensor_folder.hpp"
#include "rlcore/checkpoint/weight_source.hpp"
#include "rlcore/text/parse_json.hpp"

RLCORE_BEGIN
namespace checkpoint {

/// The number of elements in memory at a time.
inline constexpr std::uint64_t stream_block = std::uint64_t{1} << 20;

/// Calls f(first, count) for the blocks of a tensor.
template <class F>
void for_each_block(std::uint64_t size, F&& f) {
  for (std::uint64_t first = 0; first < size; first += stream_block) f(first, std::min(stream_block, size - first));
}

/// Output options of stream_to_folder().
struct stream_settings {
  stored_type dtype = stored_type::bf16;             ///< of floating tensors; others keep their type
  std::uint64_t max_shard_bytes = 5'000'000'000ULL;  ///< one file if all fits, else model-0000i-of-0000k
};

/// Writes model.safetensors, or shards and their index, into `folder`. Each file replaces an older one atomically, the
/// index last. Calls done(bytes written, total bytes) after each block. Returns the number of files. Throws file_error.
template <class Done>
std::size_t stream_to_folder(weight_source& from, const std::filesystem::path& folder, const stream_settings& settings,
                             Done&& done) {
  struct part {
    std::vector<tensor_info> tensors;
    std::vector<const weight*> sources;
  };
  std::vector<part> parts(1);
  std::uint64_t total = 0, in_part = 0, written = 0;
  for (const weight& w : from.weights()) {
    const stored_type type = is_floating(w.dtype) ? settings.dtype : w.dtype;
    const std::uint64_t bytes = w.size() * bytes_of(type);
    if (in_part > 0 && in_part + bytes > settings.max_shard_bytes) {
      parts.emplace_back();
      in_part = 0;
    }
    in_part += bytes;
    total += bytes;
    parts.back().tensors.push_back({w.name, type, w.shape, 0, 0});
    parts.back().sources.push_back(&w);
  }
  std::set<std::string> files;
  nlohmann::json map = nlohmann::json::object();
  std::vector<float> values;
  std::vector<std::byte> bytes;
  for (std::size_t p = 0; p < parts.size(); ++p) {
    const std::string name = shard_name(p, parts.size());
    replace_file(folder / name, [&](const std::filesystem::path& temporary) {
      safetensors_writer writer(temporary, parts[p].tensors);
      for (std::size_t i = 0; i < parts[p].sources.size(); ++i) {
        const weight& w = *parts[p].sources[i];
        const stored_type type = parts[p].tensors[i].dtype;
        for_each_block(w.size(), [&](std::uint64_t first, std::uint64_t count) {
          if (type == w.dtype) {
            bytes.resize(static_cast<std::size_t>(count * bytes_of(type)));
            from.read_bytes(w, first, bytes);
            writer.append_bytes(bytes);
          } else {
            values.resize(static_cast<std::size_t>(count));
            from.read_f32(w, first, values);
            writer.append(values);
          }
          done(written += count * bytes_of(type), total);
        });
        map[w.name] = name;
      }
      writer.finish();
    });
    files.insert(name);
  }
  if (parts.size() > 1) {
    const nlohmann::json index{{"metadata", {{"total_size", total}}}, {"weight_map", map}};
    write_file_atomically(folder / "model.safetensors.index.json", text::json_text(index, 2) + "\n");
    files.insert("model.safetensors.index.json");
  }
  remove_other_weights(folder, files);
  return parts.size();
}

/// Rounds `x` as storing it would.
inline float rounded(float x, stored_type type) noexcept {
  return type == stored_type::bf16  ? static_cast<float>(bf16(x))
         : type == stored_type::f16 ? static_cast<float>(f16(x))
                                    : x;
}

/// Throws format_error at the first difference: a tensor that only one side has, another shape, or an element with
/// |a - b| > 1e-6 + 1e-6 |b| after both are rounded to `type` (the tolerance of verl's `test`). Messages begin with
/// `reference`, the name of `b`.
template <class Done>
void compare_weights(weight_source& a, weight_source& b, stored_type type, const std::string& reference, Done&& done) {
  const auto names = [](const weight_source& of, const weight_source& missing_in) {
    std::string text;
    std::size_t count = 0;
    for (const weight& w : of.weights())
      if (missing_in.find(w.name) == nullptr && ++count <= 3)
        text += (count > 1 ? ", '" : "'") + data::printable(w.name) + "'";
    return count > 3 ? text + " and " + std::to_string(count - 3) + " more" : text;
  };
  if (const std::string missing = names(b, a); !missing.empty())
    throw format_error(reference + ": the checkpoint lacks " + missing);
  if (const std::string extra = names(a, b); !extra.empty())
    throw format_error(reference + ": the checkpoint has " + extra + " besides");
  std::uint64_t total = 0, compared = 0;
  for (const weight& w : a.weights()) total += w.size();
  std::vector<float> x, y;
  for (const weight& w : a.weights()) {
    const weight& other = *b.find(w.name);
    const std::string where = reference + ": tensor '" + data::printable(w.name) + "' ";
    if (other.shape != w.shape)
      throw format_error(where + "has shape " + shape_text(other.shape) + ", in the checkpoint " + shape_text(w.shape));
    for_each_block(w.size(), [&](std::uint64_t first, std::uint64_t count) {
      x.resize(static_cast<std::size_t>(count));
      y.resize(x.size());
      a.read_f32(w, first, x);
      b.read_f32(other, first, y);
      for (std::size_t i = 0; i < x.size(); ++i) {
        const float p = rounded(x[i], type), q = rounded(y[i], type);
        if (std::abs(p - q) <= 1e-6F + 1e-6F * std::abs(q) || p == q || (std::isnan(p) && std::isnan(q))) continue;
        throw format_error(where + "differs at element " + std::to_string(first + i) + ": " + std::to_string(q) +
                           ", in the checkpoint " + std::to_string(p));
      }
      done(compared += count, total);
    });
  }
}

}  // namespace checkpoint
RLCORE_END
