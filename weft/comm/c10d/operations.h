// The collectives of Group in terms of a c10d back end.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <functional>
#include <mutex>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <vector>

#include "weft/comm/call/call.h"
#include "weft/comm/call/call_record.h"

namespace weft {

/// Returns whether `work` ends within `time`; throws its error if it fails.
bool ends_within(c10d::Work& work, std::chrono::milliseconds time);

/// Process-wide mutex of start_call() for Gloo.
std::mutex& call_mutex();
/// The same for engines of devices: NCCL has its own log.
std::mutex& device_call_mutex();

/// Starts a c10d call. LibTorch 2.11 records every call in one process-wide log, whose table of groups it reads without a lock
/// (FlightRecorder::record), so no two threads may start calls concurrently, on any group.
template <class Start>
auto start_call(Start start, std::mutex& mutex = call_mutex()) {
  const std::lock_guard lock(mutex);
  return start();
}

inline constexpr size_t kMostCompared = 16;  ///< calls that ranks compare at once

/// Implementation of a group's calls. Group has checked the arguments.
class Operations {
 public:
  using Pending = c10::intrusive_ptr<c10d::Work>;
  virtual ~Operations() = default;
  /// Called before each call, including calls that move no data. Throws CommError that names both sides if the ranks' calls
  /// differ.
  virtual void begin(const Call&, uint64_t /*number*/) {}
  /// The same for the first of several calls in a row that move no data, and perhaps for more of them: `records` holds this
  /// rank's so far, at least one and at most kMostCompared. Returns the number of calls begun, at least one; zero: the
  /// operations begin them one by one.
  virtual size_t begin_some(const std::vector<CallRecord>& /*records*/) { return 0; }
  virtual void all_reduce(const at::Tensor& tensor, ReduceOp op) = 0;
  virtual void reduce_scatter(const at::Tensor& output, const at::Tensor& input, ReduceOp op) = 0;
  virtual void all_gather(const at::Tensor& output, const at::Tensor& input) = 0;
  virtual void broadcast(const at::Tensor& tensor, int root) = 0;
  virtual void all_to_all(const at::Tensor& output, const at::Tensor& input) = 0;
  /// Returns once all ranks have arrived.
  virtual void barrier() {}
};

/// Operations on c10d's collectives, which need parts of equal size: uneven parts are padded or sent with counts, and
/// reductions in tree order become an all-to-all, a local tree and an all-gather.
class FlatOperations : public Operations {
 public:
  /// Position of an operation in its call: `between` if later work, on the host or on the current stream, needs its result.
  enum class Step { between, last };
  /// Called with each c10d operation.
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
