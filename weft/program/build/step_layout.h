// StepLayout: what a program is built for beside the model's costs: how ranks divide the work, and when they talk.
#pragma once

#include <cstdint>
#include <vector>

#include "weft/program/passes/offload.h"
#include "weft/program/passes/recompute.h"
#include "weft/program/pipeline/schedule.h"
#include "weft/program/program.h"

namespace weft {

/// What a step does with a model.
struct StepLayout {
  int pp = 1;                         ///< pipeline ranks
  bool master = false;                ///< they are copies (copies.h) that work for the first one, and no stages
  Schedule schedule = {};             ///< of the pipeline, for micro_batches; none: one stage, a micro-batch at a time (pp = 1)
  std::vector<int> first_block = {};  ///< of each stage; empty: the blocks evenly
  int cp = 1;                         ///< ranks that share each sample's sequence: costs are those of one of them
  int tp = 1;                         ///< ranks that share each block's layers: costs are those of one of them
  int dp = 1;                         ///< replicas
  int shard = 1;                      ///< ranks that share one replica's state
  ShardLevel shard_level = ShardLevel::none;  ///< what is divided over the ranks of `shard`
  bool reshard_after_forward = true;          ///< level parameters: release after forward, gather again for backward
  int inner_shards = 1;             ///< level parameters: ranks that keep whole weights divided between forward and backward
  int prefetch = 1;                 ///< parameters: blocks gathered ahead; gradients, parameters: reductions under way
  int64_t gathered_bytes = 0;       ///< level parameters: most bytes of gathered weights at a time; 0: no limit
  RecomputeOptions recompute = {};  ///< which blocks are computed again for backward
  OffloadOptions offload = {};      ///< what is moved to slower memory
  int weight_bytes = 4;             ///< of an element that forward reads: 2 for bf16 and fp16
  int gradient_bytes = 4;           ///< of an element that is reduced
  AxisSet batch_axes = kNoAxes;     ///< along which samples are normalised together (BatchNorm); of kDataAxes
  bool keep_order = false;     ///< gradients are reduced once, after the last micro-batch, so that the order of sums is fixed
  bool check_finite = false;   ///< fp16: the norm is needed even without clipping
  bool check_largest = false;  ///< without a norm updates wait for the largest gradient, by which they are refused
  int micro_batches = 1;       ///< per rank and step
  int slots = 1;               ///< reproducible slots per rank; 1 unless run.reproducible_slots asks for more
  int64_t bucket_bytes =
      0;              ///< level none: gradients are reduced in ranges of about this size; 0: see automatic_bucket_bytes()
  bool clip = false;  ///< adds the global norm
  bool tensor_norms = false;  ///< updates need the norms of whole tensors
  std::vector<Buffers> buffers =
      {};                    ///< by pipeline rank, of another program of this model and mesh; empty: found for this one
  bool noise_scale = false;  ///< adds what the gradient noise scale is measured by
  int votes = 0;             ///< Program::votes
};

/// Elements of a block's flat buffer once padded to divide over `shards` in whole units of 64.
int64_t padded_numel(int64_t numel, int shards);

/// The first block of each of `stages` stages with as many blocks as the others, the earlier ones one more where needed.
std::vector<int> even_stages(int blocks, int stages);

}  // namespace weft
