// Checks that all ranks compute bit-identical results; otherwise replicated weights would silently diverge.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <typeinfo>
#include <vector>

#include "rlcore/core/error.hpp"
#include "rlcore/device/any_device.hpp"
#include "rlcore/parallel/communicator/any.hpp"
#include "rlcore/parallel/layout/reshard.hpp"
#include "rlcore/tensor/buffer.hpp"

RLCORE_BEGIN
namespace train {

/// Fingerprint of a rank's arithmetic: equal hashes mean equal bits. The name is for messages.
struct arithmetic {
  std::uint64_t hash = 0;
  std::string name;
};

namespace detail {

RLCORE_ALGORITHM_BEGIN
struct loops {};  // its full name contains the namespace of the losses' instruction set
RLCORE_ALGORITHM_END

/// FNV-1a.
inline std::uint64_t hash_of(std::span<const unsigned char> bytes, std::uint64_t h = 0xcbf29ce484222325u) {
  for (const unsigned char byte : bytes) h = (h ^ byte) * 0x100000001b3u;
  return h;
}
inline std::uint64_t hash_of(std::string_view text, std::uint64_t h = 0xcbf29ce484222325u) {
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return h;
}

/// A small forward and backward pass through the kernels whose sums and functions may differ between instruction sets.
template <device Device>
class probe {
 public:
  explicit probe(Device& device) : d_(device) {
    constexpr extent_t t = 5, in = 37, out = 99;
    auto x = values(t * in), weight = values(out * in), y = values(t * out), dx = values(t * in);
    auto dweight = values(out * in), rstd = values(t), gain = values(out), normed = values(t * out);
    const weight_format format = d_.compute_format();
    buffer<std::byte, Device> packed(d_, d_.packed_bytes(format, out, in));
    d_.run(op::pack_weight{
        .packed = packed.data(), .format = format, .weight = weight.data(), .outputs = out, .inputs = in});
    d_.run(op::linear_forward{.y = y.data(),
                              .x = x.data(),
                              .packed = packed.data(),
                              .format = format,
                              .rows = t,
                              .outputs = out,
                              .inputs = in});
    see(y);
    d_.run(op::linear_backward_input{
        .dx = dx.data(), .dy = y.data(), .weight = weight.data(), .rows = t, .outputs = out, .inputs = in});
    see(dx);
    d_.run(op::linear_backward_weight{.dweight = dweight.data(),
                                      .dy = y.data(),
                                      .x = x.data(),
                                      .rows = t,
                                      .outputs = out,
                                      .inputs = in,
                                      .accumulate = true});
    see(dweight);
    d_.run(op::scale{.y = x.data(),
                     .factor = 0x1p-127f,
                     .n = t * in});  // subnormal products: a bf16 dot-product instruction flushes them to 0
    d_.run(op::linear_forward{.y = normed.data(),
                              .x = x.data(),
                              .packed = packed.data(),
                              .format = format,
                              .rows = t,
                              .outputs = out,
                              .inputs = in});
    see(normed);
    const norm_arguments norm{out, 1, out, gain.data(), 1e-6};
    d_.run(op::rms_norm_forward{
        .norm = norm, .y = normed.data(), .y_row = out, .x = y.data(), .rstd = rstd.data(), .rows = t});
    see(normed);
    d_.run(op::rms_norm_backward{.norm = norm,
                                 .dx = normed.data(),
                                 .dy = y.data(),
                                 .dy_row = out,
                                 .x = y.data(),
                                 .rstd = rstd.data(),
                                 .rows = t});
    see(normed);

    constexpr extent_t length = 70, width = 8;
    const attention_shape heads{1, 1, width, 0.5f};
    auto qkv = values(length * 3 * width), gradient = values(length * 3 * width), statistics = values(length * 2);
    auto attended = values(length * width), slopes = values(length * width);
    const attention_segment segment{qkv.data() + width, qkv.data() + 2 * width, 3 * width, 0, length, 0};
    const attention_segment_gradient to{gradient.data() + width, gradient.data() + 2 * width};
    d_.run(op::attention_forward{.shape = heads,
                                 .segments = {&segment, 1},
                                 .q = qkv.data(),
                                 .q_row = 3 * width,
                                 .out = attended.data(),
                                 .out_row = width,
                                 .statistics = statistics.data()});
    see(attended);
    d_.run(op::attention_backward{.shape = heads,
                                  .segments = {&segment, 1},
                                  .gradients = {&to, 1},
                                  .q = qkv.data(),
                                  .q_row = 3 * width,
                                  .out = attended.data(),
                                  .dout = slopes.data(),
                                  .out_row = width,
                                  .statistics = statistics.data(),
                                  .dq = gradient.data()});
    see(gradient);

    auto up = values(2 * length), gated = values(length), logits = values(1100);
    d_.run(op::swiglu_forward{.y = gated.data(), .gate_up = up.data(), .rows = 1, .width = length});
    see(gated);
    buffer<std::int32_t, Device> target(d_, 1);
    const std::int32_t chosen = 7;
    target.upload({&chosen, 1});
    d_.run(op::log_prob_forward{.logits = logits.data(),
                                .rows = 1,
                                .vocabulary = 1100,
                                .targets = target.data(),
                                .temperature = 0.7f,
                                .logp = rstd.data(),
                                .entropy = rstd.data() + 1,
                                .statistics = rstd.data() + 2});
    see(rstd);
    auto m = values(out), v = values(out);
    d_.run(op::fill{.y = v.data(), .value = 0.01f, .n = out});
    d_.run(op::adamw{
        .weights = gain.data(), .m = m.data(), .v = v.data(), .gradient = y.data(), .n = out, .step = {.step = 3}});
    see(gain);
  }
  std::uint64_t hash() const { return hash_; }

 private:
  /// n numbers in [-1, 1), derived from integers.
  buffer<float, Device> values(extent_t n) {
    std::vector<float> x(static_cast<std::size_t>(n));
    for (float& each : x) {
      state_ = state_ * 6364136223846793005u + 1442695040888963407u;
      each = static_cast<float>(state_ >> 40) * 0x1p-23f - 1.0f;
    }
    buffer<float, Device> b(d_, x.size());
    b.upload(x);
    return b;
  }
  void see(const buffer<float, Device>& b) {
    std::vector<float> x(b.size());
    d_.wait();
    b.download(x);
    hash_ = hash_of({reinterpret_cast<const unsigned char*>(x.data()), x.size() * sizeof(float)}, hash_);
  }

  Device& d_;
  std::uint64_t state_ = 1, hash_ = 0xcbf29ce484222325u;
};

/// "0, 2-5 and 9"
std::string ranges(const std::vector<std::size_t>& ranks);

}  // namespace detail

/// The arithmetic of a device and of this file's losses. A device with memory of its own is identified by its name.
template <device Device>
arithmetic arithmetic_of(Device& d) {
  arithmetic result;
  result.name = describe(d);
  result.name = result.name.substr(0, result.name.rfind("), ") + 1);  // without the thread count, which changes no bit
  bool probed = Device::host_readable;
  if constexpr (requires { d.host_memory(); }) probed = d.host_memory();
  // NPUs of ranks have different numbers; the kind follows the number.
  result.hash =
      probed ? detail::probe<Device>(d).hash() : detail::hash_of(result.name.substr(result.name.find('(') + 1));
  result.hash = detail::hash_of(typeid(detail::loops).name(), result.hash);
  result.name += ", losses in " + std::to_string(8 * RLCORE_REGISTER_BYTES) + " bits";
  return result;
}

/// Throws the same config_error on every rank unless all of them have the same arithmetic.
void expect_same_arithmetic(parallel::any_communicator& world, const arithmetic& local);

}  // namespace train
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TRAIN_RUN)
RLCORE_BEGIN
namespace train::detail {

RLCORE_INLINE std::string ranges(const std::vector<std::size_t>& ranks) {
  std::vector<std::string> pieces;
  for (std::size_t i = 0, j; i < ranks.size(); i = j) {
    for (j = i + 1; j < ranks.size() && ranks[j] == ranks[j - 1] + 1; ++j) continue;
    pieces.push_back(std::to_string(ranks[i]) + (j - i > 1 ? "-" + std::to_string(ranks[j - 1]) : ""));
  }
  std::string text;
  for (std::size_t i = 0; i < pieces.size(); ++i)
    text += (i == 0 ? "" : i + 1 == pieces.size() ? " and " : ", ") + pieces[i];
  return text;
}

}  // namespace train::detail

namespace train {

RLCORE_INLINE void expect_same_arithmetic(parallel::any_communicator& world, const arithmetic& local) {
  constexpr std::size_t bytes = sizeof local.hash;
  std::string mine(bytes, '\0');
  for (std::size_t i = 0; i < bytes; ++i) mine[i] = static_cast<char>(local.hash >> (8 * i) & 0xff);
  const std::vector<std::string> texts = parallel::gather_texts(world, mine + local.name);
  std::vector<std::string> kinds;
  std::vector<std::vector<std::size_t>> ranks;
  bool same = true;
  for (std::size_t r = 0; r < texts.size(); ++r) {
    same = same && texts[r].compare(0, bytes, texts[0], 0, bytes) == 0;
    std::size_t k = 0;
    while (k < kinds.size() && kinds[k] != texts[r]) ++k;
    if (k == kinds.size()) kinds.push_back(texts[r]), ranks.emplace_back();
    ranks[k].push_back(r);
  }
  if (same) return;
  std::string line = "rlcore: ranks with different arithmetic cannot train together: ";
  for (std::size_t k = 0; k < kinds.size(); ++k)
    line += (k == 0 ? "" : "; ") + std::string(ranks[k].size() > 1 ? "ranks " : "rank ") + detail::ranges(ranks[k]) +
            ": " + kinds[k].substr(bytes);
  throw config_error(line + "; start the same program on all machines, with an rlcore.instruction_set they all have");
}

}  // namespace train
RLCORE_END
#endif
