// Blocks made of torch::nn modules: any module is a block, and a Sequential is a model that is divided automatically.
//
// A heavy header (it includes torch/nn): include it only to wrap modules. The owner constructs the module and its initial
// values; rank 0's values are used on all ranks.
//
// Parameters whose requires_grad is false when training starts are frozen: they cost only their memory, with no gradient,
// optimizer state or reduction. Float32 buffers whose names begin with "running_" (BatchNorm's statistics) are combined as in
// nn/flat/flat_model.h. Other buffers, of any type that checkpoints support, are constant (BufferSpec): a forward that changes
// one throws InputError, except "num_batches_tracked", which advances once per step in every layout.
//
// Each module trains or evaluates as its owner set it (train(), eval()): a BatchNorm in eval() never changes its statistics. An
// evaluation puts all modules in eval(), then restores each one's flag.
//
// Random numbers from LibTorch's default generators (Dropout) are keyed by (seed, step, block, sample), as in every block
// (nn/keyed_generators.h); the block's name is the one given here.
//
// Model::splits may divide a Linear, Conv2d or Embedding that is a direct module of sequential_model()'s sequence
// (nn/modules/module_chain.h); their tensors are this rank's part once training starts. No other layer can be divided, and a
// rule for one is refused.
#pragma once

#include <torch/nn/modules/container/any.h>
#include <torch/nn/modules/container/sequential.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "weft/nn/loss/cross_entropy.h"
#include "weft/nn/model.h"

namespace weft {

/// What a module does not say of its tensors, by their names.
struct TensorNames {
  std::vector<std::string> embeddings = {};  ///< parameters whose rows are looked up by id, besides those of torch's embeddings
  std::vector<std::string> unsaved = {};     ///< constant buffers that are in no checkpoint (BufferSpec::saved)
};

/// A block that runs `forward`, with the parameters and buffers of `module`.
std::shared_ptr<Block> module_block(std::string name, std::shared_ptr<torch::nn::Module> module,
                                    std::function<Tensors(const Tensors&)> forward, const TensorNames& names = {});

/// A model of one block. Reports accuracy if its loss is of classes (hits_of()). `module` is a holder (torch::nn::Linear, or
/// one made by TORCH_MODULE) with forward(Tensor).
template <typename Holder>
Model module_model(const std::string& name, Holder module, const Loss& loss = cross_entropy) {
  auto block = module_block(name, module.ptr(),
                            [module](const Tensors& inputs) mutable -> Tensors { return {module->forward(inputs.front())}; });
  return {.name = name, .blocks = {{name, "", std::move(block)}}, .loss = loss, .hits = hits_of(loss)};
}

/// A model with a block for each module of the sequence; modules without parameters join the block before them. Parameters keep
/// their names ("0.weight"). It reports accuracy if its loss is of classes (hits_of()). Throws InputError for an empty
/// sequence.
Model sequential_model(const std::string& name, torch::nn::Sequential sequence, const Loss& loss = cross_entropy);

}  // namespace weft
