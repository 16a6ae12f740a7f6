// Generation with full logits and log-probs: single tokens of a batch at a given context, and a prompt of 512 tokens.
#include <cstdint>
#include <optional>
#include <vector>

#include "rlcore/device/cpu.hpp"
#include "rlcore/nn/head/head.hpp"
#include "rlcore/nn/model/decode.hpp"
#include "speed/bench.hpp"
#include "speed/models.hpp"

namespace speed {

namespace {

using rlcore::cpu;
namespace nn = rlcore::nn;

struct job {
  const options& o;
  cpu& device;
  nn::causal_lm<cpu>& model;
  std::string name;
  double weight_bytes;
  std::optional<rlcore::weight_format> format = {};

  /// `rows` tokens of each of `batch` sequences, after `context` others; the last row of each gives logits.
  void run(const std::string& what, std::int64_t batch, std::int64_t context, std::int64_t rows) const {
    if (!o.wants(what)) return;
    const nn::config& c = model.settings();
    const memory_peak memory;
    nn::workspace<cpu> space(device);
    const std::int64_t pages = rlcore::kv_pages(context + rows);
    nn::kv_cache<cpu> cache(device, c, batch * pages);
    std::vector<std::int32_t> ids, page, drawn;
    for (std::int64_t b = 0; b < batch; ++b) {
      for (std::int64_t r = 0; r < rows; ++r)
        ids.push_back(static_cast<std::int32_t>((b * 101 + r * 7919) % c.vocab_size));
      for (std::int64_t p = 0; p < pages; ++p) page.push_back(static_cast<std::int32_t>(b * pages + p));
      drawn.push_back(static_cast<std::int32_t>(b % c.vocab_size));
    }
    std::vector<nn::decode_chunk> chunks;
    for (std::int64_t b = 0; b < batch; ++b)
      chunks.push_back({std::span<const std::int32_t>(ids).subspan(static_cast<std::size_t>(b * rows),
                                                                   static_cast<std::size_t>(rows)),
                        context,
                        std::span<const std::int32_t>(page).subspan(static_cast<std::size_t>(b * pages),
                                                                    static_cast<std::size_t>(pages)),
                        true});
    fill(cache.layer(0), cache.bytes() / sizeof(float), 0.5f);
    std::vector<float> logits(static_cast<std::size_t>(batch * c.vocab_size)), logp(drawn.size()),
        entropy(drawn.size());
    const double s = best_seconds(
        [&] {
          nn::decode(model, space, cache, std::span<const nn::decode_chunk>(chunks), logits.data(), format);
          nn::log_prob_of(device, logits, drawn, 1.0f, logp, entropy);
        },
        o.budget());
    const auto n = static_cast<double>(batch * rows);
    const double head = 2 * static_cast<double>(c.hidden_size * c.vocab_size);
    const double mean_keys = static_cast<double>(context) + static_cast<double>(rows + 1) / 2;
    limit least;
    least.fma =
        n * (2 * product_weights(c) - head + attention_operations(c, mean_keys)) + static_cast<double>(batch) * head;
    // Of the last layer's feed-forward only the rows that give logits are needed.
    least.fma -= 6 * static_cast<double>(c.hidden_size * c.intermediate_size * batch * (rows - 1));
    const bool in_cache = weight_bytes < 1e8;
    if (!in_cache)
      least.read = weight_bytes + 8.0 * static_cast<double>(batch * context * c.num_hidden_layers *
                                                            c.num_key_value_heads * c.head_dim);
    least.overlap = true;
    print(o, {what, s, n, "token", least, memory.total()});
  }
};

}  // namespace

void generate(const options& o) {
  for (const char* name : {"1M", "0.5B"}) {
    const bool tiny = std::string_view(name) == "1M";
    for (const char* compute : computes) {
      const std::string of = std::string(name) + " " + compute;
      const bool single = compute == computes[0], int8 = single && o.only.find("int8") != std::string::npos;
      if (!o.only.empty() && o.only.find(of) == std::string::npos && of.find(o.only) == std::string::npos && !int8)
        continue;
      cpu device(o.threads, {}, single ? rlcore::compute::float32 : rlcore::compute::bfloat16);
      nn::causal_lm<cpu> model(device, model_config(name));
      fill(model.weights().data(), model.size(), 0.03f);
      const job j{o, device, model, name, (single ? 4 : 2) * product_weights(model.settings())};
      for (const std::int64_t context : {tiny ? 64 : 256, 1024}) {
        if (context == 1024 && (tiny || o.quick)) continue;
        for (const std::int64_t batch : {1, 8, 16, 64}) {
          if (o.quick && batch == 16) continue;
          j.run(of + " B=" + std::to_string(batch) + " context=" + std::to_string(context), batch, context, 1);
        }
      }
      j.run(of + " prefill=512", 1, 0, 512);
      if (!single || tiny) continue;
      const job rounded{o, device, model, name, product_weights(model.settings()), rlcore::weight_format::int8};
      for (const std::int64_t batch : {1, 8, 64})
        rounded.run(std::string(name) + " int8 B=" + std::to_string(batch) + " context=256", batch, 256, 1);
    }
  }
}

}  // namespace speed
