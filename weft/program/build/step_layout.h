// StepLayout: inputs of a program besides the model's costs: how ranks divide the work, and when they communicate.
#pragma once

#include <cstdint>
#include <vector>

#include "weft/program/passes/offload.h"
#include "weft/program/passes/recompute.h"
#include "weft/program/pipeline/schedule.h"
#include "weft/program/program.h"

namespace weft {

/// Layout of a step.
struct StepLayout {
  int pp = 1;                                 ///< pipeline ranks
  bool master = false;                        ///< all pipeline ranks are copies (copies.h) that work for the first; no stages
  Schedule schedule = {};                     ///< for micro_batches; empty: one stage, one micro-batch at a time (pp = 1)
  std::vector<int> first_block = {};          ///< first block of each stage; empty: divided evenly
  int cp = 1;                                 ///< ranks that share each sample's sequence; costs are per rank
  int tp = 1;                                 ///< ranks that share each block's layers; costs are per rank
  int dp = 1;                                 ///< replicas
  int shard = 1;                              ///< ranks that share one replica's state
  ShardLevel shard_level = ShardLevel::none;  ///< state divided over the ranks of `shard`
  bool reshard_after_forward = true;          ///< level parameters: release after forward, gather again for backward
  int inner_shards = 1;               ///< level parameters: ranks that keep whole weights divided between forward and backward
  int prefetch = 1;                   ///< level parameters: blocks gathered ahead; also level gradients: reductions in flight
  int64_t gathered_bytes = 0;         ///< level parameters: most bytes of gathered weights at once; 0: no limit
  RecomputeOptions recompute = {};    ///< blocks to recompute
  OffloadOptions offload = {};        ///< state kept in slower memory
  bool uploads = false;               ///< micro-batches are copied to a device, beside compute
  int weight_bytes = 4;               ///< bytes per element of the weights that forward reads: 2 for bf16 and fp16
  int gradient_bytes = 4;             ///< bytes per element of the gradients that are reduced
  AxisSet batch_axes = kNoAxes;       ///< axes over which samples are normalised together (BatchNorm); part of kDataAxes
  bool keep_order = false;            ///< gradients are reduced once, after the last micro-batch, to fix the order of sums
  bool check_finite = false;          ///< fp16: needs the norm even without clipping
  bool check_largest = false;         ///< without a norm, updates wait for the largest gradient to check that all are finite
  int micro_batches = 1;              ///< number per rank and step
  int slots = 1;                      ///< reproducible slots per rank; 1 without run.reproducible_slots
  int64_t bucket_bytes = 0;           ///< level none: gradient bucket size; 0: see automatic_bucket_bytes()
  bool clip = false;                  ///< adds the global norm
  bool tensor_norms = false;          ///< updates need the norms of whole tensors
  std::vector<Buffers> buffers = {};  ///< by pipeline rank, from another program of this model and mesh; empty: computed
  bool noise_scale = false;           ///< adds the gradient noise scale's squares
  bool partial_gradients = false;     ///< Program::partial_gradients
  int votes = 0;                      ///< Program::votes
};

/// Elements of a block's flat buffer, padded to divide over `shards` in units of 64.
int64_t padded_numel(int64_t numel, int shards);

/// First block of each of `stages` even stages; if they do not divide the blocks, earlier stages get one block more.
std::vector<int> even_stages(int blocks, int stages);

}  // namespace weft
