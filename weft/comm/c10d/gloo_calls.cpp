// The calls of the Gloo back end: collectives go to its thread, messages straight to the engine.
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <csignal>
#include <cstring>

#include "weft/base/error.h"
#include "weft/base/without_signal.h"
#include "weft/comm/c10d/c10d_backends.h"
#include "weft/comm/c10d/gloo_backend.h"
#include "weft/comm/c10d/gloo_engine.h"
#include "weft/comm/c10d/operations.h"
#include "weft/comm/c10d/tags.h"

namespace weft {
namespace {

at::Tensor empty_record() { return at::zeros({static_cast<int64_t>(sizeof(CallRecord))}, at::kByte); }

std::vector<at::Tensor> as_bytes(const at::Tensor& tensor) { return {tensor.view({-1}).view(at::kByte)}; }

/// Returns the same memory without the autograd graph that the caller's tensor may belong to: the thread that runs a call may
/// be the last to release the tensor.
at::Tensor plain(const at::Tensor& tensor) { return tensor.variable_data(); }

}  // namespace

/// Whether the rank itself waits for a message, or only a thread beside it.
enum class GlooBackend::Caller { waits, continues };

// A message is a CallRecord and, unless it is empty, its data. Keeps the tensors of both until c10d has sent them.
class GlooBackend::Sending : public Work::State {
 public:
  Sending(GlooBackend& backend, const Call& call, const at::Tensor& tensor, Caller caller)
      : backend_(backend), call_(call), what_(call.what), table_(caller == Caller::waits ? backend.table_ : nullptr) {
    call_.what = what_;
    CallRecord record;
    write_record(record, call, 0);
    std::vector<at::Tensor> header{empty_record()};
    std::memcpy(header[0].data_ptr(), &record, sizeof(record));
    sends_.push_back(start_call([&] { return backend.engine_->send(header, call.root, kRecordTag); }));
    if (tensor.numel() == 0) return;
    std::vector<at::Tensor> data = as_bytes(tensor);
    sends_.push_back(start_call([&] { return backend.engine_->send(data, call.root, message_tag(tensor.nbytes())); }));
  }
  void wait() override {
    if (sends_.empty()) return;
    const RankTable::Waiting shown(table_, backend_.wait_row(call_, 0));
    backend_.or_fail(call_, [this] {
      for (; !sends_.empty(); sends_.erase(sends_.begin())) sends_.front()->wait();
    });
  }

 private:
  GlooBackend& backend_;
  Call call_;
  std::string what_;
  std::shared_ptr<RankTable> table_;  ///< that shows the wait, or null
  std::vector<Operations::Pending> sends_;
};

// c10d pairs messages with the same tag in the order of the requests and blocks a sender until its message is requested, so the
// record and the data are requested together. The record is checked first; if it is wrong, the data is not waited for.
class GlooBackend::Receiving : public Work::State {
 public:
  Receiving(GlooBackend& backend, const Call& call, const at::Tensor& tensor, Caller caller)
      : backend_(backend),
        call_(call),
        what_(call.what),
        table_(caller == Caller::waits ? backend.table_ : nullptr),
        tensor_(tensor),
        header_{empty_record()} {
    call_.what = what_;
    pending_ = start_call([&] { return backend.engine_->recv(header_, call.root, kRecordTag); });
    if (tensor_.numel() == 0) return;
    data_ = as_bytes(tensor_);
    pending_data_ = start_call([&] { return backend.engine_->recv(data_, call.root, message_tag(tensor_.nbytes())); });
  }
  void wait() override {
    if (!pending_) return;
    const RankTable::Waiting shown(table_, backend_.wait_row(call_, 0));
    backend_.or_fail(call_, [this] {
      pending_->wait();
      CallRecord record;
      std::memcpy(&record, header_[0].const_data_ptr(), sizeof(record));
      if (!matches_receive(record, call_)) throw CommError(describe_mismatch(backend_.axis(), record, call_));
      if (pending_data_) pending_data_->wait();
      pending_ = nullptr;
    });
  }

 private:
  GlooBackend& backend_;
  Call call_;
  std::string what_;
  std::shared_ptr<RankTable> table_;  ///< that shows the wait, or null
  at::Tensor tensor_;
  std::vector<at::Tensor> header_, data_;
  Operations::Pending pending_, pending_data_;
};

void GlooBackend::or_fail(const Call& call, const std::function<void()>& action) {
  throw_if_failed();
  const WithoutSignal guard(SIGPIPE);  // the requesting thread writes messages
  const auto begin = std::chrono::steady_clock::now();
  try {
    action();
  } catch (const CommError& error) {
    // The peer waits for data that will not come; closing ends its wait.
    set_failure({.text = error.what()});
    engine_->close();
    throw;
  } catch (const std::exception& error) {
    fail_in(wait_row(call, 0), begin, first_line_of(error.what()));
  }
}

Work GlooBackend::send(const at::Tensor& tensor, int peer, std::string_view what) {
  const Call call = describe_call(Operation::send, tensor, what, ReduceOp::sum, peer);
  Work work;
  or_fail(call, [&] { work = Work(std::make_shared<Sending>(*this, call, tensor, Caller::waits)); });
  return work;
}

Work GlooBackend::receive(const at::Tensor& tensor, int peer, std::string_view what) {
  const Call call = describe_call(Operation::receive, tensor, what, ReduceOp::sum, peer);
  Work work;
  or_fail(call, [&] { work = Work(std::make_shared<Receiving>(*this, call, tensor, Caller::waits)); });
  return work;
}

Work GlooBackend::all_reduce(const at::Tensor& tensor, ReduceOp op, std::string_view what) {
  return submit(describe_call(Operation::all_reduce, tensor, what, op),
                [this, op, all = plain(tensor)] { operations_->all_reduce(all, op); });
}

Work GlooBackend::reduce_scatter(const at::Tensor& output, const at::Tensor& input, ReduceOp op, std::string_view what) {
  return submit(describe_call(Operation::reduce_scatter, input, what, op),
                [this, op, out = plain(output), in = plain(input)] { operations_->reduce_scatter(out, in, op); });
}

Work GlooBackend::all_gather(const at::Tensor& output, const at::Tensor& input, std::string_view what) {
  return submit(describe_call(Operation::all_gather, output, what),
                [this, out = plain(output), in = plain(input)] { operations_->all_gather(out, in); });
}

Work GlooBackend::broadcast(const at::Tensor& tensor, int root, std::string_view what) {
  return submit(describe_call(Operation::broadcast, tensor, what, ReduceOp::sum, root),
                [this, root, all = plain(tensor)] { operations_->broadcast(all, root); });
}

Work GlooBackend::all_to_all(const at::Tensor& output, const at::Tensor& input, std::string_view what) {
  return submit(describe_call(Operation::all_to_all, input, what),
                [this, out = plain(output), in = plain(input)] { operations_->all_to_all(out, in); });
}

Work GlooBackend::barrier(std::string_view what) { return compare({.operation = Operation::barrier, .what = what}); }

Work GlooBackend::compare(const Call& call) {
  return submit(
      call, [this] { operations_->barrier(); }, /*moves_data=*/false);
}

Work GlooBackend::compare_message(const Call& call) {
  const at::Tensor nothing = at::zeros({0}, at::kByte);
  Work work;
  or_fail(call, [&] {
    work = call.operation == Operation::send ? Work(std::make_shared<Sending>(*this, call, nothing, Caller::continues))
                                             : Work(std::make_shared<Receiving>(*this, call, nothing, Caller::continues));
  });
  return work;
}

at::Tensor GlooBackend::allocate(int64_t numel, at::ScalarType dtype, std::string_view what) {
  compare({.operation = Operation::allocate, .dtype = dtype, .numel = numel, .what = what}).wait();
  return at::zeros({numel}, at::TensorOptions(dtype).device(device_));
}

Call GlooBackend::describe_call(Operation operation, const at::Tensor& tensor, std::string_view what, ReduceOp op,
                                int root) const {
  if (!tensor.is_cpu()) {
    throw InputError(fmt::format("{} \"{}\" on group \"{}\": Gloo needs a CPU tensor, but this one is on {}",
                                 operation_name(operation), what, name(), tensor.device().str()));
  }
  return {
      .operation = operation, .dtype = tensor.scalar_type(), .reduce = op, .root = root, .numel = tensor.numel(), .what = what};
}

std::shared_ptr<Backend> make_gloo_backend(const GroupPlan& plan) { return std::make_shared<GlooBackend>(plan); }

}  // namespace weft
