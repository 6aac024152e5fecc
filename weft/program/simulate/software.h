// software: a pass as other software runs it (SoftwareCosts), from the operators that weft counts.
//
// Products stay. Attention that is not fused becomes products and the softmax's bytes. Norms, activations, rotary embeddings
// and the loss have their bytes per element; what weft launches besides (copies, sums, what it computes again) is left out.
#pragma once

#include <array>

#include "weft/base/operator_work.h"
#include "weft/program/program.h"
#include "weft/program/simulate/operator_time.h"

namespace weft {

/// The operators of a pass as the software runs them.
PassOperators run_by(const SoftwareCosts& software, const PassOperators& operators);

/// Bytes of the software's loss and its backward, from the operators of weft's.
double loss_bytes(const SoftwareCosts& software, const PassOperators& operators);

/// Times of a block's passes on hardware with SoftwareCosts, with what a layer's backward repeats and what its host takes.
std::array<ComputingTimes, kNumPasses> software_times(const BlockOperators& block, const Hardware& hardware);

/// True if the software computes while this instruction moves bytes.
bool software_overlaps(const SoftwareCosts& software, const Instruction& moves, ShardLevel level);

}  // namespace weft
