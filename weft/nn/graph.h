// A block's section of the autograd graph: detached from the previous block, and run backward separately.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "weft/nn/block.h"

namespace weft {

/// Returns the values of `tensors` as new leaves. Floating-point leaves receive gradients; token ids do not.
Tensors detach(const Tensors& tensors);
/// Returns the values of a block's outputs as new leaves, for the next block. Only outputs with a graph receive gradients: no
/// trained parameter affects the others.
Tensors detach_outputs(const Tensors& outputs);

/// Returns a block's outputs as they are passed on. A view with gaps between its elements (one token of each sequence, one of
/// two halves) is copied, so that its copy on another stage or in offload memory has the same size and layout.
Tensors without_gaps(Tensors outputs);

/// Converts bfloat16 and float16 tensors to float32, the type losses are computed in; others are unchanged.
Tensors widen(const Tensors& tensors);

/// Throws InputError, naming `what`, if backward runs with create_graph; for backwards whose kernels autograd cannot see.
void refuse_second_order(std::string_view what);

/// Called in a backward: returns whether the graph is being freed, so that nothing it keeps will be read again.
bool frees_graph();

/// Number of in-place changes of a tensor, used to detect a change without comparing values. 0 for a tensor made in inference
/// mode, which does not count them.
uint32_t version_of(const at::Tensor& tensor);

/// Where a graph ends: all that backward needs of a block's outputs, whose values may be freed before it runs.
class GraphEnds {
 public:
  GraphEnds() = default;
  GraphEnds(const Tensors& outputs);  ///< implicit, from the outputs themselves

 private:
  friend void run_backward(const GraphEnds& ends, const Tensors& gradients);
  struct End {
    std::shared_ptr<torch::autograd::Node> node;  ///< null: no graph
    uint32_t output = 0;                          ///< index among the node's outputs
  };
  std::vector<End> ends_;
};

/// Runs the graph backward from `gradients` of its outputs; outputs that are unused or have no graph are skipped.
void run_backward(const GraphEnds& ends, const Tensors& gradients);

/// Returns the gradients that have arrived in leaves made by detach(); undefined for leaves without one.
Tensors take_gradients(const Tensors& inputs);

}  // namespace weft
