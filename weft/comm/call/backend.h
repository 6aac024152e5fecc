// Backend: transport of one group. Group has checked the arguments: contiguous tensors on the right device, matching sizes, a
// peer or root inside the group, at least two ranks.
//
// One thread at a time calls a group. After a failure a back end repeats that error on every later call.
#pragma once

#include <ATen/core/Tensor.h>

#include <exception>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "weft/comm/call/axis.h"
#include "weft/comm/call/call_log.h"
#include "weft/comm/call/group_options.h"
#include "weft/comm/call/reduce_op.h"
#include "weft/comm/call/work.h"
#include "weft/comm/store/store.h"

namespace weft {

/// Transport of a group's calls.
class Backend {
 public:
  explicit Backend(Axis axis) : axis_(std::move(axis)), log_(std::make_shared<CallLog>(axis_)) {}
  virtual ~Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;

  virtual std::string_view kind() const = 0;
  virtual Work all_reduce(const at::Tensor& tensor, ReduceOp op, std::string_view what) = 0;
  virtual Work reduce_scatter(const at::Tensor& output, const at::Tensor& input, ReduceOp op, std::string_view what) = 0;
  virtual Work all_gather(const at::Tensor& output, const at::Tensor& input, std::string_view what) = 0;
  virtual Work broadcast(const at::Tensor& tensor, int root, std::string_view what) = 0;
  virtual Work all_to_all(const at::Tensor& output, const at::Tensor& input, std::string_view what) = 0;
  virtual Work send(const at::Tensor& tensor, int peer, std::string_view what) = 0;
  virtual Work receive(const at::Tensor& tensor, int peer, std::string_view what) = 0;
  virtual Work barrier(std::string_view what) = 0;
  virtual at::Tensor allocate(int64_t numel, at::ScalarType dtype, std::string_view what) = 0;
  /// Whether the tensors are on a device, yet send() and receive() take some on the CPU too.
  virtual bool moves_host_tensors() const { return false; }

  /// Throws the error that has ended the group, if its calls fail on a device while the host continues.
  virtual void throw_if_failed() {}
  /// Waits until the ranks' calls so far have been compared; throws as throw_if_failed().
  virtual void settle() { throw_if_failed(); }

  /// The device has been given calls of this group again, in a captured graph called `what`, on the current stream. The ranks
  /// compare that as they do a call, and follow it to its end.
  virtual void replayed(std::string_view /*what*/) {}

  /// Throws the error that has ended the group if another rank's end explains `error`, a device's own, which reached the host
  /// first. Looks for that for a second.
  virtual void explain(const std::exception& /*error*/, std::string_view /*what*/) {}

  /// Ends a call in flight, in another thread, with an error on this rank alone, which is leaving. Thread-safe.
  virtual void end_calls() {}

  /// Bytes of the group's own memory (staging) that this rank accounts for.
  virtual int64_t memory_bytes() const { return 0; }

  const Axis& axis() const { return axis_; }
  const std::string& name() const { return axis_.name; }
  int rank() const { return axis_.index; }
  int size() const { return axis_.size(); }
  Traffic& traffic() { return traffic_; }
  /// The group's last calls, which Group writes.
  const std::shared_ptr<CallLog>& log() const { return log_; }

 private:
  Axis axis_;
  std::shared_ptr<CallLog> log_;
  Traffic traffic_;
};

class DeviceChannel;  // c10d/device_channel.h

/// Connections of a world's groups on devices, by device and ranks. Groups of the same ranks share one while it lives.
struct DeviceChannels {
  std::map<std::string, std::weak_ptr<DeviceChannel>> by_ranks;
};

/// Inputs for creating a back end, such as its members and the store in which they meet.
struct GroupPlan {
  Axis axis;
  std::vector<std::string> hosts;  ///< hosts of the axis' ranks
  Store store;                     ///< with the table of waiting ranks
  GroupOptions options;
  Deadline deadline = options.timeout;  ///< all ranks must have joined by then
  std::shared_ptr<DeviceChannels> channels = std::make_shared<DeviceChannels>();
};

}  // namespace weft
