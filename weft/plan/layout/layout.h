// LayoutOptions: how a step is laid out over memory and ranks, beside the mesh: what is sharded, computed again, moved out, and
// in which types it is computed and reduced.
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

/// How the model is cut into stages and in which order they run; for a mesh with a pp axis.
struct PipelineOptions {
  std::string schedule = "1f1b";      ///< a name of program/build/make_schedule.h
  int chunks = 2;                     ///< stages a rank, for the interleaved schedule
  std::vector<int> first_block = {};  ///< of each stage; empty: the blocks evenly
  Schedule given = {};                ///< made beforehand (automatic, or the user's own); takes the place of the name
};

/// What is done with a step beside the mesh.
struct LayoutOptions {
  bool master = false;  ///< the pp axis has no stages: its first rank owns the model, all work for it (program/copies.h)
  PipelineOptions pipeline = {};              ///< for a mesh with a pp axis
  ShardLevel shard_level = ShardLevel::none;  ///< what is divided over the mesh's shard axis
  bool reshard_after_forward = true;          ///< level parameters: gather again for backward
  int inner_shards = 0;            ///< level parameters: after forward, over so many neighbours only; 0: all of the shard axis
  int prefetch = 1;                ///< parameters: blocks gathered ahead; gradients, parameters: reductions under way
  int64_t gathered_bytes = 0;      ///< level parameters: most whole weights at a time; 0: no limit
  int recompute_every = 0;         ///< 1: every block, k: every k-th; 0: none
  bool recompute_parts = false;    ///< attention of transformer layers only
  bool sequence_parallel = false;  ///< with tp: between split layers each of its ranks has its part of the tokens
  int tp_chunks = 1;               ///< with tp: chunks in which a sum over it travels while the next one is multiplied
  ContextMethod attention_over = ContextMethod::automatic;  ///< with cp: how ranks attend over a sequence that they share
  SyncBatchNorm sync_batch_norm = SyncBatchNorm::none;      ///< whose samples BatchNorm normalises together
  Precision precision = Precision::fp32;                    ///< of weights and activations
  bool reduce_in_fp32 = false;                 ///< gradients are kept and reduced in float32; always so with reproducible slots
  Offload offload_optimizer = Offload::none;   ///< optimizer state
  Offload offload_parameters = Offload::none;  ///< the rank's shard; level parameters
  Offload offload_activations = Offload::none;  ///< block inputs; needs recompute
  std::string offload_folder = {};              ///< of what is offloaded to disk; empty: $TMPDIR, or /var/tmp
};

/// What mesh and batch say of a step.
struct StepCounts {
  int pp = 1;                  ///< pipeline ranks
  int dp = 1;                  ///< replicas
  int shard = 1;               ///< ranks that share one replica's state
  int cp = 1;                  ///< ranks that share each sample's sequence
  int tp = 1;                  ///< ranks that share each block's layers
  int reproducible_tp = 0;     ///< parts that layers are divided into whatever tp is; 0: as many as tp
  int micro_batches = 1;       ///< per rank and step
  int slots = 1;               ///< per rank and step
  int batch_pieces = 1;        ///< BlockLayout::batch_pieces
  bool reproducible = false;   ///< sums in a fixed order
  int64_t bucket_bytes = 0;    ///< level none: gradients are reduced in ranges of about this size; 0: as their sum asks
  bool clip = false;           ///< by the global gradient norm
  bool tensor_norms = false;   ///< updates need the norms of whole tensors (LARS, LAMB, Adafactor)
  bool whole_tensors = false;  ///< updates need whole tensors (Muon, Adafactor)
  bool noise_scale = false;    ///< the gradient noise scale is measured
  int votes = 0;               ///< Program::votes
};

/// Whether a step has two different batches, the whole and its first micro-batch, as the noise scale is measured by.
inline bool has_small_batches(int64_t global_batch, int64_t micro_batch) { return micro_batch < global_batch; }

/// Throws InputError for options that do not go together.
void check_layout(const LayoutOptions& options, bool reproducible);

/// The size of the step's schedule (program/build/step_size.h), before it is made.
ScheduleSize schedule_size(const ModelCost& model, const LayoutOptions& options, const StepCounts& counts);
/// Whether a step has no more instructions than are planned, before its schedule is made.
bool is_countable(const ModelCost& model, const LayoutOptions& options, const StepCounts& counts);
/// Throws InputError where a step has more instructions than are planned, before its schedule is made.
void check_size(const ModelCost& model, const LayoutOptions& options, const StepCounts& counts);

/// The layout to build a program for, all but the schedule, which is not made.
StepLayout layout_without_schedule(const LayoutOptions& options, const StepCounts& counts);
/// The layout to build a program for, with its schedule. Throws InputError for a schedule that these counts do not go with.
StepLayout step_layout(const LayoutOptions& options, const StepCounts& counts);

/// How the ranks of `tp` and `cp` share the work of blocks; `batch_pieces` as StepCounts has them.
BlockLayout block_layout(const LayoutOptions& options, int tp, int batch_pieces);

/// Bytes of an element of the weights that forward reads.
int weight_bytes(Precision precision);
/// Bytes of an element of the gradients that are kept and reduced.
int gradient_bytes(const LayoutOptions& options, bool reproducible);

}  // namespace weft
