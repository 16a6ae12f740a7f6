// The blocks of docs/ that need devices, models and trainers; see losses.cpp. They are bodies of templates that nobody
// instantiates: names, arguments and types are checked, whole trainers are not compiled once more (examples/ are).

namespace devices_train {
extern const rlcore::nn::config config;
extern const rlcore::ragged<std::int32_t> sequences;
extern const rlcore::nn::targets targets;
extern rlcore::optim::adamw<rlcore::cpu> optimizer;
extern float lr, temperature;
extern double norm;
extern bool recompute;
template <class = void>
void run() {
  // <snippet: docs/devices.md 1>
}
}  // namespace devices_train

namespace devices_operations {
inline void run() {
  // <snippet: docs/devices.md 2>
}
}  // namespace devices_operations

namespace devices_counting {
// <snippet: docs/devices.md 6>
}  // namespace devices_counting

namespace devices_chosen {
extern const rlcore::nn::config config;
template <class = void>
void run() {
  // <snippet: docs/devices.md 3>
}
}  // namespace devices_chosen

namespace cuda_device {
extern const rlcore::nn::config config;
template <class = void>
void run() {
  // <snippet: docs/cuda.md 1>
}
}  // namespace cuda_device

namespace devices_losses {
extern const rlcore::global_counts counts;
template <class = void>
void run() {
  // <snippet: docs/devices.md 4>
}
}  // namespace devices_losses

namespace devices_advantages {
template <class = void>
void run() {
  // <snippet: docs/devices.md 5>
}
}  // namespace devices_advantages

namespace lora {
extern const std::string base_folder, adapter_folder, target_folder;
template <class = void>
void run() {
  // <snippet: docs/lora.md 1>
}
}  // namespace lora

namespace models_family {
// <snippet: docs/models.md 1>
}  // namespace models_family

namespace npu_emulator {
template <class = void>
void run() {
  // <snippet: docs/npu.md 1>
}
}  // namespace npu_emulator

namespace vision_model {
extern const std::vector<unsigned char> png_or_jpeg;
extern const rlcore::nn::config text_model;
extern rlcore::nn::causal_lm<rlcore::cpu> model;
extern rlcore::nn::workspace<rlcore::cpu> space;
extern rlcore::nn::gradients<rlcore::cpu> gradients;
extern const std::vector<std::int32_t> ids;
extern const rlcore::nn::targets targets;
extern float temperature;
extern bool recompute;
extern const std::function<void(std::span<const float>, std::span<const float>, std::span<float>, std::span<float>)>
    slopes;
template <class = void>
void run() {
  // <snippet: docs/vision.md 1>
}
}  // namespace vision_model

namespace rewards_function {
template <class = void>
// <snippet: docs/rewards.md 1>
}  // namespace rewards_function

namespace tools_function {
// <snippet: docs/tools.md 1>
}  // namespace tools_function

namespace rollout_engine {
extern rlcore::nn::causal_lm<rlcore::cpu> model;
extern rlcore::nn::workspace<rlcore::cpu> space;
extern const std::vector<rlcore::rollout::request> requests;
extern const rlcore::rollout::generation settings;
extern const rlcore::random_key key;
template <class = void>
void run() {
  // <snippet: docs/rollout.md 1>
}
}  // namespace rollout_engine

namespace rollout_session {
extern rlcore::nn::causal_lm<rlcore::cpu> model;
extern rlcore::nn::workspace<rlcore::cpu> space;
extern const std::vector<std::int32_t> prompt;
extern const std::int32_t eos;
template <class = void>
void run() {
  // <snippet: docs/rollout.md 2>
}
}  // namespace rollout_session

namespace variants_trainer {
template <class = void>
void run(int argc, char** argv) {
  // <snippet: docs/variants.md 2>
}
}  // namespace variants_trainer

namespace strategies {
extern int argc;
extern char** argv;
extern const rlcore::nn::config config;
extern std::size_t count;
extern std::int64_t (*tokens_of)(std::uint32_t);
extern void (*add_gradient)(std::span<const std::uint32_t>);
template <class = void>
int run() {
  // <snippet: docs/parallel.md 1>
}
}  // namespace strategies
