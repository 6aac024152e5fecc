// The collectives of Group in terms of a c10d backend.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <functional>
#include <mutex>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "weft/comm/call/call.h"

namespace weft {

/// Whether `work` ends within `time`; throws its error where it fails.
bool ends_within(c10d::Work& work, std::chrono::milliseconds time);

/// The process's, of start_call() for Gloo.
std::mutex& call_mutex();
/// And for NCCL, whose log is another. The first call of two ranks waits within for the other one, with that mutex held.
std::mutex& nccl_call_mutex();

/// Makes a call of c10d's. LibTorch 2.11 writes every call into one log of the process, and looks its table of groups up
/// without a lock (FlightRecorder::record): two threads must not start calls at the same time, wherever they do.
template <class Start>
auto start_call(Start start, std::mutex& mutex = call_mutex()) {
  const std::lock_guard lock(mutex);
  return start();
}

/// What a group's calls come down to. The arguments have been checked by Group.
class Operations {
 public:
  using Pending = c10::intrusive_ptr<c10d::Work>;
  virtual ~Operations() = default;
  /// Told of each call before it is made, also of one that moves nothing. Throws CommError, with both sides named, where the
  /// ranks are found to call different things.
  virtual void begin(const Call&, uint64_t /*number*/) {}
  virtual void all_reduce(const at::Tensor& tensor, ReduceOp op) = 0;
  virtual void reduce_scatter(const at::Tensor& output, const at::Tensor& input, ReduceOp op) = 0;
  virtual void all_gather(const at::Tensor& output, const at::Tensor& input) = 0;
  virtual void broadcast(const at::Tensor& tensor, int root) = 0;
  virtual void all_to_all(const at::Tensor& output, const at::Tensor& input) = 0;
  /// Ends once all ranks have come.
  virtual void barrier() {}
};

/// On c10d's collectives, which want parts of equal size: uneven parts are padded or sent with counts, and reductions in tree
/// order become an all-to-all, a local tree and an all-gather.
class FlatOperations : public Operations {
 public:
  /// Where an operation stands in its call: whether something follows, on the host or on the current stream, that must find it
  /// done.
  enum class Step { between, last };
  /// Is called with each c10d operation.
  using Finish = std::function<void(const Pending&, Step)>;

  FlatOperations(c10::intrusive_ptr<c10d::Backend> engine, int rank, int size, bool tree_order, Finish finish,
                 std::mutex& calls = call_mutex());

  void all_reduce(const at::Tensor& tensor, ReduceOp op) override;
  void reduce_scatter(const at::Tensor& output, const at::Tensor& input, ReduceOp op) override;
  void all_gather(const at::Tensor& output, const at::Tensor& input) override;
  void broadcast(const at::Tensor& tensor, int root) override;
  void all_to_all(const at::Tensor& output, const at::Tensor& input) override;
  /// Gathers `input` as raw bytes from every rank, in rank order.
  void gather_bytes(at::Tensor& output, at::Tensor& input);

 private:
  void exchange(const at::Tensor& output, const at::Tensor& input, Step step);
  void reduce_scatter_tree(const at::Tensor& output, const at::Tensor& input, ReduceOp op);

  c10::intrusive_ptr<c10d::Backend> engine_;
  int rank_;
  int size_;
  bool tree_order_;
  Finish finish_;
  std::mutex& calls_;
};

}  // namespace weft
