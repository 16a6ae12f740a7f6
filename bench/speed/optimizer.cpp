// AdamW and the gradient's norm over as many parameters as GPT-2 has in its products.
#include <vector>

#include "rlcore/device/cpu.hpp"
#include "rlcore/optim/adamw.hpp"
#include "speed/bench.hpp"

namespace speed {

void optimizer(const options& o) {
  const std::size_t n = o.quick ? 24'000'000 : 96'100'000;
  rlcore::cpu device(o.threads);
  rlcore::buffer<float, rlcore::cpu> weights(device, n), gradient(device, n);
  fill(weights.data(), n, 0.05f, 1);
  fill(gradient.data(), n, 0.001f, 2);
  const std::string of = " " + std::to_string(n / 1000000) + " M";
  const auto size = static_cast<double>(n);
  if (o.wants("adamw")) {
    rlcore::optim::adamw<rlcore::cpu> adamw(device, n);
    const double s = best_seconds([&] { adamw.step(weights, gradient, 1e-5, 0.5f); }, o.budget());
    // w, m and v are rewritten, g is read: 28 bytes for a parameter, at the speed of memory that is rewritten.
    print(o, {"adamw" + of, s, 28 * size, "byte", {0, 0, 28 * size}});
    volatile double norm = 0;
    const double both = best_seconds(
        [&] {
          norm = rlcore::optim::global_norm(device, gradient);
          adamw.step(weights, gradient, 1e-5, rlcore::optim::clip_scale(norm, 1));
        },
        o.budget());
    print(o, {"clip+adamw" + of, both, 32 * size, "byte", {0, 4 * size, 28 * size}});
  }
  if (!o.wants("global norm")) return;
  volatile double norm = 0;
  const double s = best_seconds([&] { norm = rlcore::optim::global_norm(device, gradient); }, o.budget());
  print(o, {"global norm" + of, s, 4 * size, "byte", {0, 4 * size, 0}});
}

}  // namespace speed
