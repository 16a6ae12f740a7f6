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
  using cpu::run;
  void run(const op::linear_forward& o) {
    operations_ += 2.0 * static_cast<double>(o.rows) * static_cast<double>(o.outputs) * static_cast<double>(o.inputs);
    cpu::run(o);
  }
  void run(const op::attention_forward& o) {
    for (const attention_segment& s : o.segments)
      operations_ += 4.0 * static_cast<double>(s.rows * s.rows) * static_cast<double>(o.shape.heads * o.shape.head_dim);
    cpu::run(o);
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
  for (const nn::image_patches& each : shown.images) {
    operations = 0;
    const nn::vision_pass<any_device> tower(model.tower(), device, space, model.weights().data(), model.packed(),
                                            std::span(&each, 1), true, false);
    const double unit = 2.0 * static_cast<double>(c.num_hidden_layers * c.num_attention_heads * c.head_dim);
    EXPECT_DOUBLE_EQ(nn::vision_cost(c, each.grid) * unit, operations);
  }
}

}  // namespace
}  // namespace RLCORE_TEST_ID
