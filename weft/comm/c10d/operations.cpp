#include "weft/comm/c10d/operations.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/zeros.h>

#include <vector>

#include "weft/comm/call/shard_range.h"
#include "weft/comm/reduce/reduce.h"

namespace weft {
namespace {

c10d::ReduceOp c10d_op(ReduceOp op) {
  switch (op) {
    case ReduceOp::max:
      return c10d::ReduceOp::MAX;
    case ReduceOp::min:
      return c10d::ReduceOp::MIN;
    case ReduceOp::sum:
      break;
  }
  return c10d::ReduceOp::SUM;
}

at::Tensor flat(const at::Tensor& tensor) { return tensor.view({-1}); }

// c10d supports only some element types; as bytes, it can move any.
at::Tensor byte_view(const at::Tensor& tensor) { return flat(tensor).view(at::kByte); }

void combine(at::Tensor a, const at::Tensor& b, ReduceOp op) {
  if (op == ReduceOp::sum) {
    a.add_(b);
  } else {
    op == ReduceOp::max ? at::maximum_out(a, a, b) : at::minimum_out(a, a, b);
  }
}

// The tree of reduce.h in tensor operations, for devices other than the CPU: adds parts [low, high) to the first of them.
void add_up(const at::Tensor& parts, int low, int high, ReduceOp op) {
  if (high - low == 1) return;
  int half = 1;
  while (half * 2 < high - low) half *= 2;
  add_up(parts, low, low + half, op);
  add_up(parts, low + half, high, op);
  combine(parts[low], parts[low + half], op);
}

/// Overwrites the parts on devices other than the CPU.
void reduce_parts(const at::Tensor& output, const at::Tensor& parts, int size, ReduceOp op) {
  const int64_t numel = output.numel();
  if (!output.is_cpu()) {
    const bool narrow = output.scalar_type() == at::kBFloat16 || output.scalar_type() == at::kHalf;
    const at::Tensor sums = (narrow ? parts.to(at::kFloat) : parts).view({size, numel});
    add_up(sums, 0, size, op);
    flat(output).copy_(sums[0]);
    return;
  }
  std::vector<const void*> sources;
  sources.reserve(size);
  for (int rank = 0; rank < size; ++rank) {
    sources.push_back(static_cast<const char*>(parts.const_data_ptr()) + rank * numel * parts.element_size());
  }
  void* target = output.data_ptr();
  reduce_tree({output.scalar_type(), op}, &target, 1, sources.data(), size, numel);
}

}  // namespace

std::mutex& call_mutex() {
  static std::mutex mutex;
  return mutex;
}

std::mutex& device_call_mutex() {
  static std::mutex mutex;
  return mutex;
}

bool ends_within(c10d::Work& work, std::chrono::milliseconds time) {
  try {
    return work.wait(time);
  } catch (const std::exception&) {  // the work's own error, or a timeout, in which case it may still just have ended
    if (!work.isCompleted()) return false;
  }
  return work.wait();
}

FlatOperations::FlatOperations(c10::intrusive_ptr<c10d::Backend> engine, int rank, int size, bool tree_order, Finish finish,
                               std::mutex& calls)
    : engine_(std::move(engine)),
      rank_(rank),
      size_(size),
      tree_order_(tree_order),
      finish_(std::move(finish)),
      calls_(calls) {}

void FlatOperations::all_reduce(const at::Tensor& tensor, ReduceOp op) {
  if (tensor.numel() == 0) return;
  if (!tree_order_) {
    std::vector<at::Tensor> tensors{flat(tensor)};
    c10d::AllreduceOptions options;
    options.reduceOp = c10d_op(op);
    finish_(start_call([&] { return engine_->allreduce(tensors, options); }, calls_), Step::last);
    return;
  }
  const ShardRange own = shard_range(tensor.numel(), size_, rank_);
  const at::Tensor part = at::empty({own.end - own.begin}, tensor.options());
  reduce_scatter_tree(part, tensor, op);
  all_gather(tensor, part);
}

void FlatOperations::reduce_scatter_tree(const at::Tensor& output, const at::Tensor& input, ReduceOp op) {
  const at::Tensor parts = at::empty({size_ * output.numel()}, input.options());
  exchange(parts, input, Step::between);
  if (output.numel() > 0) reduce_parts(output, parts, size_, op);
}

void FlatOperations::reduce_scatter(const at::Tensor& output, const at::Tensor& input, ReduceOp op) {
  if (input.numel() == 0) return;
  if (tree_order_) return reduce_scatter_tree(output, input, op);
  c10d::ReduceScatterOptions options;
  options.reduceOp = c10d_op(op);
  at::Tensor in = flat(input), out = flat(output);
  const int64_t part = shard_range(input.numel(), size_, 0).end;
  const bool even = input.numel() % size_ == 0;
  // Gloo writes partial sums to the output while the input is still read. NCCL takes an output that is its part of the input.
  const bool in_place = !output.is_cpu() && output.storage_offset() == input.storage_offset() + rank_ * part;
  const bool direct = even && (!output.is_alias_of(input) || in_place);
  if (!even) {
    in = at::zeros({part * size_}, input.options());
    in.narrow(0, 0, input.numel()).copy_(flat(input));
  }
  if (!direct) out = at::empty({part}, output.options());
  finish_(start_call([&] { return engine_->_reduce_scatter_base(out, in, options); }, calls_),
          direct ? Step::last : Step::between);
  if (!direct) flat(output).copy_(out.narrow(0, 0, output.numel()));
}

void FlatOperations::gather_bytes(at::Tensor& output, at::Tensor& input) {
  finish_(start_call([&] { return engine_->_allgather_base(output, input); }, calls_), Step::last);
}

void FlatOperations::all_gather(const at::Tensor& output, const at::Tensor& input) {
  if (output.numel() == 0) return;
  const int64_t part = shard_range(output.numel(), size_, 0).end;
  if (output.numel() % size_ == 0) {
    at::Tensor out = byte_view(output), in = byte_view(input);
    finish_(start_call([&] { return engine_->_allgather_base(out, in); }, calls_), Step::last);
    return;
  }
  const at::Tensor padded_out = at::empty({part * size_}, output.options());
  const at::Tensor padded_in = at::zeros({part}, input.options());
  padded_in.narrow(0, 0, input.numel()).copy_(flat(input));
  at::Tensor out = byte_view(padded_out), in = byte_view(padded_in);
  finish_(start_call([&] { return engine_->_allgather_base(out, in); }, calls_), Step::between);
  flat(output).copy_(padded_out.narrow(0, 0, output.numel()));
}

void FlatOperations::broadcast(const at::Tensor& tensor, int root) {
  if (tensor.numel() == 0) return;
  std::vector<at::Tensor> tensors{byte_view(tensor)};
  c10d::BroadcastOptions options;
  options.rootRank = root;
  finish_(start_call([&] { return engine_->broadcast(tensors, options); }, calls_), Step::last);
}

void FlatOperations::all_to_all(const at::Tensor& output, const at::Tensor& input) { exchange(output, input, Step::last); }

void FlatOperations::exchange(const at::Tensor& output, const at::Tensor& input, Step step) {
  if (input.numel() == 0) return;
  const int64_t item = static_cast<int64_t>(input.element_size());
  std::vector<int64_t> input_counts;
  for (int rank = 0; rank < size_; ++rank) {
    const ShardRange part = shard_range(input.numel(), size_, rank);
    input_counts.push_back((part.end - part.begin) * item);
  }
  std::vector<int64_t> output_counts(size_, input_counts[rank_]);
  at::Tensor out = output.numel() > 0 ? byte_view(output) : at::empty({0}, output.options().dtype(at::kByte));
  at::Tensor in = byte_view(input);
  finish_(start_call([&] { return engine_->alltoall_base(out, in, output_counts, input_counts); }, calls_), step);
}

}  // namespace weft
