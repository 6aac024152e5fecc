#include "weft/comm/c10d/device_backend.h"

#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <utility>
#include <vector>

#include "weft/base/error.h"
#include "weft/comm/c10d/c10d_backends.h"

namespace weft {
namespace {

/// Bounds how far the host runs ahead of the call comparison.
constexpr size_t kComparisonsUnderWay = 256;

}  // namespace

// A call in flight; the caller's stream waits for its last operation only in wait().
class DeviceBackend::Following : public Work::State {
 public:
  Following(std::shared_ptr<DeviceChannel> channel, const Call& call, Operations::Pending work)
      : channel_(std::move(channel)), work_(std::move(work)), call_(channel_->follow(call, work_)) {}
  void wait() override {
    channel_->or_name(call_->call(), [this] {
      work_->wait();
      call_->mark_wait();
    });
  }

 private:
  std::shared_ptr<DeviceChannel> channel_;
  Operations::Pending work_;
  std::shared_ptr<DeviceCall> call_;
};

DeviceBackend::DeviceBackend(const GroupPlan& plan)
    : Backend(plan.axis),
      channel_(DeviceChannel::join(plan)),
      operations_(
          channel_->engine(), rank(), size(), plan.options.tree_order,
          [this](const Operations::Pending& work, FlatOperations::Step step) { follow(work, step); }, device_call_mutex()) {}

Work DeviceBackend::all_reduce(const at::Tensor& tensor, ReduceOp op, std::string_view what) {
  return run(call(Operation::all_reduce, tensor, what, op), [&] { operations_.all_reduce(tensor, op); });
}

Work DeviceBackend::reduce_scatter(const at::Tensor& output, const at::Tensor& input, ReduceOp op, std::string_view what) {
  return run(call(Operation::reduce_scatter, input, what, op), [&] { operations_.reduce_scatter(output, input, op); });
}

Work DeviceBackend::all_gather(const at::Tensor& output, const at::Tensor& input, std::string_view what) {
  return run(call(Operation::all_gather, output, what), [&] { operations_.all_gather(output, input); });
}

Work DeviceBackend::broadcast(const at::Tensor& tensor, int root, std::string_view what) {
  return run(call(Operation::broadcast, tensor, what, ReduceOp::sum, root), [&] { operations_.broadcast(tensor, root); });
}

Work DeviceBackend::all_to_all(const at::Tensor& output, const at::Tensor& input, std::string_view what) {
  return run(call(Operation::all_to_all, input, what), [&] { operations_.all_to_all(output, input); });
}

Work DeviceBackend::send(const at::Tensor& tensor, int peer, std::string_view what) {
  if (is_on_host(tensor)) return channel_->host().send(tensor, peer, what);
  return message(call(Operation::send, tensor, what, ReduceOp::sum, peer), tensor);
}

Work DeviceBackend::receive(const at::Tensor& tensor, int peer, std::string_view what) {
  if (is_on_host(tensor)) return channel_->host().receive(tensor, peer, what);
  return message(call(Operation::receive, tensor, what, ReduceOp::sum, peer), tensor);
}

Work DeviceBackend::message(const Call& call, const at::Tensor& tensor) {
  channel_->compare_message(call);
  if (tensor.numel() == 0) return {};
  std::vector<at::Tensor> tensors{tensor};
  const c10::intrusive_ptr<c10d::Backend>& engine = channel_->engine();
  Operations::Pending work;
  channel_->or_name(call, [&] {
    const auto start = [&] {
      return call.operation == Operation::send ? engine->send(tensors, call.root, 0) : engine->recv(tensors, call.root, 0);
    };
    work = start_call(start, device_call_mutex());
  });
  return Work(std::make_shared<Following>(channel_, call, std::move(work)));
}

Work DeviceBackend::barrier(std::string_view what) {
  comparing_.push_back(channel_->compare({.operation = Operation::barrier, .what = what}));
  return comparing_.back();
}

at::Tensor DeviceBackend::allocate(int64_t numel, at::ScalarType dtype, std::string_view what) {
  channel_->compare({.operation = Operation::allocate, .dtype = dtype, .numel = numel, .what = what}).wait();
  return at::zeros({numel}, at::TensorOptions().dtype(dtype).device(channel_->device()));
}

// Work between two operations runs on the caller's stream, which waits; the Work waits for the last operation.
void DeviceBackend::follow(const Operations::Pending& work, FlatOperations::Step step) {
  if (step == FlatOperations::Step::between) {
    const std::shared_ptr<DeviceCall> followed = channel_->follow(*running_, work);
    work->wait();
    followed->mark_wait();
  } else {
    last_ = work;
  }
}

Work DeviceBackend::run(const Call& call, const std::function<void()>& action) {
  bound_comparisons();
  comparing_.push_back(channel_->compare(call));
  last_ = nullptr;
  running_ = &call;
  channel_->or_name(call, action);
  return last_ ? Work(std::make_shared<Following>(channel_, call, std::move(last_))) : Work();
}

void DeviceBackend::settle() {
  if (!comparing_.empty()) comparing_.back().wait();  // compared in their order
  comparing_.clear();
  channel_->finish_messages();
  throw_if_failed();
}

void DeviceBackend::replayed(std::string_view what) {
  throw_if_failed();
  const Call call{.operation = Operation::barrier, .what = what};
  bound_comparisons();
  comparing_.push_back(channel_->compare(call));
  channel_->follow_stream(call);
}

void DeviceBackend::bound_comparisons() {
  for (; comparing_.size() > kComparisonsUnderWay; comparing_.pop_front()) comparing_.front().wait();
}

Call DeviceBackend::call(Operation operation, const at::Tensor& tensor, std::string_view what, ReduceOp op, int root) const {
  if (tensor.device() != channel_->device()) {
    throw InputError(fmt::format("{} \"{}\" on group \"{}\": the group is for tensors on {}, but this one is on {}",
                                 operation_name(operation), what, name(), channel_->device().str(), tensor.device().str()));
  }
  return call_on(operation, tensor, what, op, root);
}

std::shared_ptr<Backend> make_device_backend(const GroupPlan& plan) { return std::make_shared<DeviceBackend>(plan); }

}  // namespace weft
