// composition: which ways of splitting go together, decided in one place and one order.
//
// pp, dp, shard, cp and tp compose in any sizes, with every shard level, schedule, recompute, offload and precision; what
// remains are conditions on the model and its samples. docs/composition.md has the table of these rules.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weft/nn/model.h"
#include "weft/plan/layout/layout.h"

namespace weft {

/// What the rules look at.
struct CompositionFacts {
  std::string model;               ///< its name
  bool has_splits = false;         ///< Model::splits has rules
  bool has_sequences = false;      ///< Model::splits_sequences
  bool has_statistics = false;     ///< running ones, as BatchNorm's
  std::string apart = {};          ///< a block with such that is not Block::can_join_batches(); empty: none
  std::string whole = {};          ///< a block that is not Block::can_join_batches(), with or without them; empty: none
  int64_t tokens = 0;              ///< of a sample; 0: not known
  int cp = 1;                      ///< ranks that share each sample's sequence
  int tp = 1;                      ///< ranks that share each block's layers
  bool sequence_parallel = false;  ///< asked for, with tp
  int reproducible_tp = 0;         ///< parts that layers are divided into whatever tp is; 0: as many as tp
  bool narrow = false;             ///< weights and activations are narrower than float32
  SyncBatchNorm sync = SyncBatchNorm::none;  ///< whose samples are to be normalised together
  bool reproducible = false;                 ///< sums over samples are to be in a fixed order
  bool tensor_norms = false;                 ///< updates need the norms of whole tensors
  bool noise_scale = false;                  ///< the gradient noise scale is measured
  bool whole_tensors = false;                ///< updates need whole tensors
  bool offloads = false;                     ///< optimizer state or weights wait elsewhere
  bool master = false;                       ///< the ranks of pp work for the first of them
  int data_ranks = 1;                        ///< of dp and shard
  bool shards = false;                       ///< state is divided over shard
  bool offloads_activations = false;         ///< block inputs wait elsewhere
  bool scales_losses = false;                ///< fp16
};

/// A condition under which a way of splitting goes with a model.
struct CompositionRule {
  std::string choice;                                     ///< "layout.cp > 1"
  std::string needs;                                      ///< what it needs, for the page
  std::string (*why_not)(const CompositionFacts& facts);  ///< empty where it holds; else the reason and the nearest that goes
};

/// All rules, in the order in which they are asked.
const std::vector<CompositionRule>& composition_rules();

/// The facts of a model and a layout; tokens 0 where they are not known.
CompositionFacts facts_of(const Model& model, const LayoutOptions& options, const StepCounts& counts, int64_t tokens);
/// Throws InputError with the first reason why these do not go together. Nothing has been allocated by then.
void check_composition(const CompositionFacts& facts);

}  // namespace weft
