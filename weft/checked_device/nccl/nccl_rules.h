// A c10d back end for tensors of the checked device that keeps the rules of ProcessGroupNCCL (LibTorch 2.11), and names who
// breaks one. Its bytes move over Gloo, in a thread for each communicator.
//
// - A call returns at once. It runs on the communicator's stream, after what the caller's current stream has been given;
//   Work::wait() makes the current stream wait, never the host.
// - The calls of a communicator run one at a time. Ranks that make different calls, or that send where their peer sends too,
// are
//   told of both; NCCL would hang.
// - Two communicators with two ranks in common must be given their calls in the same order by both, since one call may keep
//   another from running. NCCL would hang, on some machines and days.
// - send() and recv() use a communicator for the pair, which is made at the pair's first message and blocks the host until both
// are
//   there; between startCoalescing() and endCoalescing() they use the group's, as one launch.
// - shutdown() waits for all calls. Without it, destruction before the host has waited for them is a violation: it ends the
// peers'
//   calls.
// - A watchdog ends the process (SIGABRT) when a call lasts longer than the timeout, and a monitor when the watchdog does not
// beat:
//   as set by TORCH_NCCL_ASYNC_ERROR_HANDLING (3), TORCH_NCCL_ENABLE_MONITORING (1) and TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC (480).
#pragma once

#include <c10/core/Device.h>
#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <mutex>
#include <string>
#include <vector>

namespace c10d {
class Backend;
class Store;
}  // namespace c10d

namespace weft::checked_device {

/// Of make_nccl_rules().
struct NcclOptions {
  std::string name;        ///< of the group, the same on all its ranks; groups of one name have different ranks
  std::vector<int> ranks;  ///< of the group in the job, for errors; empty: 0, 1, ...
  std::chrono::milliseconds timeout = std::chrono::minutes(10);  ///< of a call, for the watchdog, and of the connection
  /// Locked where a Gloo call starts: c10d's log of calls is not made for several threads. Default: one for all such back ends.
  std::mutex* starts = nullptr;
};

/// Blocks until all `size` ranks have called it with stores that share their keys. `device`: of this rank's tensors.
c10::intrusive_ptr<c10d::Backend> make_nccl_rules(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                                  c10::Device device, const NcclOptions& options);

/// Stops the watchdogs' beat, as a call of CUDA that hangs does. For tests.
void stall_watchdogs(bool stalled);

}  // namespace weft::checked_device
