// LayoutOptions: how a step is laid out over memory and ranks, beside the mesh: what is sharded, computed again, moved out, and
// in which types it is computed and reduced.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "weft/program/build/build.h"
#include "weft/program/build/step_size.h"

namespace weft {

/// Types of the weights that forward reads and of activations. The optimizer keeps float32 master weights beside narrower ones;
/// normalisations and losses are computed in float32. fp16 scales the loss (Micikevicius et al. 2018, arXiv:1710.03740).
enum class Precision { fp32, bf16, fp16 };

/// Where state is kept while a step does not need it.
enum class Offload { none, host, disk };

/// How the model is cut into stages and in which order they run; for a mesh with a pp axis.
struct PipelineOptions {
  std::string schedule = "1f1b";      ///< a name of program/build/make_schedule.h
  int chunks = 2;                     ///< stages a rank, for the interleaved schedule
  std::vector<int> first_block = {};  ///< of each stage; empty: the blocks evenly
  Schedule given = {};                ///< made beforehand (automatic, or the user's own); takes the place of the name
};

struct LayoutOptions {
  PipelineOptions pipeline = {};
  ShardLevel shard_level = ShardLevel::none;
  bool reshard_after_forward = true;  ///< level parameters: gather again for backward
  int inner_shards = 0;          ///< level parameters: after forward, over so many neighbours only; 0: all of the shard axis
  int prefetch = 1;              ///< parameters: blocks gathered ahead; gradients, parameters: reductions under way
  int64_t gathered_bytes = 0;    ///< level parameters: most whole weights at a time; 0: no limit
  int recompute_every = 0;       ///< 1: every block, k: every k-th; 0: none
  bool recompute_parts = false;  ///< attention of transformer layers only
  Precision precision = Precision::fp32;
  bool reduce_in_fp32 = false;  ///< gradients are kept and reduced in float32; always so with reproducible slots
  Offload offload_optimizer = Offload::none;
  Offload offload_parameters = Offload::none;   ///< the rank's shard; level parameters
  Offload offload_activations = Offload::none;  ///< block inputs; needs recompute
  std::string offload_folder = {};              ///< of the disk tier; empty: $TMPDIR, or /var/tmp
};

struct StepCounts {
  int pp = 1;
  int dp = 1;
  int shard = 1;
  int micro_batches = 1;  ///< per rank and step
  int slots = 1;          ///< per rank and step
  bool reproducible = false;
  int64_t bucket_bytes = 25 << 20;
  bool clip = false;
};

/// Throws InputError for options that do not go together.
void check_layout(const LayoutOptions& options, bool reproducible);

/// Of the step's schedule (program/build/step_size.h), before it is made.
ScheduleSize schedule_size(const ModelCost& model, const LayoutOptions& options, const StepCounts& counts);
/// Whether a step has no more instructions than are planned, before its schedule is made.
bool is_countable(const ModelCost& model, const LayoutOptions& options, const StepCounts& counts);
/// Throws InputError where it has more.
void check_size(const ModelCost& model, const LayoutOptions& options, const StepCounts& counts);

/// Throws InputError for a schedule that these counts do not go with.
StepLayout step_layout(const LayoutOptions& options, const StepCounts& counts);

/// Bytes of an element.
int weight_bytes(Precision precision);
int gradient_bytes(const LayoutOptions& options, bool reproducible);

std::string_view name(Precision precision);
std::string_view name(Offload tier);

}  // namespace weft
