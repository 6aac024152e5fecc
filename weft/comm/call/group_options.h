// GroupOptions: transport options of a group.
#pragma once

#include <c10/core/Device.h>

#include <chrono>
#include <cstdint>

#include "weft/base/enum_names.h"

namespace weft {

/// Transport engine. `automatic`: for CPU tensors, shm if all ranks share a host, else two levels: shm inside each host and
/// Gloo between hosts; for tensors of another device, its engine, such as NCCL. shm and gloo take those too, through pinned
/// memory of the host: slower, but for ranks that share a device, and machines without an engine.
enum class BackendKind { automatic, shm, gloo, nccl };
/// Back end names in recipes.
inline constexpr EnumNames<BackendKind, 4> kBackends("auto", "shm", "gloo", "nccl");

/// Format of float32 sums sent between hosts: unchanged, or rounded to bfloat16 for half the bytes. Hosts add in float32 either
/// way, and all ranks get the same result.
enum class AcrossHosts { exact, bf16 };
/// Names of AcrossHosts in recipes.
inline constexpr EnumNames<AcrossHosts, 2> kAcrossHosts("exact", "bf16");

/// Transport options. All ranks of a group must pass the same options, except for the timeout and the index of a GPU.
struct GroupOptions {
  BackendKind backend = BackendKind::automatic;                 ///< transport engine
  at::Device device = at::kCPU;                                 ///< device of the group's tensors
  AcrossHosts across_hosts = AcrossHosts::exact;                ///< for CPU tensors on the automatic back end
  std::chrono::milliseconds timeout = std::chrono::minutes(5);  ///< for creating the group, and for every call
  /// Sums in the fixed tree on every back end, so results do not depend on it. On c10d this takes an all-to-all and an
  /// all-gather instead of a ring, with the same number of bytes. shm always uses the tree.
  bool tree_order = false;
  /// shm: bytes in flight to a peer before the sender waits. Each pair of ranks that communicate uses that much shared memory.
  int64_t message_bytes = 1 << 20;
  /// Devices other than the CPU: neighbours, in both directions around the ring of the ranks, connect for send and receive when
  /// the group is made. Other pairs connect at their first message.
  bool passes_messages = false;
};

}  // namespace weft
