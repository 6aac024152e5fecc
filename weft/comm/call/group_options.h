// GroupOptions: how a group moves its bytes.
#pragma once

#include <c10/core/Device.h>

#include <chrono>
#include <cstdint>

namespace weft {

/// Which engine moves the bytes. `automatic`: shm where all ranks of the group are on one host and the tensors on the CPU,
/// NCCL where they are on GPUs, Gloo otherwise; where several hosts hold several ranks each, all_reduce goes in two levels.
enum class BackendKind { automatic, shm, gloo, nccl };

struct GroupOptions {
  BackendKind backend = BackendKind::automatic;
  at::Device device = at::kCPU;
  std::chrono::milliseconds timeout = std::chrono::minutes(5);
  /// Sum in the fixed tree on every backend, so that results do not depend on it. Costs c10d an all-to-all and an all-gather
  /// instead of a ring (the same bytes). shm always does.
  bool tree_order = false;
  /// shm: so many bytes on their way to a peer cost the sender no wait. Of shared memory, for each pair of ranks that talk.
  int64_t message_bytes = 1 << 20;
};

}  // namespace weft
