// whole_outputs: the last block's outputs as one device would have them, joined from the parts that ranks have.
#pragma once

#include <cstdint>

#include "weft/nn/flat/flat_model.h"

namespace weft {

/// Returns the outputs [samples, ...] of a micro-batch, without autograd. If the loss takes parts
/// (OutputFunction::takes_parts()) and the last block ends in a layer split by columns or by vocabulary, the first output is
/// this rank's part of the classes: the parts of context.tp, and pieces, are joined. If context.cp shares sequences, every rank
/// gets all tokens [samples, tokens, ...] in order. Traffic per rank: (n-1)/n of the whole bytes, for n ranks of tp or cp.
/// Throws InputError for an output without tokens if ranks of cp share them. Collective over tp and cp.
Tensors whole_outputs(const FlatModel& model, Tensors outputs, int64_t samples, const Context& context);

}  // namespace weft
