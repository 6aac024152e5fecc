// split_layers: divides a model's layers over ranks by its split table.
#pragma once

#include "weft/nn/model.h"

namespace weft {

/// Divides the layers of an unbound model over `ranks` by Model::splits, for rank `rank`; for one rank nothing is divided.
/// Allocates nothing. Throws InputError for a rule that matches no layer or whose layer cannot be split; if the number of ranks
/// does not divide the number of units (heads, for instance), naming the valid numbers of ranks; and if a layer of torch
/// modules, or the loss after them, needs its whole input but would receive a part (nn/activation_form.h).
///
/// With `fixed_parts`, a multiple of `ranks`, layers are divided into that many parts on any number of ranks, even one, and
/// each rank has several of them as its pieces (nn/tensor_parallel/reproducible_parts.h).
void split_layers(Model& model, int ranks, int rank, int fixed_parts = 0);

}  // namespace weft
