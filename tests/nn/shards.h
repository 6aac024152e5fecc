// The flat models of several ranks in one thread, and the concatenation of their parts.
#pragma once

#include <ATen/ops/cat.h>

#include <functional>
#include <memory>
#include <vector>

#include "weft/models/gpt.h"
#include "weft/nn/flat/flat_model.h"

namespace weft {

using FlatRanks = std::vector<std::unique_ptr<FlatModel>>;

inline Model tiny_gpt() { return gpt({.layers = 2, .heads = 2, .width = 16, .context = 8, .vocabulary = 11}); }

/// `make` makes the model of one rank.
inline FlatRanks flat_ranks(const std::function<Model()>& make, FlatOptions options) {
  FlatRanks ranks;
  for (options.shard = 0; options.shard < options.num_shards; ++options.shard) {
    ranks.push_back(std::make_unique<FlatModel>(make(), options));
  }
  return ranks;
}

inline void initialise(FlatModel& flat, uint64_t seed) {
  for (int b = 0; b < flat.num_blocks(); ++b) flat.initialise(b, seed);
}

inline void initialise(FlatRanks& ranks, uint64_t seed) {
  for (const auto& flat : ranks) initialise(*flat, seed);
}

/// The block's `part` (the master weights, ...) of all ranks, concatenated.
inline at::Tensor join(const FlatRanks& ranks, int block, at::Tensor FlatBlock::*part) {
  std::vector<at::Tensor> parts;
  for (const auto& flat : ranks) parts.push_back(flat->flat(block).*part);
  return at::cat(parts);
}

}  // namespace weft
