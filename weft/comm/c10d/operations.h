// The collectives of Group in terms of a c10d backend, which wants parts of equal size: uneven parts are padded or sent with
// counts, and reductions in tree order become an all-to-all, a local tree and an all-gather.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <functional>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "weft/comm/call/call.h"

namespace weft {

/// Whether `work` ends within `time`; throws its error where it fails.
bool ends_within(c10d::Work& work, std::chrono::milliseconds time);

class Operations {
 public:
  using Pending = c10::intrusive_ptr<c10d::Work>;
  /// Where an operation stands in its call: whether something follows, on the host or on the current stream, that must find it
  /// done.
  enum class Step { between, last };
  /// Is called with each c10d operation.
  using Finish = std::function<void(const Pending&, Step)>;

  Operations(c10::intrusive_ptr<c10d::Backend> engine, int rank, int size, bool tree_order, Finish finish);

  void all_reduce(const at::Tensor& tensor, ReduceOp op);
  void reduce_scatter(const at::Tensor& output, const at::Tensor& input, ReduceOp op);
  void all_gather(const at::Tensor& output, const at::Tensor& input);
  void broadcast(const at::Tensor& tensor, int root);
  void all_to_all(const at::Tensor& output, const at::Tensor& input);
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
};

}  // namespace weft
