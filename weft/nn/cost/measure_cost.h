// Cost of a model, measured by running it on the meta device: no data, no weights, milliseconds for any size of block.
// Identical blocks (HasKind) are run once: time grows with the number of distinct ones.
//
// Floating-point operations are counted as dispatched (matrix products and convolutions: 2 per multiply-add; nothing else).
// Bytes kept for backward are the storages still alive after a forward. Launches are operators that a GPU runs as kernels.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "weft/base/operator_work.h"
#include "weft/nn/cost/cost_options.h"
#include "weft/nn/cost/recorded_group.h"
#include "weft/nn/model.h"

namespace weft {

/// Communication of a block: its calls on the groups of its Context, in order.
struct BlockTraffic {
  std::vector<RecordedCall> forward = {};   ///< calls during its forward
  std::vector<RecordedCall> backward = {};  ///< calls during its backward
  std::vector<RecordedCall> input = {};     ///< calls during the input-gradient part of backward, if it splits
  std::vector<RecordedCall> weight = {};    ///< calls during the weight-gradient part
};

/// Kernels by name, such as "aten::mm.out": how many of each a pass launches on the target device.
using LaunchesByKernel = std::map<std::string, int>;

/// Launches of a block's passes (program/launches.h), without its calls on groups.
struct MeasuredLaunches {
  LaunchesByKernel forward = {};          ///< launches of its forward
  LaunchesByKernel backward = {};         ///< launches of its backward, which writes gradients
  LaunchesByKernel adding_backward = {};  ///< launches of a backward that adds to gradients
  LaunchesByKernel input = {};            ///< launches of the input-gradient part of backward, if it splits
  LaunchesByKernel weight = {};           ///< launches of the weight-gradient part
  LaunchesByKernel adding_weight = {};    ///< launches of one that adds to gradients
};

/// Cost of one block for one micro-batch.
struct MeasuredCost {
  double forward_flops = 0.0;       ///< floating-point operations of its forward
  double backward_flops = 0.0;      ///< floating-point operations of its backward, including recomputed parts
  int64_t saved_bytes = 0;          ///< bytes kept for backward, excluding its input, output and parameters
  int64_t output_bytes = 0;         ///< bytes of its outputs
  int64_t passed_bytes = 0;         ///< part of output_bytes: integer inputs passed through, without own memory or gradient
  bool has_gradient = false;        ///< an output depends on what is trained, or on the block's inputs
  bool keeps_output = false;        ///< its graph keeps the outputs that are not passed through
  int64_t forward_peak_bytes = 0;   ///< peak of its forward, including output and what is kept
  int64_t backward_peak_bytes = 0;  ///< peak of backward, including what was kept, the output, its gradient and the input's
  int64_t input_peak_bytes = 0;     ///< the same for the input-gradient part of backward, if it splits
  int64_t weight_peak_bytes = 0;    ///< the same for the weight-gradient part, including what the first part left for it
  double input_flops = 0.0;         ///< part of backward_flops: the input-gradient part, if it splits
  int64_t deferred_bytes = 0;       ///< bytes kept between the two parts, of the input too
  int64_t partial_numel = 0;        ///< trained elements whose gradients backward left partial (Parameter::partial)
  BlockTraffic traffic = {};        ///< its communication
  MeasuredLaunches launches = {};   ///< kernels that it launches
  BlockOperators operators = {};    ///< what these have to do
};

/// Measures each block by running it forward and backward once; the model's parameters must be on the meta device. `inputs` is
/// a micro-batch of meta tensors. Memory is exact for tensors; kernels' internal memory is not seen, except attention's on one
/// thread.
/// `outputs`, if given, receives the last block's outputs.
std::vector<MeasuredCost> measure_cost(Model& model, const Tensors& inputs, const CostOptions& options = {},
                                       Tensors* outputs = nullptr);

/// Cost of the loss of one micro-batch.
struct LossCost {
  int64_t peak_bytes = 0;           ///< peak of loss and backward, excluding the outputs
  std::vector<RecordedCall> calls;  ///< communication of loss and backward
  LaunchesByKernel launches;        ///< kernels of loss and backward
  PassOperators operators = {};     ///< what these have to do
};

/// Cost of the loss of outputs [samples, ...]. Meant for meta tensors, which take no memory and have no values to count; on
/// other devices the loss really runs.
LossCost measure_loss(const Model& model, const Tensors& outputs, const at::Tensor& target, const CostOptions& options = {});

}  // namespace weft
