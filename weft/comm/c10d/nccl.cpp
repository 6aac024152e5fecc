// The NCCL back end, linked if weft is built with CUDA. c10d runs each call on its own stream, after the work on the caller's
// stream, and Work::wait makes the caller's stream wait for it; the host continues.
//
// A companion Gloo group compares the ranks' calls in its own thread. A mismatch, a dead process or a missed deadline aborts
// NCCL calls in flight and is thrown by the next call or wait on the group.
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <deque>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "weft/base/error.h"
#include "weft/comm/c10d/c10d_backends.h"
#include "weft/comm/c10d/engine_store.h"
#include "weft/comm/c10d/gloo_backend.h"
#include "weft/comm/c10d/operations.h"
#include "weft/comm/call/backend.h"

namespace weft {
namespace {

class NcclBackend : public Backend {
 public:
  explicit NcclBackend(const GroupPlan& plan)
      : Backend(plan.axis),
        device_(plan.options.device),
        checker_(std::make_shared<GlooBackend>(plan)),
        engine_(connect(plan)),
        operations_(
            engine_, rank(), size(), plan.options.tree_order,
            [this](const Operations::Pending& work, FlatOperations::Step step) { follow(work, step); }, nccl_call_mutex()) {
    checker_->on_failure([engine = engine_] { engine->abort(); });
  }

  ~NcclBackend() override {
    checker_.reset();
    engine_->shutdown();
  }

  std::string_view kind() const override { return "nccl"; }

  Work all_reduce(const at::Tensor& tensor, ReduceOp op, std::string_view what) override {
    return run(call(Operation::all_reduce, tensor, what, op), [&] { operations_.all_reduce(tensor, op); });
  }
  Work reduce_scatter(const at::Tensor& output, const at::Tensor& input, ReduceOp op, std::string_view what) override {
    return run(call(Operation::reduce_scatter, input, what, op), [&] { operations_.reduce_scatter(output, input, op); });
  }
  Work all_gather(const at::Tensor& output, const at::Tensor& input, std::string_view what) override {
    return run(call(Operation::all_gather, output, what), [&] { operations_.all_gather(output, input); });
  }
  Work broadcast(const at::Tensor& tensor, int root, std::string_view what) override {
    return run(call(Operation::broadcast, tensor, what, ReduceOp::sum, root), [&] { operations_.broadcast(tensor, root); });
  }
  Work all_to_all(const at::Tensor& output, const at::Tensor& input, std::string_view what) override {
    return run(call(Operation::all_to_all, input, what), [&] { operations_.all_to_all(output, input); });
  }
  // The two calls of a message are not compared: NCCL matches them by order alone.
  Work send(const at::Tensor& tensor, int peer, std::string_view what) override {
    throw_if_failed();
    if (tensor.numel() == 0) return {};
    std::vector<at::Tensor> tensors{tensor};
    return Work(std::make_shared<Following>(*this, describe(call(Operation::send, tensor, what, ReduceOp::sum, peer), axis()),
                                            start_call([&] { return engine_->send(tensors, peer, 0); }, nccl_call_mutex())));
  }
  Work receive(const at::Tensor& tensor, int peer, std::string_view what) override {
    throw_if_failed();
    if (tensor.numel() == 0) return {};
    std::vector<at::Tensor> tensors{tensor};
    return Work(std::make_shared<Following>(*this,
                                            describe(call(Operation::receive, tensor, what, ReduceOp::sum, peer), axis()),
                                            start_call([&] { return engine_->recv(tensors, peer, 0); }, nccl_call_mutex())));
  }
  Work barrier(std::string_view what) override { return checker_->barrier(what); }
  at::Tensor allocate(int64_t numel, at::ScalarType dtype, std::string_view what) override {
    checker_->compare({.operation = Operation::allocate, .dtype = dtype, .numel = numel, .what = what}).wait();
    return at::zeros({numel}, at::TensorOptions().dtype(dtype).device(device_));
  }

 private:
  // The last c10d operation of a call; the caller's stream waits for it only in wait().
  class Following : public Work::State {
   public:
    Following(NcclBackend& backend, std::string doing, Operations::Pending work)
        : backend_(backend), doing_(std::move(doing)), work_(std::move(work)) {}
    void wait() override {
      backend_.or_name(doing_, [this] { work_->wait(); });
    }

   private:
    NcclBackend& backend_;
    std::string doing_;
    Operations::Pending work_;
  };

  static c10::intrusive_ptr<c10d::ProcessGroupNCCL> connect(const GroupPlan& plan) {
    if (!plan.options.device.is_cuda()) {
      throw InputError(
          fmt::format("group \"{}\": NCCL needs a GPU, but the device is {}", plan.axis.name, plan.options.device.str()));
    }
    auto options = c10d::ProcessGroupNCCL::Options::create();
    options->timeout = plan.options.timeout;
    const std::string what = rank_name(plan.axis, plan.axis.index) + " starts NCCL";
    try {
      auto store = c10::make_intrusive<EngineStore>(plan.store.failing_on(nullptr).below("nccl"), plan.options.timeout, what);
      return c10::make_intrusive<c10d::ProcessGroupNCCL>(store, plan.axis.index, plan.axis.size(), options);
    } catch (const c10::Error& error) {
      throw CommError(
          fmt::format("{} cannot start NCCL: {}", rank_name(plan.axis, plan.axis.index), error.what_without_backtrace()));
    }
  }

  // Work between two operations runs on the caller's stream, which waits; the Work waits for the last operation.
  void follow(const Operations::Pending& work, FlatOperations::Step step) {
    if (step == FlatOperations::Step::between) {
      work->wait();
    } else {
      last_ = work;
    }
  }

  template <class Action>
  void or_name(const std::string& doing, Action action) {
    throw_if_failed();
    try {
      action();
    } catch (const c10::Error& error) {
      throw_if_failed();
      throw CommError(fmt::format("{} in {}: {}", rank_name(axis(), rank()), doing, error.what_without_backtrace()));
    }
  }

  template <class Action>
  Work run(const Call& call, Action action) {
    throw_if_failed();
    comparing_.push_back(checker_->compare(call));
    last_ = nullptr;
    const std::string doing = describe(call, axis());
    or_name(doing, action);
    return last_ ? Work(std::make_shared<Following>(*this, doing, std::move(last_))) : Work();
  }

  // Checks the finished comparisons; a later call checks those still in flight.
  void throw_if_failed() {
    checker_->throw_if_failed();
    while (comparing_.size() > kComparisonsUnderWay) {
      comparing_.front().wait();
      comparing_.pop_front();
    }
  }

  Call call(Operation operation, const at::Tensor& tensor, std::string_view what, ReduceOp op = ReduceOp::sum,
            int root = -1) const {
    if (!tensor.is_cuda()) {
      throw InputError(fmt::format("{} \"{}\" on group \"{}\": NCCL needs a GPU tensor, but this one is on {}",
                                   operation_name(operation), what, name(), tensor.device().str()));
    }
    return call_on(operation, tensor, what, op, root);
  }

  // Bounds how far the host runs ahead of the call comparison.
  static constexpr size_t kComparisonsUnderWay = 256;

  at::Device device_;
  std::shared_ptr<GlooBackend> checker_;
  c10::intrusive_ptr<c10d::ProcessGroupNCCL> engine_;
  FlatOperations operations_;
  std::deque<Work> comparing_;
  Operations::Pending last_;
};

}  // namespace

std::shared_ptr<Backend> make_nccl_backend(const GroupPlan& plan) { return std::make_shared<NcclBackend>(plan); }

}  // namespace weft
