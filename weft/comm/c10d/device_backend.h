// The back end for tensors of devices other than the CPU: a group's view of a DeviceChannel (c10d/device_channel.h), with its
// own name, traffic and order of sums.
#pragma once

#include <ATen/core/Tensor.h>

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "weft/comm/c10d/device_channel.h"
#include "weft/comm/c10d/operations.h"
#include "weft/comm/call/backend.h"

namespace weft {

class DeviceBackend : public Backend {
 public:
  /// Returns when all ranks of the plan have joined. Throws InputError if no engine is registered for the device.
  explicit DeviceBackend(const GroupPlan& plan);

  /// The engine's name, e.g. "nccl".
  std::string_view kind() const override { return channel_->kind(); }
  Work all_reduce(const at::Tensor& tensor, ReduceOp op, std::string_view what) override;
  Work reduce_scatter(const at::Tensor& output, const at::Tensor& input, ReduceOp op, std::string_view what) override;
  Work all_gather(const at::Tensor& output, const at::Tensor& input, std::string_view what) override;
  Work broadcast(const at::Tensor& tensor, int root, std::string_view what) override;
  Work all_to_all(const at::Tensor& output, const at::Tensor& input, std::string_view what) override;
  Work send(const at::Tensor& tensor, int peer, std::string_view what) override;
  Work receive(const at::Tensor& tensor, int peer, std::string_view what) override;
  Work barrier(std::string_view what) override;
  at::Tensor allocate(int64_t numel, at::ScalarType dtype, std::string_view what) override;
  bool moves_host_tensors() const override { return true; }

  void throw_if_failed() override { channel_->throw_if_failed(); }
  void settle() override;
  void replayed(std::string_view what) override;
  void explain(const std::exception& error, std::string_view what) override { channel_->explain(error, what); }

 private:
  class Following;

  void follow(const Operations::Pending& work, FlatOperations::Step step);
  bool is_on_host(const at::Tensor& tensor) const { return tensor.is_cpu() && !channel_->device().is_cpu(); }
  Work run(const Call& call, const std::function<void()>& action);
  Work message(const Call& call, const at::Tensor& tensor);
  void bound_comparisons();
  Call call(Operation operation, const at::Tensor& tensor, std::string_view what, ReduceOp op = ReduceOp::sum,
            int root = -1) const;

  std::shared_ptr<DeviceChannel> channel_;
  FlatOperations operations_;
  std::deque<Work> comparing_;
  const Call* running_ = nullptr;  ///< during run()
  Operations::Pending last_;       ///< last operation of the call that runs
};

}  // namespace weft
