// Digests of what a rank holds of the state of a run, by what other ranks may hold too: master weights, optimizer state and
// average of its shard, whole weights gathered from shards, and buffers.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "weft/checkpoint/format/state_part.h"

namespace weft {

struct TrainerState;

/// A part of the state, on any rank that holds it.
struct HeldPart {
  StatePart part;
  int sharing = 0;          ///< parts of a number are held by the same ranks; below num_sharings()
  bool is_updated = false;  ///< only updates change it: not a statistic, a buffer or frozen
  uint64_t key() const;     ///< equal on the ranks that hold the same elements of the same tensor
};

struct PartDigest {
  std::string tensor;
  int sharing = 0;
  uint64_t key = 0, digest = 0;
};

using VisitPart = std::function<void(const HeldPart&)>;

/// The same on every rank.
int num_sharings(const TrainerState& trainer);
/// Visits what this rank holds between steps; offloaded state is loaded block by block.
void for_each_held(TrainerState& trainer, const VisitPart& visit);
/// Visits what the rank owns of a block whose state is in memory, except statistics and frozen parameters: what an update
/// changes, and nothing before it.
void for_each_updated(TrainerState& trainer, int block, const VisitPart& visit);
/// A digest of the part's elements.
uint64_t digest_of(const StatePart& part);
/// The part's elements, contiguous on the CPU.
at::Tensor elements_of(const StatePart& part);

}  // namespace weft
