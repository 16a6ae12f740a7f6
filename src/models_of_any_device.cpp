// Models and their rollout on a device chosen at run time (the target rlcore::models).
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
template class nn::causal_lm<any_device>;
template class nn::workspace<any_device>;
template class nn::gradients<any_device>;
template class nn::backbone<any_device>;
template class nn::packed_weights<any_device>;
template class nn::head_sums<any_device>;
template class nn::lora<any_device>;
template class nn::lora_gradients<any_device>;
template class nn::vision_pass<any_device>;
template class nn::image_rows<any_device>;
template class nn::head_rows<any_device>;
template class nn::context_pass<any_device>;
template class nn::context_gather<any_device>;
template class nn::context_ring<any_device>;
template class nn::context_ulysses<any_device>;
template class nn::context_wire<any_device>;
template struct nn::context_share<any_device>;
template struct nn::packed_batch<any_device>;
template struct nn::expert_visit<any_device>;
template struct nn::normed_rows<any_device>;
template class optim::adamw<any_device>;
template class parallel::gradient_sums<any_device>;
template class rollout::session<any_device>;
template class rollout::engine<any_device>;
template class rollout::prompt_images<any_device>;
template class rollout::pass_results<any_device>;
template class rollout::sampler<any_device>;
RLCORE_END
