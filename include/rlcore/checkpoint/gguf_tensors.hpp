// The weights of a GGUF file under the names, and in the order, of a Hugging Face folder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rlcore/checkpoint/tensor_info.hpp"
#include "rlcore/core/abi.hpp"
#include "rlcore/data/file.hpp"
#include "rlcore/text/gguf/gguf_config.hpp"
#include "rlcore/text/gguf/gguf_file.hpp"

RLCORE_BEGIN
namespace checkpoint {

/// A name of GGUF for a name of the model: "model.layers.3.self_attn.q_proj.weight" is "blk.3.attn_q.weight", and an
/// expert's matrix is a part of one tensor.
struct gguf_name {
  std::string name;
  std::optional<std::uint64_t> expert{};
};

/// Empty for a name that no tensor of GGUF has.
std::optional<gguf_name> gguf_name_of(std::string_view name);

/// The name of the model for a name of GGUF; `expert` fills it for a tensor of all experts. Empty for other names.
std::optional<std::string> name_of_gguf(std::string_view name, std::uint64_t expert = 0);

/// The place of row `row` of a matrix whose rows are heads of `head_dim`, where llama.cpp has the halves of a head in
/// turn (for its rotary pairs): row (half, pair) of a head is its row (pair, half).
constexpr std::uint64_t permuted_row(std::uint64_t row, std::uint64_t head_dim) noexcept {
  const std::uint64_t head = row / head_dim, in_head = row % head_dim, pairs = head_dim / 2;
  return head * head_dim + in_head % pairs * 2 + in_head / pairs;
}

/// An open GGUF file as the tensors of a model folder. Types of whole numbers of bytes stay, blocks become F32. Reading
/// is thread safe (positional reads).
class gguf_tensors {
 public:
  /// Throws file_error, format_error; for tensors of a type that is not readable too.
  explicit gguf_tensors(const std::filesystem::path& path);

  /// By name; `begin` has no meaning. Tensors that no model has stand under their own names.
  const std::map<std::string, tensor_info, std::less<>>& tensors() const noexcept { return tensors_; }
  /// The elements of a tensor from number `first` on, in row-major order.
  void read_f32(std::string_view name, std::span<float> values, std::uint64_t first) const;
  /// The same as bytes of the type that tensors() has, from byte `first` of the tensor on. Throws std::invalid_argument
  /// for parts of an element.
  void read_bytes(std::string_view name, std::span<std::byte> bytes, std::uint64_t first) const;

 private:
  /// Where a tensor is: it begins with element `first` of the stored one.
  struct place {
    const text::gguf_tensor* stored;
    std::uint64_t first = 0;
    bool permuted = false;
  };
  void add(const std::string& name, std::vector<std::int64_t> shape, const place& at);
  /// Calls read(element of the stored tensor, number of elements, offset in the output) for runs in the file.
  template <class Read>
  void for_each_run(std::string_view name, std::uint64_t first, std::uint64_t count, Read&& read) const;
  void read_run(const text::gguf_tensor& t, std::uint64_t first, std::span<float> values) const;

  text::gguf_file header_;
  data::input_file file_;
  std::uint64_t head_dim_ = 0;
  std::map<std::string, tensor_info, std::less<>> tensors_;
  std::map<std::string, place, std::less<>> places_;
};

}  // namespace checkpoint
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_CHECKPOINT)
#include <algorithm>
#include <array>
#include <stdexcept>
#include <utility>

#include "rlcore/checkpoint/gguf_blocks.hpp"
#include "rlcore/core/compiler.hpp"
#include "rlcore/core/error.hpp"

RLCORE_BEGIN
namespace checkpoint {
namespace detail {

/// The parts of a layer, in both namings.
inline constexpr std::pair<std::string_view, std::string_view> gguf_layer_parts[] = {
    {"input_layernorm", "attn_norm"},    {"post_attention_layernorm", "ffn_norm"},
    {"self_attn.q_proj", "attn_q"},      {"self_attn.k_proj", "attn_k"},
    {"self_attn.v_proj", "attn_v"},      {"self_attn.o_proj", "attn_output"},
    {"self_attn.q_norm", "attn_q_norm"}, {"self_attn.k_norm", "attn_k_norm"},
    {"mlp.gate_proj", "ffn_gate"},       {"mlp.up_proj", "ffn_up"},
    {"mlp.down_proj", "ffn_down"},       {"mlp.gate", "ffn_gate_inp"},
};
inline constexpr std::pair<std::string_view, std::string_view> gguf_whole_parts[] = {
    {"model.embed_tokens", "token_embd"}, {"model.norm", "output_norm"}, {"lm_head", "output"}};
inline constexpr std::pair<std::string_view, std::string_view> gguf_expert_parts[] = {
    {"gate_proj", "ffn_gate_exps"}, {"up_proj", "ffn_up_exps"}, {"down_proj", "ffn_down_exps"}};

/// The partner of `name` in a table, from the side `from` to the other.
template <std::size_t N>
std::optional<std::string_view> partner(const std::pair<std::string_view, std::string_view> (&table)[N],
                                        std::string_view name, bool from_gguf) {
  for (const auto& [model, gguf] : table)
    if ((from_gguf ? gguf : model) == name) return from_gguf ? model : gguf;
  return std::nullopt;
}

/// Takes `prefix` and digits and a dot from the front of `name`; empty if they are not there.
inline std::optional<std::string> take_number(std::string_view& name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return std::nullopt;
  const std::string_view rest = name.substr(prefix.size());
  const std::size_t digits = std::min(rest.find_first_not_of("0123456789"), rest.size());
  if (digits == 0 || digits > 6 || digits == rest.size() || rest[digits] != '.') return std::nullopt;
  name = rest.substr(digits + 1);
  return std::string(rest.substr(0, digits));
}

/// Cuts ".weight" or ".bias" from the end of `name`; empty without either.
inline std::optional<std::string_view> take_kind(std::string_view& name) {
  const std::size_t dot = name.rfind('.');
  const std::string_view kind = dot == name.npos ? "" : name.substr(dot);
  if (kind != ".weight" && kind != ".bias") return std::nullopt;
  name = name.substr(0, dot);
  return kind;
}

}  // namespace detail

RLCORE_INLINE std::optional<gguf_name> gguf_name_of(std::string_view name) {
  const auto kind = detail::take_kind(name);
  if (!kind) return std::nullopt;
  const auto named = [&](const std::string& front, std::string_view part) {
    return front + std::string(part) + std::string(*kind);
  };
  if (const auto whole = detail::partner(detail::gguf_whole_parts, name, false)) return gguf_name{named("", *whole)};
  const auto layer = detail::take_number(name, "model.layers.");
  if (!layer) return std::nullopt;
  const std::string front = "blk." + *layer + ".";
  if (const auto expert = detail::take_number(name, "mlp.experts.")) {
    const auto part = detail::partner(detail::gguf_expert_parts, name, false);
    if (!part) return std::nullopt;
    return gguf_name{named(front, *part), std::stoull(*expert)};
  }
  const auto part = detail::partner(detail::gguf_layer_parts, name, false);
  return part ? std::optional(gguf_name{named(front, *part)}) : std::nullopt;
}

RLCORE_INLINE std::optional<std::string> name_of_gguf(std::string_view name, std::uint64_t expert) {
  const auto kind = detail::take_kind(name);
  if (!kind) return std::nullopt;
  if (const auto whole = detail::partner(detail::gguf_whole_parts, name, true))
    return std::string(*whole) + std::string(*kind);
  const auto layer = detail::take_number(name, "blk.");
  if (!layer) return std::nullopt;
  const std::string front = "model.layers." + *layer + ".";
  if (const auto part = detail::partner(detail::gguf_expert_parts, name, true))
    return front + "mlp.experts." + std::to_string(expert) + "." + std::string(*part) + std::string(*kind);
  const auto part = detail::partner(detail::gguf_layer_parts, name, true);
  return part ? std::optional(front + std::string(*part) + std::string(*kind)) : std::nullopt;
}

RLCORE_INLINE gguf_tensors::gguf_tensors(const std::filesystem::path& path) : header_(path), file_(path) {
  const text::gguf_architecture& a = text::architecture_of(header_);
  head_dim_ = text::gguf_head_dim(header_);
  if (a.permuted && head_dim_ % 2 != 0)
    throw format_error(path.string() + ": heads of " + std::to_string(head_dim_) +
                       " numbers; expected an even size (rotary embeddings turn pairs)");
  for (const text::gguf_tensor& t : header_.tensors()) {
    if (t.name == "rope_freqs.weight") continue;  // text::gguf_config() has it
    if (!t.block->readable) {
      std::string known;
      for (const text::gguf_block& b : text::gguf_blocks)
        if (b.readable) known += (known.empty() ? "" : ", ") + std::string(b.name);
      throw format_error(path.string() + ": tensor '" + data::printable(t.name) + "' has the type " +
                         std::string(t.block->name) + "; expected one of " + known +
                         " (a file with another quantisation of the model)");
    }
    const std::string name = name_of_gguf(t.name).value_or(t.name);
    if (name.find(".mlp.experts.") != name.npos && t.shape.size() == 3) {
      if (constexpr std::int64_t most = 65536; t.shape[0] > most)
        throw format_error(path.string() + ": tensor '" + data::printable(t.name) + "' has " +
                           std::to_string(t.shape[0]) + " experts; expected at most " + std::to_string(most));
      const std::vector<std::int64_t> shape(t.shape.begin() + 1, t.shape.end());
      for (std::int64_t e = 0; e < t.shape[0]; ++e)
        add(*name_of_gguf(t.name, static_cast<std::uint64_t>(e)), shape,
            {&t, static_cast<std::uint64_t>(e * shape[0] * shape[1]), false});
      continue;
    }
    const bool heads = a.permuted && (t.name.find(".attn_q.") != t.name.npos || t.name.find(".attn_k.") != t.name.npos);
    if (heads && static_cast<std::uint64_t>(t.shape[0]) % head_dim_ != 0)
      throw format_error(path.string() + ": tensor '" + data::printable(t.name) + "' has " +
                         std::to_string(t.shape[0]) + " rows; expected a multiple of the head size " +
                         std::to_string(head_dim_));
    add(name, t.shape, {&t, 0, heads});
  }
}

RLCORE_INLINE void gguf_tensors::add(const std::string& name, std::vector<std::int64_t> shape, const place& at) {
  const std::string_view block = at.stored->block->name;
  const stored_type type = block == "F16" ? stored_type::f16 : block == "BF16" ? stored_type::bf16 : stored_type::f32;
  std::uint64_t size = 1;
  for (const std::int64_t extent : shape) size *= static_cast<std::uint64_t>(extent);
  if (!places_.emplace(name, at).second)
    throw format_error(file_.path().string() + ": tensor '" + data::printable(at.stored->name) +
                       "' has the same weights as another, '" + data::printable(name) + "'; expected either");
  tensors_[name] = {name, type, std::move(shape), 0, size * bytes_of(type)};
}

template <class Read>
void gguf_tensors::for_each_run(std::string_view name, std::uint64_t first, std::uint64_t count, Read&& read) const {
  const auto info = tensors_.find(name);
  if (info == tensors_.end()) throw format_error(file_.path().string() + ": no tensor '" + data::printable(name) + "'");
  const tensor_info& t = info->second;
  const place& at = places_.find(name)->second;
  if (first > t.size() || count > t.size() - first)
    throw std::invalid_argument("rlcore: elements " + std::to_string(first) + " to " + std::to_string(first + count) +
                                " of tensor '" + t.name + "' " + shape_text(t.shape));
  if (!at.permuted) return read(*at.stored, at.first + first, count, std::uint64_t{0});
  const std::uint64_t columns = t.size() / static_cast<std::uint64_t>(t.shape[0]);
  for (std::uint64_t done = 0; done < count;) {
    const std::uint64_t row = (first + done) / columns, column = (first + done) % columns;
    const std::uint64_t n = std::min(columns - column, count - done);
    read(*at.stored, permuted_row(row, head_dim_) * columns + column, n, done);
    done += n;
  }
}

RLCORE_INLINE void gguf_tensors::read_run(const text::gguf_tensor& t, std::uint64_t first,
                                          std::span<float> values) const {
  constexpr std::uint64_t elements = 8192;  // of whole blocks, that stay in the cache
  std::array<float, elements> part;
  std::array<std::byte, elements * sizeof(float)> bytes;
  const text::gguf_block& b = *t.block;
  while (!values.empty()) {
    const std::uint64_t block = first / b.elements, skipped = first % b.elements;
    const std::uint64_t blocks =
        std::min((skipped + values.size() + b.elements - 1) / b.elements, elements / b.elements);
    const auto stored = std::span(bytes).first(static_cast<std::size_t>(blocks * b.bytes));
    const auto floats = std::span(part).first(static_cast<std::size_t>(blocks * b.elements));
    file_.read(t.position + block * b.bytes, stored);
    read_gguf_blocks(b, stored, floats);
    const auto n = static_cast<std::size_t>(std::min<std::uint64_t>(floats.size() - skipped, values.size()));
    std::copy_n(floats.data() + skipped, n, values.data());
    values = values.subspan(n), first += n;
  }
}

RLCORE_INLINE void gguf_tensors::read_f32(std::string_view name, std::span<float> values, std::uint64_t first) const {
  for_each_run(name, first, values.size(),
               [&](const text::gguf_tensor& t, std::uint64_t from, std::uint64_t count, std::uint64_t to) {
                 const auto run = values.subspan(static_cast<std::size_t>(to), static_cast<std::size_t>(count));
                 if (t.block->name == "F32") return file_.read(t.position + 4 * from, std::as_writable_bytes(run));
                 read_run(t, from, run);
               });
}

RLCORE_INLINE void gguf_tensors::read_bytes(std::string_view name, std::span<std::byte> bytes,
                                            std::uint64_t first) const {
  const auto info = tensors_.find(name);
  const std::uint64_t each = info == tensors_.end() ? 1 : bytes_of(info->second.dtype);
  require(bytes.size() % each == 0 && first % each == 0, "read_bytes: not whole elements of the tensor");
  for_each_run(name, first / each, bytes.size() / each,
               [&](const text::gguf_tensor& t, std::uint64_t from, std::uint64_t count, std::uint64_t to) {
                 const auto run =
                     bytes.subspan(static_cast<std::size_t>(to * each), static_cast<std::size_t>(count * each));
                 if (t.block->bytes == each) return file_.read(t.position + each * from, run);
                 std::vector<float> values(static_cast<std::size_t>(count));
                 read_run(t, from, values);
                 std::memcpy(run.data(), values.data(), run.size());
               });
}

}  // namespace checkpoint
RLCORE_END
#endif
