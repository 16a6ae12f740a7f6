// Models and their rollout on the cpu device (the target rlcore::models).
#include "rlcore/nn/head/head_rows.hpp"
#include "rlcore/nn/lora/lora.hpp"
#include "rlcore/nn/lora/lora_gradients.hpp"
#include "rlcore/nn/model/backbone.hpp"
#include "rlcore/nn/model/causal_lm.hpp"
#include "rlcore/nn/model/gradients.hpp"
#include "rlcore/nn/model/head_sums.hpp"
#include "rlcore/nn/model/normed_rows.hpp"
#include "rlcore/nn/model/packed_batch.hpp"
#include "rlcore/nn/model/packed_weights.hpp"
#include "rlcore/nn/model/workspace.hpp"
#include "rlcore/nn/moe/moe.hpp"
#include "rlcore/nn/parallel/context_gather.hpp"
#include "rlcore/nn/parallel/context_pass.hpp"
#include "rlcore/nn/parallel/context_ring.hpp"
#include "rlcore/nn/parallel/context_share.hpp"
#include "rlcore/nn/parallel/context_ulysses.hpp"
#include "rlcore/nn/parallel/context_wire.hpp"
#include "rlcore/nn/vision/image_rows.hpp"
#include "rlcore/nn/vision/vision_pass.hpp"
#include "rlcore/optim/adamw.hpp"
#include "rlcore/parallel/reduction/gradient_sums.hpp"
#include "rlcore/rollout/engine.hpp"
#include "rlcore/rollout/pass_results.hpp"
#include "rlcore/rollout/prompt_images.hpp"
#include "rlcore/rollout/sampler.hpp"
#include "rlcore/rollout/session.hpp"

RLCORE_BEGIN
template class nn::causal_lm<cpu>;
template class nn::workspace<cpu>;
template class nn::gradients<cpu>;
template class nn::backbone<cpu>;
template class nn::packed_weights<cpu>;
template class nn::head_sums<cpu>;
template class nn::lora<cpu>;
template class nn::lora_gradients<cpu>;
template class nn::vision_pass<cpu>;
template class nn::image_rows<cpu>;
template class nn::head_rows<cpu>;
template class nn::context_pass<cpu>;
template class nn::context_gather<cpu>;
template class nn::context_ring<cpu>;
template class nn::context_ulysses<cpu>;
template class nn::context_wire<cpu>;
template struct nn::context_share<cpu>;
template struct nn::packed_batch<cpu>;
template struct nn::expert_visit<cpu>;
template struct nn::normed_rows<cpu>;
template class optim::adamw<cpu>;
template class parallel::gradient_sums<cpu>;
template class rollout::session<cpu>;
template class rollout::engine<cpu>;
template class rollout::prompt_images<cpu>;
template class rollout::pass_results<cpu>;
template class rollout::sampler<cpu>;
RLCORE_END
