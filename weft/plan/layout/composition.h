// composition: rules for combining parallel strategies, decided in one place and one order.
//
// pp, dp, shard, cp and tp compose in any sizes, with every shard level, schedule, recompute, offload and precision; only
// conditions on the model and its samples remain. docs/composition.md has the table of these rules.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weft/nn/model.h"
#include "weft/plan/layout/layout.h"

namespace weft {

/// Facts that the rules check.
struct CompositionFacts {
  std::string model;                         ///< name of the model
  bool has_splits = false;                   ///< Model::splits has rules
  bool has_sequences = false;                ///< Model::splits_sequences
  bool has_statistics = false;               ///< running statistics (BatchNorm)
  std::string apart = {};                    ///< first block with statistics that is not Block::can_join_batches(), or empty
  std::string whole = {};                    ///< first block that is not Block::can_join_batches(), statistics or not, or empty
  int64_t tokens = 0;                        ///< tokens per sample; 0: not known
  int cp = 1;                                ///< ranks that share each sample's sequence
  int tp = 1;                                ///< ranks that share each block's layers
  bool sequence_parallel = false;            ///< sequence parallelism is requested, with tp
  int reproducible_tp = 0;                   ///< parts that layers are divided into for every tp; 0: as many as tp
  bool narrow = false;                       ///< weights and activations are narrower than float32
  SyncBatchNorm sync = SyncBatchNorm::none;  ///< ranks whose samples BatchNorm normalises together
  bool reproducible = false;                 ///< sums over samples have a fixed order
  bool tensor_norms = false;                 ///< updates need the norms of whole tensors
  bool noise_scale = false;                  ///< the gradient noise scale is measured
  bool whole_tensors = false;                ///< updates need whole tensors
  bool offloads = false;                     ///< optimizer state or weights are offloaded
  bool master = false;                       ///< the first rank of pp is the master, the others work for it
  int data_ranks = 1;                        ///< ranks of dp and shard
  bool shards = false;                       ///< state is sharded
  bool offloads_activations = false;         ///< block inputs are offloaded
  bool scales_losses = false;                ///< fp16
  int64_t loss_chunk = 0;                    ///< tokens whose losses the last block makes at a time; 0: all
  bool chunks_loss = false;                  ///< the last block is Block::can_chunk_loss()
};

/// A condition for using a strategy with a model.
struct CompositionRule {
  std::string choice;                                     ///< "layout.cp > 1"
  std::string needs;                                      ///< requirement, as documented
  std::string (*why_not)(const CompositionFacts& facts);  ///< empty if met, else the reason and the nearest valid choice
};

/// All rules, in checking order.
const std::vector<CompositionRule>& composition_rules();

/// Returns the facts of a model; `tokens` is 0 if not known.
CompositionFacts model_facts(const Model& model, int64_t tokens);
/// Returns the facts with those of a layout.
CompositionFacts with_layout(CompositionFacts facts, const LayoutOptions& options, const StepCounts& counts);
/// Returns the facts of a model and a layout.
CompositionFacts facts_of(const Model& model, const LayoutOptions& options, const StepCounts& counts, int64_t tokens);
/// Throws InputError with the first violated rule, before anything is allocated.
void check_composition(const CompositionFacts& facts);

}  // namespace weft
