// Everything that a model in training has with strategy::alone (alone_symbols.sh). With ONLY_PASSES: the passes that it
// makes through nn, without it.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "rlcore/device/cpu.hpp"
#include "rlcore/nn/model/forward_backward.hpp"

#if defined(ONLY_PASSES)
#include "rlcore/nn/lora/lora_gradients.hpp"
#else
#include "rlcore/train/files/trained_files.hpp"
#include "rlcore/train/model/scored_groups.hpp"
#include "rlcore/train/model/trainable_model.hpp"
#endif

using namespace rlcore;

namespace {

const auto slopes = [](auto&&...) {};

}  // namespace

#if defined(ONLY_PASSES)

template <class Gradient>
void pass(const nn::causal_lm<cpu>& model, nn::workspace<cpu>& space, Gradient& gradient,
          const ragged<std::int32_t>& rows, const nn::targets& wanted) {
  nn::forward_backward(model, space, gradient, rows, wanted, 1.0f, true, slopes);
  nn::value_forward_backward(model, space, gradient, rows, wanted.row, true, slopes);
}
void all_passes(nn::causal_lm<cpu>& model, nn::gradients<cpu>& whole, nn::lora_gradients<cpu>& adapters,
                const ragged<std::int32_t>& rows, const nn::targets& wanted, nn::router_counts& counts) {
  nn::workspace<cpu> space(model.device());
  pass(model, space, whole, rows, wanted);
  pass(model, space, adapters, rows, wanted);
  nn::count_routes(model, space, rows, counts);
}

#else

template class rlcore::train::trainable_model<cpu, strategy::alone>;
template class rlcore::train::frozen_model<cpu, strategy::alone>;

using trained = train::trainable_model<cpu, strategy::alone>;
using frozen = train::frozen_model<cpu, strategy::alone>;
template void rlcore::train::load_weights(trained&, const std::filesystem::path&);
template void rlcore::train::load_weights(frozen&, const std::filesystem::path&, std::uint64_t);
template void rlcore::train::save_checkpoint(const trained&, const std::filesystem::path&, const train::model_source&,
                                             const nlohmann::ordered_json&);
template train::restored_checkpoint rlcore::train::restore_checkpoint(trained&, const std::filesystem::path&);

/// The member templates, and what trainers ask of the strategy.
double all_of_a_step(trained& model, const ragged<std::int32_t>& rows, const nn::targets& wanted) {
  model.begin_update();
  model.for_micro_batches(
      {.rows = 8, .max_rows = 2}, [](std::uint32_t) { return 3; },
      [&](std::span<const std::uint32_t>) {
        model.forward_backward(rows, wanted, 1.0f, slopes);
        model.value_forward_backward(rows, wanted.row, slopes);
      });
  const auto whole = model.gather_full_params();
  model.with_base([] {});
  double report = model.apply({.lr = 1e-3, .grad_clip = 1}).gradient_norm;
  std::vector<double> numbers(train::own_rows(model, 8, [](std::size_t) { return 3; }).size());
  train::sum_over_ranks(model, report);
  train::gather_rows(model, numbers);
  return train::writes(model) ? report : numbers[0];
}

#endif
