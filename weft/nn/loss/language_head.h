// language_head: the last block of a language model, which makes logits from activations, or losses without ever having the
// logits of all tokens.
//
// Logits are vocabulary / width times as large as the activation they come from, and their gradient stands beside them. With
// BlockLayout::loss_chunk the head makes logits and losses of so many tokens at a time, keeps no logits but its input and the
// normalised input (of all tokens, with sequence_parallel), and makes each chunk's logits again in backward (as Wijmans et al.
// 2024, arXiv:2411.09009, do in one kernel). This costs a third product beside those of backward: 8 floating-point operations
// per token and weight instead of 6. Each chunk adds to the weight gradient in that gradient's own type.
#pragma once

#include <cstdint>

#include "weft/nn/block.h"
#include "weft/nn/functional/weighted_layer.h"

namespace weft {

/// Returns logits [batch, tokens, vocabulary], from x [batch, tokens, width] by the norm and then the layer, as normed_linear()
/// returns them. With Context::target [batch, tokens] and loss_chunk it returns instead what vocabulary_cross_entropy() and
/// vocabulary_hits() (nn/loss/split_cross_entropy.h) then take: the summed losses of chunks, [chunks], and in evaluation their
/// hits. Chunks are consecutive tokens of the micro-batch. Over context.tp each chunk sends what the same tokens send at once
/// and, in backward, their losses' numbers again; with sequence_parallel tokens are gathered first. Throws InputError for
/// targets that are not [batch, tokens], or, on the CPU, neither one of the `vocabulary` words nor -100.
Tensors language_head(const at::Tensor& x, const NormParameters& norm, const LinearParameters& layer, int64_t vocabulary,
                      const Context& context);

}  // namespace weft
