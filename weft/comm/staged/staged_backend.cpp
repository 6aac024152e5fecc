// The group's thread runs its calls on the host, one after another. Like an engine of the device (c10d/device_channel.h), it
// relies on an order of calls in which each may block until its partners are there.
#include "weft/comm/staged/staged_backend.h"

#include <ATen/ops/zeros.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>

#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "weft/base/error.h"
#include "weft/comm/call/call.h"
#include "weft/comm/staged/staged_call.h"
#include "weft/comm/store/store_errors.h"
#include "weft/comm/threads/parallel_for.h"

namespace weft {
namespace {

/// Bounds the pinned memory of calls that nobody has to wait for: sends.
constexpr size_t kMostCalls = 16;

class StagedBackend : public Backend {
 public:
  StagedBackend(const GroupPlan& plan, std::shared_ptr<Backend> host)
      : Backend(plan.axis), host_(std::move(host)), device_(plan.options.device), streams_(device_), thread_([this] {
          run_calls();
        }) {}
  ~StagedBackend() override;

  std::string_view kind() const override { return host_->kind(); }
  Work all_reduce(const at::Tensor& tensor, ReduceOp op, std::string_view what) override {
    return submit(
        Operation::all_reduce, {tensor, tensor}, what,
        [=, this](const StagedTensors& on_host, std::string_view name) { return host_->all_reduce(on_host.output, op, name); });
  }
  Work reduce_scatter(const at::Tensor& output, const at::Tensor& input, ReduceOp op, std::string_view what) override {
    return submit(Operation::reduce_scatter, {output, input}, what,
                  [=, this](const StagedTensors& on_host, std::string_view name) {
                    return host_->reduce_scatter(on_host.output, on_host.input, op, name);
                  });
  }
  Work all_gather(const at::Tensor& output, const at::Tensor& input, std::string_view what) override {
    return submit(Operation::all_gather, {output, input}, what, [this](const StagedTensors& on_host, std::string_view name) {
      return host_->all_gather(on_host.output, on_host.input, name);
    });
  }
  Work broadcast(const at::Tensor& tensor, int root, std::string_view what) override {
    const StagedTensors tensors = root == rank() ? StagedTensors{{}, tensor} : StagedTensors{tensor, {}};
    return submit(Operation::broadcast, tensors, what, [=, this](const StagedTensors& on_host, std::string_view name) {
      return host_->broadcast(root == rank() ? on_host.input : on_host.output, root, name);
    });
  }
  Work all_to_all(const at::Tensor& output, const at::Tensor& input, std::string_view what) override {
    return submit(Operation::all_to_all, {output, input}, what, [this](const StagedTensors& on_host, std::string_view name) {
      return host_->all_to_all(on_host.output, on_host.input, name);
    });
  }
  Work send(const at::Tensor& tensor, int peer, std::string_view what) override {
    return submit(Operation::send, {{}, tensor}, what, [=, this](const StagedTensors& on_host, std::string_view name) {
      return host_->send(on_host.input, peer, name);
    });
  }
  Work receive(const at::Tensor& tensor, int peer, std::string_view what) override {
    return submit(Operation::receive, {tensor, {}}, what, [=, this](const StagedTensors& on_host, std::string_view name) {
      return host_->receive(on_host.output, peer, name);
    });
  }
  Work barrier(std::string_view what) override {
    return submit(Operation::barrier, {}, what,
                  [this](const StagedTensors&, std::string_view name) { return host_->barrier(name); });
  }
  at::Tensor allocate(int64_t numel, at::ScalarType dtype, std::string_view what) override {
    barrier(fmt::format("{}, {} {}", what, numel, dtype_name(dtype))).wait();
    return at::zeros({numel}, at::TensorOptions(dtype).device(device_));
  }
  void throw_if_failed() override {
    const std::lock_guard lock(mutex_);
    if (failure_) throw_failure(failure_->culprit, failure_->text);
  }
  void settle() override {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return calls_.empty(); });  // each call has its deadline
    }
    throw_if_failed();
  }

 private:
  using OnHost = std::function<Work(const StagedTensors& on_host, std::string_view what)>;

  Work submit(Operation operation, const StagedTensors& tensors, std::string_view what, OnHost on_host);
  void run_calls();
  void run(const std::shared_ptr<StagedCall>& call);
  void keep(const GroupFailure& failure);

  std::shared_ptr<Backend> host_;
  at::Device device_;
  CopyStreams streams_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<StagedCall>> calls_;  ///< the one that runs is first
  bool stopping_ = false;
  std::optional<GroupFailure> failure_;
  std::thread thread_;
};

/// Finishes the calls, which peers take part in, unless this rank leaves after an error.
StagedBackend::~StagedBackend() {
  const bool leaves = std::uncaught_exceptions() > 0;
  if (leaves) host_->end_calls();
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    if (leaves && calls_.size() > 1) calls_.erase(calls_.begin() + 1, calls_.end());
    changed_.notify_all();
  }
  thread_.join();
}

Work StagedBackend::submit(Operation operation, const StagedTensors& given, std::string_view what, OnHost on_host) {
  for (const at::Tensor& tensor : {given.output, given.input}) {
    if (!tensor.defined() || tensor.device() == device_) continue;
    throw InputError(fmt::format("{} \"{}\" on group \"{}\": the group is for tensors on {}, but this one is on {}",
                                 operation_name(operation), what, name(), device_.str(), tensor.device().str()));
  }
  throw_if_failed();
  StagedTensors tensors;
  if (given.input.defined()) tensors.input = given.input.variable_data();
  if (given.output.defined()) tensors.output = given.output.is_same(given.input) ? tensors.input : given.output.variable_data();
  auto call = std::make_shared<StagedCall>(
      tensors, streams_, [on_host = std::move(on_host), name = std::string(what)](const StagedTensors& buffers) {
        return on_host(buffers, name);
      });
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return calls_.size() < kMostCalls; });
  calls_.push_back(call);
  changed_.notify_all();
  return Work(call);
}

void StagedBackend::run_calls() {
  use_single_thread();
  c10::impl::VirtualGuardImpl(device_.type()).setDevice(device_);
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stopping_ || !calls_.empty(); });
    if (calls_.empty()) return;
    const std::shared_ptr<StagedCall> call = calls_.front();
    lock.unlock();
    run(call);
    lock.lock();
    calls_.pop_front();
    changed_.notify_all();
  }
}

void StagedBackend::run(const std::shared_ptr<StagedCall>& call) {
  std::optional<GroupFailure> failure = call->run();
  if (failure) keep(*failure);
  call->end(std::move(failure));
}

void StagedBackend::keep(const GroupFailure& failure) {
  const std::lock_guard lock(mutex_);
  if (!failure_) failure_ = failure;
}

}  // namespace

std::shared_ptr<Backend> make_staged_backend(const GroupPlan& plan, std::shared_ptr<Backend> host) {
  return std::make_shared<StagedBackend>(plan, std::move(host));
}

}  // namespace weft
