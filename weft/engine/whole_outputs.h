// whole_outputs: what the last block puts out, as one device has it, where ranks have parts.
#pragma once

#include <cstdint>

#include "weft/nn/flat/flat_model.h"

namespace weft {

/// The outputs [samples, ...] of a micro-batch, without autograd. Where the loss takes parts (OutputFunction::takes_parts())
/// and the last block ends in a layer that is split by columns, or by vocabulary, the first of them is this rank's part of its
/// classes: the parts of context.tp, pieces too, are put side by side. Of sequences that context.cp shares every rank gets all
/// tokens [samples, tokens, ...], in their order. Traffic a rank: (n-1)/n of the bytes of what is whole, for n ranks of either.
/// Throws InputError for an output without tokens where the ranks of cp share them. Collective over tp and cp.
Tensors whole_outputs(const FlatModel& model, Tensors outputs, int64_t samples, const Context& context);

}  // namespace weft
