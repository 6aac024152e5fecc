// InFlight: what a rank keeps of a micro-batch between its forward and its backward.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "weft/engine/memory_layout.h"
#include "weft/engine/micro_batch.h"
#include "weft/engine/offload_store.h"
#include "weft/nn/deferred_gradients.h"
#include "weft/nn/graph.h"

namespace weft {

/// An offloaded tensor of a block's input.
struct OffloadedInput {
  MemoryLayout layout;
  at::TensorOptions options;
  bool requires_grad = false;
  at::Tensor values = {};                    ///< those that the host knows (nn/host_values.h)
  std::shared_ptr<OffloadBuffer> room = {};  ///< null: the tensor stayed, because something else holds its memory too
};

/// A micro-batch on its way through this rank's blocks.
struct InFlight {
  MicroBatch batch;                                      ///< if this rank loads it
  std::vector<Tensors> inputs;                           ///< of each block, detached; gradients accumulate in them
  std::vector<Tensors> outputs;                          ///< of each block; empty after a drop, or once freed
  std::vector<GraphEnds> ends;                           ///< of each block's graph, at its outputs; empty after a drop
  std::vector<at::Tensor> statistics;                    ///< of each block: the change made by its forward, until its backward
  std::map<int, std::vector<OffloadedInput>> offloaded;  ///< by block
  std::vector<Tensors> gradients;                        ///< of each block's output, once known
  std::map<int, DeferredGradients> deferred;             ///< by block: the deferred weight gradients of a split backward
  std::map<int, Work> sent;                              ///< by block: its output in flight, kept until it has arrived
};

}  // namespace weft
