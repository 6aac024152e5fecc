// SyncBatchNorm: the ranks over which BatchNorm takes its mean and variance (layout.sync_batch_norm).
#pragma once

#include <cstdint>

#include "weft/base/enum_names.h"
#include "weft/program/axis_set.h"

namespace weft {

/// Ranks whose k-th micro-batches are normalised together; each value has a name in kSyncBatchNorms.
enum class SyncBatchNorm : uint8_t {
  none,   ///< each rank alone
  dp,     ///< all replicas
  shard,  ///< ranks that share a replica's state
  all     ///< all ranks that read different samples
};

inline constexpr EnumNames<SyncBatchNorm, 4> kSyncBatchNorms("none", "dp", "shard", "all");  ///< layout.sync_batch_norm

/// The axes along which samples are normalised together.
constexpr AxisSet axes_of(SyncBatchNorm sync) {
  constexpr AxisSet kAxes[] = {kNoAxes, kReplicaAxis, kShardAxis, kDataAxes};
  return kAxes[static_cast<uint8_t>(sync)];
}

/// Pieces per micro-batch (nn/ordered_sums.h) on each of `ranks`, a divisor of the slots: with slots, fewer ranks must
/// normalise the same samples together, so a rank has the samples of all its slots in one micro-batch.
constexpr int batch_pieces_of(SyncBatchNorm sync, int64_t slots, int ranks) {
  return sync == SyncBatchNorm::none || slots == 0 ? 1 : static_cast<int>(slots / ranks);
}

}  // namespace weft
