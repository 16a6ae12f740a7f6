// Causal grouped-query attention, forward and backward: 4 sequences of 512 tokens, 14 heads on 2, head size 64.
#include <cmath>
#include <vector>

#include "rlcore/device/cpu.hpp"
#include "speed/bench.hpp"

namespace speed {

void attention(const options& o) {
  rlcore::cpu device(o.threads);
  const rlcore::extent_t sequences = 4, tokens = 512;
  const rlcore::attention_shape s{14, 2, 64, 0.125f};
  const rlcore::extent_t q_width = s.heads * s.head_dim, kv = s.kv_heads * s.head_dim, row = q_width + 2 * kv;
  const auto all = static_cast<std::size_t>(sequences * tokens);
  std::vector<float> qkv = numbers(all * static_cast<std::size_t>(row), 1), dqkv(qkv.size());
  std::vector<float> out(all * static_cast<std::size_t>(q_width)), dout = numbers(out.size(), 1, 2);
  std::vector<float> statistics(all * static_cast<std::size_t>(s.heads) * 2);
  std::vector<rlcore::attention_segment> segments;
  std::vector<rlcore::attention_segment_gradient> gradients;
  for (rlcore::extent_t b = 0; b < sequences; ++b) {
    const rlcore::extent_t at = b * tokens * row + q_width;
    rlcore::attention_segment segment;
    segment.keys = qkv.data() + at;
    segment.values = segment.keys + kv;
    segment.key_row = row;
    segment.first_row = b * tokens;
    segment.rows = tokens;
    segments.push_back(segment);
    gradients.push_back({dqkv.data() + at, dqkv.data() + at + kv});
  }
  const auto forward = [&] {
    device.run(rlcore::op::attention_forward{.shape = s,
                                             .segments = segments,
                                             .q = qkv.data(),
                                             .q_row = row,
                                             .out = out.data(),
                                             .out_row = q_width,
                                             .statistics = statistics.data()});
  };
  const double flops = 4.0 * static_cast<double>(s.heads * s.head_dim * sequences * (tokens * (tokens + 1) / 2));
  print(o, {"B4 H14/2 T512 D64 fp32 forward", best_seconds(forward, o.budget()), flops, "flop", {flops}});
  const double both = best_seconds(
      [&] {
        forward();
        device.fill_zero(dqkv.data(), dqkv.size() * sizeof(float));
        device.run(rlcore::op::attention_backward{.shape = s,
                                                  .segments = segments,
                                                  .gradients = gradients,
                                                  .q = qkv.data(),
                                                  .q_row = row,
                                                  .out = out.data(),
                                                  .dout = dout.data(),
                                                  .out_row = q_width,
                                                  .statistics = statistics.data(),
                                                  .dq = dqkv.data()});
      },
      o.budget());
  print(o, {"B4 H14/2 T512 D64 fp32 forward+backward", both, 3.5 * flops, "flop", {3.5 * flops}});
}

}  // namespace speed
