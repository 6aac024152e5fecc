// Transfers: move activations and their gradients between the stages of a pipeline, and inputs, weights and gradients between
// copies of stages.
//
// A message is a list of tensors, sent one by one. Every sender sends a header with shapes, types and strides before its first
// micro-batch: in each step, so they may change between steps, or once for all steps that follow one another. Those of the
// model's own tensors are known. Messages between two ranks keep their order.
//
// Integers on a device whose values the sender's host knows (nn/host_values.h), such as positions in documents, are sent from
// host to host if the group can: the receiver's host then knows them too, and never waits for the device.
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

/// Type and layout of a transferred tensor.
struct TensorShape {
  at::ScalarType dtype = at::kFloat;
  MemoryLayout layout = {};
  bool from_host = false;      ///< sent from host to host, row-major
  bool gets_gradient = false;  ///< it is from parameters, on the sender
};

class Transfers {
 public:
  /// `pipeline`: the ranks that hold the stages. `marks_defined`: a gradient that is undefined on the sender is undefined on
  /// the receiver; otherwise it is zero there.
  Transfers(const Group& pipeline, at::Device device, bool marks_defined = false);

  /// Begins anew: headers are sent again.
  void begin();
  /// Begins a step. With `keeps_shapes`, headers are not sent again if begin_step() was the last call before; on all ranks
  /// alike.
  void begin_step(bool keeps_shapes);

  /// From now on sends nothing from host to host: for steps that are captured, where the host takes no part.
  void send_from_device() { uses_host_ = false; }

  /// Sends the output of `block`. Throws InputError if its shape differs from what a header announced.
  Work send_activation(int peer, int block, const Tensors& tensors, const std::string& what);
  /// Receives the output of `block` into `result`, which is filled once waited for; floating-point tensors take gradients.
  Work receive_activation(int peer, int block, Tensors& result, const std::string& what);
  /// Sends `tensors`, the gradients of the floating-point outputs of `block`; some may be undefined. First waits for the
  /// previous gradient to this peer, which has long arrived, so that at most one is kept.
  Work send_gradient(int peer, int block, const Tensors& tensors, const std::string& what);
  /// Sends a micro-batch's inputs. Throws as send_activation() does, and waits as send_gradient().
  Work send_batch(int peer, const Tensors& inputs, const std::string& what);
  /// Receives a micro-batch's inputs into `result`.
  Work receive_batch(int peer, Tensors& result, const std::string& what);
  /// Sends tensors whose shapes the receiver knows.
  Work send_known(int peer, const Tensors& tensors, const std::string& what) { return send(peer, tensors, what); }
  /// Receives tensors of known shapes into `tensors`.
  Work receive_known(int peer, Tensors tensors, const std::string& what);
  /// Receives the gradients of the outputs sent by `block`; undefined for outputs that are not floating point.
  Work receive_gradient(int peer, int block, Tensors& result, const std::string& what);

 private:
  struct Incoming;
  class Receiving;
  using Shapes = std::vector<TensorShape>;  // a header's content

  void begin_messages();
  Work send(int peer, const Tensors& tensors, const std::string& what);
  Work add(int peer, std::shared_ptr<Incoming> message);
  void start(Incoming& message);
  at::TensorOptions options(at::ScalarType dtype) const { return at::TensorOptions(dtype).device(device_); }
  Shapes shapes_of(const Tensors& tensors) const;
  void receive_shapes(const Incoming& message);
  void finish(const std::shared_ptr<Incoming>& message);

  const Group& pipeline_;
  at::Device device_;
  bool marks_defined_;
  bool uses_host_;  ///< the group moves tensors of the host, too
  bool in_steps_ = false, keeps_shapes_ = false;
  std::map<std::pair<int, int>, Shapes> sent_shapes_, received_shapes_;  // by peer and block: sent and received headers
  std::map<int, Work> sent_gradients_, sent_batches_;                    // by peer: the last send
  std::map<int, std::deque<std::shared_ptr<Incoming>>> incoming_;        // by peer: not started yet, in order
};

}  // namespace weft
