// A block's piece of the autograd graph: cut off from the block before, and run backward by itself.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "weft/nn/block.h"

namespace weft {

/// The values of `tensors` as new leaves that gradients arrive in; token ids take none.
Tensors detach(const Tensors& tensors);
/// The values of a block's outputs as new leaves, for the next block. Gradients arrive only where there is a graph behind:
/// nothing that the others came from is trained.
Tensors detach_outputs(const Tensors& outputs);

/// A block's outputs as it hands them on: a view that leaves out places between its elements (a token of each sequence, one of
/// two halves) is copied, so that what stands for it elsewhere, on another stage or offloaded, takes no more memory than it and
/// lies as it does.
Tensors without_gaps(Tensors outputs);

/// The tensors in the types that losses are computed in: bfloat16 and float16 become float32; all else is as it was.
Tensors widen(const Tensors& tensors);

/// For a backward by kernels that autograd does not see: throws InputError, naming `what`, where it is run with create_graph.
void refuse_second_order(std::string_view what);

/// In a backward: whether it lets its graph go, so that nothing which that keeps is read again.
bool runs_once();

/// How often a tensor was changed in place; 0 for one made in inference mode, which does not count. A change is seen by it
/// without a comparison of values.
uint32_t version_of(const at::Tensor& tensor);

/// Where a graph ends: all that a backward needs of the outputs. Whoever keeps it may let their values go.
class GraphEnds {
 public:
  GraphEnds() = default;
  GraphEnds(const Tensors& outputs);  ///< implicit: outputs stand for their ends

 private:
  friend void run_backward(const GraphEnds& ends, const Tensors& gradients);
  struct End {
    std::shared_ptr<torch::autograd::Node> node;  ///< null: no graph
    uint32_t output = 0;                          ///< of the node
  };
  std::vector<End> ends_;
};

/// Runs the graph from `gradients` of its outputs on; an output that nothing used, or that has no graph, is left out.
void run_backward(const GraphEnds& ends, const Tensors& gradients);

/// The gradients that have arrived in leaves made by detach(); undefined where none has.
Tensors take_gradients(const Tensors& inputs);

}  // namespace weft
