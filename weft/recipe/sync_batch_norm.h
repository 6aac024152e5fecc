// SyncBatchNorm: over which ranks BatchNorm takes its mean and variance (layout.sync_batch_norm).
#pragma once

#include <cstdint>

#include "weft/base/enum_names.h"
#include "weft/program/axis_set.h"

namespace weft {

/// Whose k-th micro-batches are normalised together; a value stands for its kSyncBatchNorms word.
enum class SyncBatchNorm : uint8_t {
  none,   ///< each by itself
  dp,     ///< those of all replicas
  shard,  ///< those of the ranks that share a replica's state
  all     ///< those of all ranks that read different samples
};

inline constexpr EnumNames<SyncBatchNorm, 4> kSyncBatchNorms("none", "dp", "shard", "all");  ///< layout.sync_batch_norm

/// The axes along which samples are normalised together.
constexpr AxisSet axes_of(SyncBatchNorm sync) {
  constexpr AxisSet kAxes[] = {kNoAxes, kReplicaAxis, kShardAxis, kDataAxes};
  return kAxes[static_cast<uint8_t>(sync)];
}

/// Into how many pieces a micro-batch falls (nn/ordered_sums.h) on each of `ranks` that divide the slots: with them, what is
/// normalised together must be the same on fewer ranks, so that a rank has all of its slots' samples in one micro-batch.
constexpr int batch_pieces_of(SyncBatchNorm sync, int64_t slots, int ranks) {
  return sync == SyncBatchNorm::none || slots == 0 ? 1 : static_cast<int>(slots / ranks);
}

}  // namespace weft
