// A small model of split layers, and possible mistakes in a block, its loss or its weights: each trains without an error.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "weft/nn/model.h"

namespace weft {

/// A mistake in the model.
enum class Fault {
  none,
  tokens_not_summed,      ///< embedding: each rank of tp continues with the rows of its own entries
  local_positions,        ///< embedding: positions from 0 on each rank of cp
  local_keys,             ///< attention: each rank of cp attends to its own tokens
  rows_not_summed,        ///< linear by rows: no sum over tp
  bias_in_every_part,     ///< linear by rows: each rank of tp adds the bias before the sum
  columns_not_summed,     ///< linear by columns: its input's gradient is that of a part
  columns_summed_twice,   ///< the same, by every rank of tp once more
  norm_not_summed,        ///< sequence parallel: a norm's gradient is that of the rank's tokens
  gathered_as_if_alike,   ///< sequence parallel: the tokens are gathered for a part of the columns, their gradients not summed
  dropped_by_rank,        ///< sequence parallel: the mask does not follow the token
  counted_on_every_rank,  ///< a whole parameter says that it is split: every rank of tp has it in the gradient norm
  parts_alike,            ///< every rank of tp begins with the first one's part of the weight
  mean_of_local_means,    ///< loss: divided by the targets of the rank of cp
  loss_of_own_classes,    ///< loss: each rank of tp knows its classes alone
  padding_in_the_loss,    ///< loss: classes that only make the vocabulary divisible count too
};

inline constexpr int64_t kSplitVocabulary = 13;  ///< which nothing divides
inline constexpr int64_t kSplitTokens = 8;       ///< of a sample
inline constexpr int64_t kSplitTargets = 5;      ///< of these, counted

/// Embedding, two layers of attention and an MLP, head; made on a rank of so many that share its layers.
Model split_model(Fault fault, int tp);

}  // namespace weft
