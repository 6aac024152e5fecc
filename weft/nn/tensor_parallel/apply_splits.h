// split_layers: a model whose layers are divided over ranks by its split table.
#pragma once

#include "weft/nn/model.h"

namespace weft {

/// Divides the layers of a model that is not bound yet over `ranks` by Model::splits, for this rank of them; for one rank
/// nothing is divided. Nothing is allocated. Throws InputError for a rule that no layer has the name of or whose layer cannot
/// be split, where the ranks do not divide what must not be cut, naming the numbers of ranks that do, and where a layer of
/// torch modules, or the loss after them, would be given parts of what it takes whole (nn/activation_form.h).
///
/// With `fixed_parts`, which `ranks` divides, layers are divided into so many parts on any number of ranks, one too, of which
/// each has its pieces (nn/tensor_parallel/reproducible_parts.h).
void split_layers(Model& model, int ranks, int rank, int fixed_parts = 0);

}  // namespace weft
