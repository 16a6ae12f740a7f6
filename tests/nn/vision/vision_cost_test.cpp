#include "rlcore/nn/vision/vision_cost.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "nn/tiny_vision.hpp"
#include "rlcore/device/any_device.hpp"
#include "rlcore/device/cpu.hpp"
#include "rlcore/nn/model/causal_lm.hpp"
#include "rlcore/nn/vision/vision_pass.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;

/// Counts the operations of products and of attention.
class counting_cpu : public cpu {
 public:
  explicit counting_cpu(double& operations) : cpu(1), operations_(operations) {}
  void linear_forward(float* y, const float* x, const std::byte* packed, weight_format format, const float* bias,
                      extent_t t, extent_t o, extent_t i) {
    operations_ += 2.0 * static_cast<double>(t) * static_cast<double>(o) * static_cast<double>(i);
    cpu::linear_forward(y, x, packed, format, bias, t, o, i);
  }
  void attention_forward(const attention_shape& shape, std::span<const attention_segment> segments, const float* q,
                         extent_t row, float* out, extent_t out_row, float* statistics) {
    for (const attention_segment& s : segments)
      operations_ += 4.0 * static_cast<double>(s.rows * s.rows) * static_cast<double>(shape.heads * shape.head_dim);
    cpu::attention_forward(shape, segments, q, row, out, out_row, statistics);
  }

 private:
  double& operations_;
};

TEST(vision_cost, is_the_work_of_a_pass_of_the_tower) {
  double operations = 0;
  any_device_of<counting_cpu> device(operations);
  nn::causal_lm<any_device> model(device, tiny_vision::config());
  model.initialize(1);
  nn::workspace<any_device> space(device);
  const nn::config& c = model.settings();
  const tiny_vision::prompt shown(1, {{10, 14}, {2, 2}, {6, 20}});
  for (const nn::picture& each : shown.pictures) {
    operations = 0;
    const nn::vision_pass<any_device> tower(model.tower(), device, space, model.weights().data(), model.packed(),
                                              std::span(&each, 1), true, false);
    const double unit = 2.0 * static_cast<double>(c.num_hidden_layers * c.num_attention_heads * c.head_dim);
    EXPECT_DOUBLE_EQ(nn::vision_cost(c, each.grid) * unit, operations);
  }
}

}  // namespace
}  // namespace RLCORE_TEST_ID
