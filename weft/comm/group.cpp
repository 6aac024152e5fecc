#include "weft/comm/group.h"

#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <optional>

#include "weft/base/error.h"
#include "weft/comm/call/backend.h"
#include "weft/comm/call/call.h"

namespace weft {
namespace {

using Clock = std::chrono::steady_clock;

/// Adds the time spent in a call or a wait to the group's traffic, and tells its log.
class Span {
 public:
  explicit Span(Backend& backend) : backend_(backend) {}
  ~Span() { backend_.traffic().seconds += std::chrono::duration<double>((end_ ? *end_ : Clock::now()) - start_).count(); }
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;
  Clock::time_point start() const { return start_; }
  void ends(uint64_t serial) {
    end_ = Clock::now();
    backend_.log()->end(serial, *end_);
  }

 private:
  Backend& backend_;
  Clock::time_point start_ = Clock::now();
  std::optional<Clock::time_point> end_;
};

// Keeps the back end alive until the work has been waited for.
class TimedWork : public Work::State {
 public:
  TimedWork(std::shared_ptr<Backend> backend, Work work, uint64_t serial)
      : backend_(std::move(backend)), work_(std::move(work)), serial_(serial) {}
  void wait() override {
    Span span(*backend_);
    backend_->log()->waits(serial_, span.start());
    work_.wait();
    span.ends(serial_);
  }

 private:
  std::shared_ptr<Backend> backend_;
  Work work_;
  uint64_t serial_;
};

template <class Start>
Work start(const std::shared_ptr<Backend>& backend, const Call& call, int64_t bytes, Start start_work) {
  backend->traffic().calls += 1;
  backend->traffic().bytes += bytes;
  Span span(*backend);
  const uint64_t serial = backend->log()->begin(call, span.start());
  Work work = start_work();
  if (!work.empty()) {
    backend->log()->hand_over(serial);
    return Work(std::make_shared<TimedWork>(backend, std::move(work), serial));
  }
  span.ends(serial);
  return work;
}

std::string where(const Backend* backend, Operation operation, std::string_view what) {
  const std::string group = backend == nullptr ? "a group of one" : fmt::format("group \"{}\"", backend->name());
  return fmt::format("{} \"{}\" on {}", operation_name(operation), what, group);
}

void require(bool holds, const Backend* backend, Operation operation, std::string_view what, const std::string& problem) {
  if (!holds) throw InputError(fmt::format("{}: {}", where(backend, operation, what), problem));
}

void check_tensor(const at::Tensor& tensor, const Backend* backend, Operation operation, std::string_view what) {
  require(tensor.defined(), backend, operation, what, "the tensor is undefined");
  require(tensor.is_contiguous(), backend, operation, what, "the tensor is not contiguous; pass tensor.contiguous()");
}

void check_reducible(const at::Tensor& tensor, const Backend* backend, Operation operation, std::string_view what) {
  const at::ScalarType dtype = tensor.scalar_type();
  const bool known = dtype == at::kFloat || dtype == at::kDouble || dtype == at::kBFloat16 || dtype == at::kHalf ||
                     dtype == at::kLong || dtype == at::kInt;
  require(known, backend, operation, what,
          fmt::format("{} cannot be reduced; use float32, float64, bfloat16, float16, int64 or int32", dtype_name(dtype)));
}

void check_pair(const at::Tensor& output, const at::Tensor& input, int64_t output_numel, int64_t input_numel,
                const Backend* backend, Operation operation, std::string_view what) {
  check_tensor(output, backend, operation, what);
  check_tensor(input, backend, operation, what);
  require(output.scalar_type() == input.scalar_type(), backend, operation, what,
          fmt::format("output is {} but input {}", dtype_name(output.scalar_type()), dtype_name(input.scalar_type())));
  require(output.numel() == output_numel && input.numel() == input_numel, backend, operation, what,
          fmt::format("output has {} elements and input {}; expected {} and {}", output.numel(), input.numel(), output_numel,
                      input_numel));
}

void check_apart(const at::Tensor& output, const at::Tensor& input, const Backend* backend, Operation operation,
                 std::string_view what) {
  if (output.is_meta()) return;  // no memory
  const auto* out = static_cast<const char*>(output.const_data_ptr());
  const auto* in = static_cast<const char*>(input.const_data_ptr());
  const bool apart = output.numel() == 0 || input.numel() == 0 || out + output.nbytes() <= in || in + input.nbytes() <= out;
  require(apart, backend, operation, what, "output and input overlap");
}

void copy_if_apart(const at::Tensor& output, const at::Tensor& input) {
  if (output.numel() > 0 && output.const_data_ptr() != input.const_data_ptr()) output.view({-1}).copy_(input.view({-1}));
}

/// Returns whether `part` is the memory of `whole` from element `first`. Compares integers: meta tensors have no memory.
bool lies_at(const at::Tensor& part, const at::Tensor& whole, int64_t first) {
  const auto address = [](const at::Tensor& x) { return reinterpret_cast<uintptr_t>(x.const_data_ptr()); };
  return address(part) == address(whole) + static_cast<uintptr_t>(first * whole.element_size());
}

int64_t sent(const at::Tensor& tensor, int size, int rounds) {
  return static_cast<int64_t>(tensor.nbytes()) * rounds * (size - 1) / size;
}

}  // namespace

Group::Group(at::Device device) : device_(device) {}
Group::Group(std::shared_ptr<Backend> backend) : backend_(std::move(backend)) {}

int Group::rank() const { return backend_ ? backend_->rank() : 0; }
int Group::size() const { return backend_ ? backend_->size() : 1; }

const std::string& Group::name() const {
  static const std::string alone = "self";
  return backend_ ? backend_->name() : alone;
}

std::string_view Group::backend() const { return backend_ ? backend_->kind() : "identity"; }

const Traffic& Group::traffic() const {
  static const Traffic none;
  return backend_ ? backend_->traffic() : none;
}

int64_t Group::memory_bytes() const { return backend_ ? backend_->memory_bytes() : 0; }

void Group::throw_if_failed() const {
  if (backend_) backend_->throw_if_failed();
}

void Group::replayed(const Traffic& calls, std::string_view what) const {
  if (!backend_) return;
  backend_->traffic().calls += calls.calls;
  backend_->traffic().bytes += calls.bytes;
  backend_->replayed(what);
}

void Group::explain(const std::exception& error, std::string_view what) const {
  if (backend_) backend_->explain(error, what);
}

void Group::settle() const {
  if (backend_) backend_->settle();
}

Work Group::all_reduce(const at::Tensor& tensor, ReduceOp op, std::string_view what) const {
  check_tensor(tensor, backend_.get(), Operation::all_reduce, what);
  check_reducible(tensor, backend_.get(), Operation::all_reduce, what);
  if (!backend_) return {};
  return start(backend_, call_on(Operation::all_reduce, tensor, what, op, -1), sent(tensor, size(), 2),
               [&] { return backend_->all_reduce(tensor, op, what); });
}

Work Group::reduce_scatter(const at::Tensor& output, const at::Tensor& input, ReduceOp op, std::string_view what) const {
  const auto operation = Operation::reduce_scatter;
  check_tensor(input, backend_.get(), operation, what);
  check_reducible(input, backend_.get(), operation, what);
  const ShardRange own = shard_range(input.numel(), size(), rank());
  check_pair(output, input, own.end - own.begin, input.numel(), backend_.get(), operation, what);
  if (!backend_) {
    copy_if_apart(output, input);
    return {};
  }
  if (!lies_at(output, input, own.begin)) check_apart(output, input, backend_.get(), operation, what);
  return start(backend_, call_on(operation, input, what, op, -1), sent(input, size(), 1),
               [&] { return backend_->reduce_scatter(output, input, op, what); });
}

Work Group::all_gather(const at::Tensor& output, const at::Tensor& input, std::string_view what) const {
  const auto operation = Operation::all_gather;
  check_tensor(output, backend_.get(), operation, what);
  const ShardRange own = shard_range(output.numel(), size(), rank());
  check_pair(output, input, output.numel(), own.end - own.begin, backend_.get(), operation, what);
  if (!backend_) {
    copy_if_apart(output, input);
    return {};
  }
  if (!lies_at(input, output, own.begin)) check_apart(output, input, backend_.get(), operation, what);
  return start(backend_, call_on(operation, output, what, ReduceOp::sum, -1), sent(output, size(), 1),
               [&] { return backend_->all_gather(output, input, what); });
}

Work Group::broadcast(const at::Tensor& tensor, int root, std::string_view what) const {
  check_tensor(tensor, backend_.get(), Operation::broadcast, what);
  require(root >= 0 && root < size(), backend_.get(), Operation::broadcast, what,
          fmt::format("root {} is not a rank of a group of {}", root, size()));
  if (!backend_) return {};
  const int64_t bytes = root == rank() ? static_cast<int64_t>(tensor.nbytes()) : 0;
  return start(backend_, call_on(Operation::broadcast, tensor, what, ReduceOp::sum, root), bytes,
               [&] { return backend_->broadcast(tensor, root, what); });
}

Work Group::all_to_all(const at::Tensor& output, const at::Tensor& input, std::string_view what) const {
  const auto operation = Operation::all_to_all;
  check_tensor(input, backend_.get(), operation, what);
  const ShardRange own = shard_range(input.numel(), size(), rank());
  check_pair(output, input, size() * (own.end - own.begin), input.numel(), backend_.get(), operation, what);
  if (!backend_) {
    copy_if_apart(output, input);
    return {};
  }
  check_apart(output, input, backend_.get(), operation, what);
  return start(backend_, call_on(operation, input, what, ReduceOp::sum, -1), sent(input, size(), 1),
               [&] { return backend_->all_to_all(output, input, what); });
}

Work Group::send(const at::Tensor& tensor, int peer, std::string_view what) const {
  check_tensor(tensor, backend_.get(), Operation::send, what);
  require(peer >= 0 && peer < size() && peer != rank(), backend_.get(), Operation::send, what,
          fmt::format("rank {} of {} in the group cannot send to rank {}", rank(), size(), peer));
  return start(backend_, call_on(Operation::send, tensor, what, ReduceOp::sum, peer), static_cast<int64_t>(tensor.nbytes()),
               [&] { return backend_->send(tensor, peer, what); });
}

Work Group::receive(const at::Tensor& tensor, int peer, std::string_view what) const {
  check_tensor(tensor, backend_.get(), Operation::receive, what);
  require(peer >= 0 && peer < size() && peer != rank(), backend_.get(), Operation::receive, what,
          fmt::format("rank {} of {} in the group cannot receive from rank {}", rank(), size(), peer));
  return start(backend_, call_on(Operation::receive, tensor, what, ReduceOp::sum, peer), 0,
               [&] { return backend_->receive(tensor, peer, what); });
}

bool Group::moves_host_tensors() const { return backend_ && backend_->moves_host_tensors(); }

Work Group::barrier(std::string_view what) const {
  if (!backend_) return {};
  return start(backend_, {.operation = Operation::barrier, .what = what}, 0, [&] { return backend_->barrier(what); });
}

at::Tensor Group::allocate(int64_t numel, at::ScalarType dtype, std::string_view what) const {
  require(numel >= 0, backend_.get(), Operation::allocate, what, fmt::format("{} elements; must be at least 0", numel));
  if (!backend_) return at::zeros({numel}, at::TensorOptions(dtype).device(device_));
  const uint64_t serial =
      backend_->log()->begin({.operation = Operation::allocate, .dtype = dtype, .numel = numel, .what = what}, Clock::now());
  at::Tensor tensor = backend_->allocate(numel, dtype, what);
  backend_->log()->end(serial, Clock::now());
  return tensor;
}

}  // namespace weft
