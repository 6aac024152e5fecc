// LayoutOptions: layout of a step over memory and ranks, without the mesh: sharding, recompute, offload, and the types for
// computing and reducing.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "weft/nn/block_layout.h"
#include "weft/program/build/build.h"
#include "weft/program/build/step_size.h"
#include "weft/recipe/precision.h"
#include "weft/recipe/sync_batch_norm.h"

namespace weft {

/// Stages and schedule, for a mesh with a pp axis.
struct PipelineOptions {
  std::string schedule = "1f1b";      ///< a name of program/build/make_schedule.h
  int chunks = 2;                     ///< stages per rank, for the interleaved schedule
  std::vector<int> first_block = {};  ///< first block of each stage; empty: divided evenly
  Schedule given = {};                ///< a ready-made schedule (automatic or custom); overrides the name
};

/// Layout of a step, without its mesh.
struct LayoutOptions {
  bool master = false;  ///< the pp axis has no stages: its first rank owns the model, all compute for it (program/copies.h)
  PipelineOptions pipeline = {};              ///< stages and schedule, for a mesh with a pp axis
  ShardLevel shard_level = ShardLevel::none;  ///< state divided over the mesh's shard axis
  bool reshard_after_forward = true;          ///< level parameters: free after forward and gather again for backward
  int inner_shards = 0;            ///< level parameters: reshard after forward over this many neighbours; 0: all shards
  int prefetch = 1;                ///< level parameters: blocks gathered ahead; also level gradients: reductions in flight
  int64_t gathered_bytes = 0;      ///< level parameters: most gathered weights at once; 0: no limit
  int recompute_every = 0;         ///< 1: every block, k: every k-th; 0: off
  bool recompute_parts = false;    ///< recomputes only the attention of transformer layers
  int64_t loss_chunk = 0;          ///< tokens whose logits and losses a head makes at a time; 0: all
  bool sequence_parallel = false;  ///< with tp: between split layers each rank has its part of the tokens
  int tp_chunks = 1;               ///< with tp: chunks whose sums overlap the next chunk's multiplication
  ContextMethod attention_over = ContextMethod::automatic;  ///< with cp: method of attention over a shared sequence
  SyncBatchNorm sync_batch_norm = SyncBatchNorm::none;      ///< ranks whose samples BatchNorm normalises together
  Precision precision = Precision::fp32;                    ///< type of weights and activations
  bool reduce_in_fp32 = false;                 ///< gradients are kept and reduced in float32; always so with reproducible slots
  Offload offload_optimizer = Offload::none;   ///< optimizer state
  Offload offload_parameters = Offload::none;  ///< the rank's shard; level parameters
  Offload offload_activations = Offload::none;  ///< block inputs; needs recompute
  std::string offload_folder = {};              ///< for disk offload; empty: $TMPDIR, or /var/tmp
};

/// Counts of a step that follow from mesh and batch.
struct StepCounts {
  int pp = 1;                  ///< pipeline ranks
  int dp = 1;                  ///< replicas
  int shard = 1;               ///< ranks that share one replica's state
  int cp = 1;                  ///< ranks that share each sample's sequence
  int tp = 1;                  ///< ranks that share each block's layers
  int reproducible_tp = 0;     ///< parts that layers are divided into for every tp; 0: as many as tp
  int micro_batches = 1;       ///< number per rank and step
  int slots = 1;               ///< number per rank and step
  int batch_pieces = 1;        ///< BlockLayout::batch_pieces
  bool reproducible = false;   ///< sums in a fixed order
  int64_t bucket_bytes = 0;    ///< level none: gradient bucket size; 0: automatic
  bool clip = false;           ///< clips by the global gradient norm
  bool tensor_norms = false;   ///< updates need the norms of whole tensors (LARS, LAMB, Adafactor)
  bool whole_tensors = false;  ///< updates need whole tensors (Muon, Adafactor)
  bool noise_scale = false;    ///< the gradient noise scale is measured
  int votes = 0;               ///< Program::votes
  bool on_device = false;      ///< copies between host and device run beside compute
};

/// True if a step has batches of two sizes, the whole and its first micro-batch, from which to measure the noise scale.
inline bool has_small_batches(int64_t global_batch, int64_t micro_batch) { return micro_batch < global_batch; }

/// Throws InputError for options that do not combine.
void check_layout(const LayoutOptions& options, bool reproducible);

/// Size of the step's schedule (program/build/step_size.h), before it is made.
ScheduleSize schedule_size(const ModelCost& model, const LayoutOptions& options, const StepCounts& counts);
/// True if a step's instructions are within the planning limit; makes no schedule.
bool is_countable(const ModelCost& model, const LayoutOptions& options, const StepCounts& counts);
/// Throws InputError if a step's instructions exceed the planning limit; makes no schedule.
void check_size(const ModelCost& model, const LayoutOptions& options, const StepCounts& counts);

/// Returns the layout to build a program for, without its schedule.
StepLayout layout_without_schedule(const LayoutOptions& options, const StepCounts& counts);
/// Returns the layout to build a program for, with its schedule. Throws InputError if the schedule does not fit these counts.
StepLayout step_layout(const LayoutOptions& options, const StepCounts& counts);

/// Program::partial_gradients. Squares of small batches, for the noise scale, are of gradients summed over tp.
bool has_partial_gradients(const LayoutOptions& options, const StepCounts& counts);
/// Returns the division of a block's work over the ranks of `tp` and `cp`; `batch_pieces` as in StepCounts. The engine sets
/// partial_gradients as its program has it.
BlockLayout block_layout(const LayoutOptions& options, int tp, int batch_pieces);

/// Bytes per element of the weights that forward reads.
int weight_bytes(Precision precision);
/// Bytes per element of the gradients that are kept and reduced.
int gradient_bytes(const LayoutOptions& options, bool reproducible);

}  // namespace weft
