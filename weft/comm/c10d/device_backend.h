// The back end for tensors of devices other than the CPU: the engine registered for the device moves the data, and this back
// end adds what weft promises.
//
// The engine runs each call on its own stream, after the work on the caller's stream, and Work::wait makes the caller's stream
// wait for it; the host continues. A companion Gloo group compares the ranks' calls in its own thread. A mismatch, a dead
// process or a missed deadline aborts the engine's calls in flight and is thrown by the next call or wait on the group.
#pragma once

#include <ATen/core/Tensor.h>

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "weft/comm/c10d/gloo_backend.h"
#include "weft/comm/c10d/operations.h"
#include "weft/comm/call/backend.h"

namespace weft {

class DeviceBackend : public Backend {
 public:
  /// Returns when all ranks of the plan have joined. Throws InputError if no engine is registered for the device.
  explicit DeviceBackend(const GroupPlan& plan);
  ~DeviceBackend() override;

  /// The engine's name, e.g. "nccl".
  std::string_view kind() const override { return kind_; }
  Work all_reduce(const at::Tensor& tensor, ReduceOp op, std::string_view what) override;
  Work reduce_scatter(const at::Tensor& output, const at::Tensor& input, ReduceOp op, std::string_view what) override;
  Work all_gather(const at::Tensor& output, const at::Tensor& input, std::string_view what) override;
  Work broadcast(const at::Tensor& tensor, int root, std::string_view what) override;
  Work all_to_all(const at::Tensor& output, const at::Tensor& input, std::string_view what) override;
  Work send(const at::Tensor& tensor, int peer, std::string_view what) override;
  Work receive(const at::Tensor& tensor, int peer, std::string_view what) override;
  Work barrier(std::string_view what) override { return checker_->barrier(what); }
  at::Tensor allocate(int64_t numel, at::ScalarType dtype, std::string_view what) override;

 private:
  class Following;

  void follow(const Operations::Pending& work, FlatOperations::Step step);
  void or_name(const std::string& doing, const std::function<void()>& action);
  Work run(const Call& call, const std::function<void()>& action);
  Work message(const Call& call, const at::Tensor& tensor);
  void throw_if_failed();
  Call call(Operation operation, const at::Tensor& tensor, std::string_view what, ReduceOp op = ReduceOp::sum,
            int root = -1) const;

  at::Device device_;
  std::shared_ptr<GlooBackend> checker_;
  c10::intrusive_ptr<c10d::Backend> engine_;
  std::string kind_;
  FlatOperations operations_;
  std::deque<Work> comparing_;
  Operations::Pending last_;
};

}  // namespace weft
