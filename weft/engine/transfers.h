// Transfers: activations and their gradients on their way between the stages of a pipeline; and between copies of them,
// inputs, weights and gradients too.
//
// A message is a list of tensors, sent one by one. The receiver learns their shapes, types and strides from a header that goes
// before the first micro-batch that a rank sends it in a step, so they may change from step to step; those of the model it
// knows. Messages between two ranks keep their order.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "weft/comm/group.h"
#include "weft/engine/memory_layout.h"
#include "weft/nn/block.h"

namespace weft {

/// A tensor that is handed on.
struct TensorShape {
  at::ScalarType dtype = at::kFloat;
  MemoryLayout layout = {};
};

class Transfers {
 public:
  /// `pipeline`: the ranks that hold the stages. `tells_which`: a gradient that is not defined where it is sent is none where
  /// it is received; otherwise it is zero there.
  Transfers(const Group& pipeline, at::Device device, bool tells_which = false);

  /// A step begins: headers are sent anew.
  void begin();

  /// Sends the output of `block`. Throws InputError when its shape is not that of the step's first micro-batch.
  Work send_activation(int peer, int block, const Tensors& tensors, const std::string& what);
  /// Receives the output of `block`, which is in `result` once waited for; floating-point tensors take gradients.
  Work receive_activation(int peer, int block, Tensors& result, const std::string& what);
  /// Sends `tensors`, the gradients of floating-point tensors of the output of `block`; some may be undefined. Waits for
  /// what was sent to this peer before, which has long arrived, so that no more than one is kept.
  Work send_gradient(int peer, int block, const Tensors& tensors, const std::string& what);
  /// Sends a micro-batch's inputs. Throws as send_activation() does, and waits as send_gradient().
  Work send_batch(int peer, const Tensors& inputs, const std::string& what);
  /// Receives them.
  Work receive_batch(int peer, Tensors& result, const std::string& what);
  /// Sends tensors whose shapes the receiver knows.
  Work send_known(int peer, const Tensors& tensors, const std::string& what) { return send(peer, tensors, what); }
  /// Receives such into `tensors`.
  Work receive_known(int peer, Tensors tensors, const std::string& what);
  /// Receives the gradients of what was sent as the output of `block`; undefined where that is not floating point.
  Work receive_gradient(int peer, int block, Tensors& result, const std::string& what);

 private:
  struct Incoming;
  class Receiving;
  using Shapes = std::vector<TensorShape>;  // a header's content

  Work send(int peer, const Tensors& tensors, const std::string& what);
  Work add(int peer, std::shared_ptr<Incoming> message);
  void start(Incoming& message);
  at::TensorOptions options(at::ScalarType dtype) const { return at::TensorOptions(dtype).device(device_); }
  void learn_shapes(const Incoming& message);
  void finish(const std::shared_ptr<Incoming>& message);

  const Group& pipeline_;
  at::Device device_;
  bool tells_which_;
  std::map<std::pair<int, int>, Shapes> told_, learnt_;            // by peer and block
  std::map<int, Work> sent_gradients_, sent_batches_;              // by peer: the last one
  std::map<int, std::deque<std::shared_ptr<Incoming>>> incoming_;  // by peer: not started yet, in order
};

}  // namespace weft
