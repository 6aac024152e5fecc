// StagedCall: a call of a group whose tensors are on a device and whose data moves between pinned buffers on the host.
//
// Copies run on the group's own streams.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>

#include "weft/comm/call/work.h"
#include "weft/comm/staged/copy_streams.h"
#include "weft/comm/store/store_errors.h"

namespace weft {

/// What a call reads and writes: the same tensor, or one of them undefined. Without graphs: a graph may hold the last reference
/// to the group, which cannot be released in its own thread.
struct StagedTensors {
  at::Tensor output, input;
};

class StagedCall : public Work::State {
 public:
  /// Runs the call on the host, with buffers in place of the tensors.
  using OnHost = std::function<Work(const StagedTensors& buffers)>;

  /// Begins to copy the input, after the work on the caller's current stream.
  StagedCall(StagedTensors tensors, const CopyStreams& streams, OnHost on_host);
  ~StagedCall() override;

  /// In the group's thread: waits for the copy, runs the call on the host, and begins to copy the output back. Returns the
  /// error.
  std::optional<GroupFailure> run();
  /// Ends the call for wait(), which throws the error.
  void end(std::optional<GroupFailure> failure);
  /// The host waits until the output's copy has begun, and the caller's current stream until it has ended. A call with input
  /// alone, such as a send, is over once that is copied.
  void wait() override;

 private:
  StagedTensors tensors_, buffers_;
  bool has_input_, has_output_;
  CopyStreams streams_;
  OnHost on_host_;
  c10::Event ready_;   ///< the caller's work before the call
  c10::Event copied_;  ///< the copy that ends the call on the device
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ended_ = false;
  std::optional<GroupFailure> failure_;
};

}  // namespace weft
