// The blocks of README.md and docs/ that need the losses alone, each with what its text takes for granted.
// A line `// <snippet: FILE N>` stands for the N-th block of C++ in FILE; check.sh puts the block's text there and its
// #include lines at the top. Nothing here is run: the numbers of the first one are in tests/objective/readme_test.cpp.

#include "rlcore/emulator/emulated_npu.hpp"

namespace readme {
const Eigen::ArrayXXf response_mask;
inline void run() {
  // <snippet: README.md 1>
  (void)report;
}
}  // namespace readme

namespace readme_device {
const Eigen::ArrayXXf logp, old_logp, ref_logp, dlogp;
const Eigen::ArrayXf advantage;
const auto grpo = rlcore::paper::grpo();
inline void run() {
  // <snippet: README.md 2>
  (void)r;
}
}  // namespace readme_device

namespace cuda_evaluate {
const Eigen::ArrayXXf logp, old_logp, dlogp;
const Eigen::ArrayXf advantage;
inline void run() {
  // <snippet: docs/cuda.md 2>
  (void)r;
}
}  // namespace cuda_evaluate

namespace objectives_evaluate {
inline std::vector<float> rewards, advantage;
inline rlcore::matrix_view<float> logp, old_logp, ref_logp, dlogp;
inline rlcore::matrix_view<std::int64_t> response_mask;
inline rlcore::global_counts step;
inline void run() {
  // <snippet: docs/objectives.md 1>
}
inline std::vector<std::int64_t> response_lengths;
inline std::vector<rlcore::token_batch<float>> micro_batches;
inline void run_a_step() {
  const auto grpo = rlcore::paper::grpo();
  // <snippet: docs/objectives.md 2>
}
}  // namespace objectives_evaluate

namespace objectives_variants {
inline void run() {
  // <snippet: docs/objectives.md 3>
  (void)a, (void)d, (void)e;
}
}  // namespace objectives_variants

namespace objectives_kl_in_reward {
inline double score;
inline std::span<float> old_logp, ref_logp, token_reward;
inline void run() {
  // <snippet: docs/objectives.md 4>
  (void)shaped;
}
}  // namespace objectives_kl_in_reward

// <snippet: docs/objectives.md 5>

namespace objectives_advantage {
// <snippet: docs/objectives.md 6>
static_assert(requires(const leave_one_out_median a, std::vector<double> rewards, std::vector<float> advantages) {
  a(rewards, std::int64_t{8}, advantages);
});
}  // namespace objectives_advantage

namespace objectives_slope {
inline void run() {
  // <snippet: docs/objectives.md 7>
}
}  // namespace objectives_slope

namespace objectives_explain {
inline void run() {
  // <snippet: docs/objectives.md 8>
  (void)text;
}
}  // namespace objectives_explain

namespace variants_row {
using namespace rlcore;
using my_surrogate = sapo;
struct any {
  template <class A>
  any(const A&) {}
};
struct {
  const char* name;
  any made;
  const char* note;
} const rows[] = {
    // <snippet: docs/variants.md 1>
};
}  // namespace variants_row
