// GroupOptions: how a group moves its bytes.
#pragma once

#include <c10/core/Device.h>

#include <chrono>
#include <cstdint>

#include "weft/base/enum_names.h"

namespace weft {

/// Which engine moves the bytes. `automatic`: shm where all ranks of the group are on one host and the tensors on the CPU,
/// NCCL where they are on GPUs; over several hosts two levels, shm inside each and Gloo between them.
enum class BackendKind { automatic, shm, gloo, nccl };
/// The words for back ends, as recipes have them.
inline constexpr EnumNames<BackendKind, 4> kBackends("auto", "shm", "gloo", "nccl");

/// How sums of float32 cross from host to host: as they are, or rounded to bfloat16, half the bytes. Hosts add up in float32
/// either way, and all ranks get the same result.
enum class AcrossHosts { exact, bf16 };
/// The words for them, as recipes have them.
inline constexpr EnumNames<AcrossHosts, 2> kAcrossHosts("exact", "bf16");

/// How a group moves its bytes. Ranks that make a group give it the same, but for the timeout and a GPU's number.
struct GroupOptions {
  BackendKind backend = BackendKind::automatic;                 ///< what moves the bytes
  at::Device device = at::kCPU;                                 ///< where the tensors lie that the group is given
  AcrossHosts across_hosts = AcrossHosts::exact;                ///< of the automatic back end, for tensors of the CPU
  std::chrono::milliseconds timeout = std::chrono::minutes(5);  ///< of making the group, and of every call on it
  /// Sum in the fixed tree on every backend, so that results do not depend on it. Costs c10d an all-to-all and an all-gather
  /// instead of a ring (the same bytes). shm always does.
  bool tree_order = false;
  /// shm: so many bytes on their way to a peer cost the sender no wait. Each pair of ranks that talk takes as much shared
  /// memory.
  int64_t message_bytes = 1 << 20;
};

}  // namespace weft
