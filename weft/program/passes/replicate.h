// Pass: data parallelism by replicas. Every rank holds the whole model and a share of the global batch; gradients are summed
// over the ranks bucket by bucket, overlapping the backward of earlier blocks.
//
// A bucket's reduce comes right after the last backward (or combine) that fills it, so only in the last micro-batch. Memory:
// none beyond the gradients. Traffic: 2 (n-1)/n of the gradient bytes per rank and step, however many micro-batches. Runs
// after the slots are closed. One replica needs no reduce.
#pragma once

#include <vector>

#include "weft/program/buckets.h"
#include "weft/program/program.h"

namespace weft {

/// Buckets to reduce, and the ranks to reduce over.
struct ReplicateOptions {
  int replicas = 1;                    ///< ranks that hold the same part of the state
  AxisSet axes = kDataAxes;            ///< axes of these ranks
  std::vector<Bucket> buckets;         ///< each reduced in one collective
  std::vector<std::vector<int>> uses;  ///< Program::block_uses
};

/// Adds a reduce of each bucket.
InstructionList replicate(InstructionList list, const ReplicateOptions& options);

}  // namespace weft
