// Blocks made of torch::nn modules: any module is a block, and a Sequential is a model that splits by itself.
//
// A heavy header (it includes torch/nn): only who wraps modules needs it. The module is constructed by its owner, values
// included; rank 0's are taken everywhere.
//
// Parameters that take no gradient (requires_grad) when training starts are frozen: they cost their memory, and no gradient,
// optimizer state or reduction. Float32 buffers whose names begin with "running_" (BatchNorm's statistics) are combined as
// nn/flat/flat_model.h says. Others, of any type that checkpoints have, are constant (BufferSpec): a forward that changes one
// throws InputError, but for "num_batches_tracked", which goes on once a step whatever the layout.
//
// Each module trains or evaluates as its owner has set it (train(), eval()): a BatchNorm in eval() keeps its statistics in
// every step. An evaluation puts all of them in eval(), and gives each its own flag back.
//
// Random numbers that it takes from LibTorch's default generators (Dropout) are keyed by (seed, step, block, sample), as those
// of every block are (nn/keyed_generators.h); its name here is the block's in that.
//
// Model::splits may divide a Linear, Conv2d or Embedding that is a module of sequential_model()'s sequence itself
// (nn/modules/module_chain.h); their tensors are this rank's part once training starts. Nothing of another block is divided,
// and a rule for it is refused.
#pragma once

#include <torch/nn/modules/container/any.h>
#include <torch/nn/modules/container/sequential.h>

#include <functional>
#include <memory>
#include <string>

#include "weft/nn/loss/cross_entropy.h"
#include "weft/nn/model.h"

namespace weft {

/// A block that runs `forward`, whose parameters and buffers are those of `module`.
std::shared_ptr<Block> module_block(std::string name, std::shared_ptr<torch::nn::Module> module,
                                    std::function<Tensors(const Tensors&)> forward);

/// A model of one block that reports accuracy where its loss is of classes (hits_of()): `module` is a holder
/// (torch::nn::Linear, or one made by TORCH_MODULE) with forward(Tensor).
template <typename Holder>
Model module_model(const std::string& name, Holder module, const Loss& loss = cross_entropy) {
  auto block = module_block(name, module.ptr(),
                            [module](const Tensors& inputs) mutable -> Tensors { return {module->forward(inputs.front())}; });
  return {.name = name, .blocks = {{name, "", std::move(block)}}, .loss = loss, .hits = hits_of(loss)};
}

/// A model with a block for each module of the sequence; modules without parameters join the block before them. Parameters keep
/// their names ("0.weight"). It reports accuracy where its loss is of classes (hits_of()). Throws InputError for an empty
/// sequence.
Model sequential_model(const std::string& name, torch::nn::Sequential sequence, const Loss& loss = cross_entropy);

}  // namespace weft
