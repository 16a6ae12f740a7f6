// The clipped loss of the policy recipes, compiled once for all of them.
#pragma once

#include <memory>

#include "rlcore/device/any_device.hpp"
#include "rlcore/objective/aggregation.hpp"
#include "rlcore/objective/piece/combine/sum.hpp"
#include "rlcore/objective/piece/divergence/any_divergence.hpp"
#include "rlcore/objective/piece/entropy.hpp"
#include "rlcore/objective/piece/surrogate/clipped.hpp"
#include "rlcore/trainer/policy/algorithm/composed_loss.hpp"

RLCORE_BEGIN
namespace trainer {

namespace detail {
/// The clipped loss of the recipes, with the terms that are present.
template <class... Terms>
using clipped_loss = composed_loss<sum<dual_clip, Terms...>, any_aggregation>;
using kl_term = scaled<any_divergence>;
using entropy_term = scaled<token_entropy>;
}  // namespace detail

#if defined(RLCORE_COMPILED)
extern template class composed_loss<sum<dual_clip>, any_aggregation>;
extern template std::unique_ptr<loss_on_device> detail::clipped_loss<>::on_device(any_device&, const global_counts&,
                                                                                  extent_t) const;
extern template class composed_loss<sum<dual_clip, detail::kl_term>, any_aggregation>;
extern template std::unique_ptr<loss_on_device> detail::clipped_loss<detail::kl_term>::on_device(any_device&,
                                                                                                 const global_counts&,
                                                                                                 extent_t) const;
extern template class composed_loss<sum<dual_clip, detail::entropy_term>, any_aggregation>;
extern template std::unique_ptr<loss_on_device> detail::clipped_loss<detail::entropy_term>::on_device(
    any_device&, const global_counts&, extent_t) const;
extern template class composed_loss<sum<dual_clip, detail::kl_term, detail::entropy_term>, any_aggregation>;
extern template std::unique_ptr<loss_on_device> detail::clipped_loss<detail::kl_term, detail::entropy_term>::on_device(
    any_device&, const global_counts&, extent_t) const;
#endif

}  // namespace trainer
RLCORE_END
