#include "weft/comm/c10d/device_backend.h"

#include <ATen/ops/zeros.h>
#include <c10/core/DeviceGuard.h>
#include <fmt/format.h>

#include <utility>
#include <vector>

#include "weft/base/error.h"
#include "weft/comm/c10d/c10d_backends.h"
#include "weft/comm/c10d/device_engines.h"
#include "weft/comm/c10d/engine_store.h"

namespace weft {
namespace {

/// Bounds how far the host runs ahead of the call comparison.
constexpr size_t kComparisonsUnderWay = 256;

std::string type_name(at::Device device) { return c10::DeviceTypeName(device.type(), /*lower_case=*/true); }

DeviceEngineFactory engine_for(const GroupPlan& plan) {
  if (DeviceEngineFactory factory = device_engine(plan.options.device.type())) return factory;
  throw InputError(
      fmt::format("group \"{}\": this build cannot move tensors of {} between ranks: for NVIDIA's GPUs configure weft with "
                  "-DWEFT_CUDA=ON; for another device call register_device_engine()",
                  plan.axis.name, type_name(plan.options.device)));
}

c10::intrusive_ptr<c10d::Backend> connect_engine(const GroupPlan& plan, const DeviceEngineFactory& factory) {
  const at::Device device = plan.options.device;
  const std::string kind = type_name(device), who = rank_name(plan.axis, plan.axis.index);
  const c10::DeviceGuard current(device);
  try {
    auto store = c10::make_intrusive<EngineStore>(plan.store.failing_on(nullptr).below(kind), plan.options.timeout,
                                                  fmt::format("{} connects {}", who, device.str()));
    return factory({.store = std::move(store),
                    .rank = plan.axis.index,
                    .size = plan.axis.size(),
                    .device = device,
                    .timeout = plan.options.timeout,
                    .name = plan.axis.name,
                    .ranks = plan.axis.ranks});
  } catch (const c10::Error& error) {
    throw CommError(fmt::format("{} cannot connect {}: {}", who, device.str(), error.what_without_backtrace()));
  }
}

}  // namespace

// The last c10d operation of a call; the caller's stream waits for it only in wait().
class DeviceBackend::Following : public Work::State {
 public:
  Following(DeviceBackend& backend, std::string doing, Operations::Pending work)
      : backend_(backend), doing_(std::move(doing)), work_(std::move(work)) {}
  void wait() override {
    backend_.or_name(doing_, [this] { work_->wait(); });
  }

 private:
  DeviceBackend& backend_;
  std::string doing_;
  Operations::Pending work_;
};

DeviceBackend::DeviceBackend(const GroupPlan& plan)
    : Backend(plan.axis),
      device_(plan.options.device),
      checker_([&plan] {
        engine_for(plan);  // before ranks meet
        return std::make_shared<GlooBackend>(plan);
      }()),
      engine_(connect_engine(plan, engine_for(plan))),
      kind_(engine_->getBackendName()),
      operations_(
          engine_, rank(), size(), plan.options.tree_order,
          [this](const Operations::Pending& work, FlatOperations::Step step) { follow(work, step); }, device_call_mutex()) {
  checker_->on_failure([engine = engine_] { engine->abort(); });
}

DeviceBackend::~DeviceBackend() {
  checker_.reset();
  engine_->shutdown();
}

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
  return message(call(Operation::send, tensor, what, ReduceOp::sum, peer), tensor);
}

Work DeviceBackend::receive(const at::Tensor& tensor, int peer, std::string_view what) {
  return message(call(Operation::receive, tensor, what, ReduceOp::sum, peer), tensor);
}

// The two calls of a message are not compared: the engine matches them by order alone.
Work DeviceBackend::message(const Call& call, const at::Tensor& tensor) {
  throw_if_failed();
  if (tensor.numel() == 0) return {};
  std::vector<at::Tensor> tensors{tensor};
  const auto start = [&] {
    return call.operation == Operation::send ? engine_->send(tensors, call.root, 0) : engine_->recv(tensors, call.root, 0);
  };
  return Work(std::make_shared<Following>(*this, describe(call, axis()), start_call(start, device_call_mutex())));
}

at::Tensor DeviceBackend::allocate(int64_t numel, at::ScalarType dtype, std::string_view what) {
  checker_->compare({.operation = Operation::allocate, .dtype = dtype, .numel = numel, .what = what}).wait();
  return at::zeros({numel}, at::TensorOptions().dtype(dtype).device(device_));
}

// Work between two operations runs on the caller's stream, which waits; the Work waits for the last operation.
void DeviceBackend::follow(const Operations::Pending& work, FlatOperations::Step step) {
  if (step == FlatOperations::Step::between) {
    work->wait();
  } else {
    last_ = work;
  }
}

void DeviceBackend::or_name(const std::string& doing, const std::function<void()>& action) {
  throw_if_failed();
  try {
    action();
  } catch (const c10::Error& error) {
    throw_if_failed();
    throw CommError(fmt::format("{} in {}: {}", rank_name(axis(), rank()), doing, error.what_without_backtrace()));
  }
}

Work DeviceBackend::run(const Call& call, const std::function<void()>& action) {
  throw_if_failed();
  comparing_.push_back(checker_->compare(call));
  last_ = nullptr;
  const std::string doing = describe(call, axis());
  or_name(doing, action);
  return last_ ? Work(std::make_shared<Following>(*this, doing, std::move(last_))) : Work();
}

// Checks the finished comparisons; a later call checks those still in flight.
void DeviceBackend::throw_if_failed() {
  checker_->throw_if_failed();
  while (comparing_.size() > kComparisonsUnderWay) {
    comparing_.front().wait();
    comparing_.pop_front();
  }
}

Call DeviceBackend::call(Operation operation, const at::Tensor& tensor, std::string_view what, ReduceOp op, int root) const {
  if (tensor.device() != device_) {
    throw InputError(fmt::format("{} \"{}\" on group \"{}\": the group is for tensors on {}, but this one is on {}",
                                 operation_name(operation), what, name(), device_.str(), tensor.device().str()));
  }
  return call_on(operation, tensor, what, op, root);
}

std::shared_ptr<Backend> make_device_backend(const GroupPlan& plan) { return std::make_shared<DeviceBackend>(plan); }

}  // namespace weft
