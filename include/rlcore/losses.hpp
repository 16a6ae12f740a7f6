// The mathematics with views and executors: every named algorithm and what it is made of, with std::vector, std::span
// and matrices by views, on one thread or several. Eigen's and xtensor's containers have headers of their own,
// tensor/eigen.hpp and tensor/xtensor.hpp; pieces that no named algorithm has are included one by one.
#pragma once

#include "rlcore/core/version.hpp"
#include "rlcore/exec/serial.hpp"
#include "rlcore/exec/threads.hpp"
#include "rlcore/objective/aggregation.hpp"
#include "rlcore/objective/algorithms.hpp"
#include "rlcore/objective/loop/evaluate.hpp"
#include "rlcore/objective/loop/evaluate_logits.hpp"
#include "rlcore/objective/loop/evaluate_sequences.hpp"
#include "rlcore/tensor/span.hpp"
#include "rlcore/tensor/traits.hpp"
#include "rlcore/tensor/view.hpp"
