// One layer bound to its own flat buffer, so that a test can inspect its gradients.
#pragma once

#include <functional>
#include <memory>

#include "weft/nn/flat/flat_model.h"
#include "weft/nn/loss/cross_entropy.h"

namespace weft {

/// A block around a function of its input.
class FunctionBlock : public Block {
 public:
  using Forward = std::function<Tensors(const Tensors&, const Context&)>;
  FunctionBlock(Forward forward, std::vector<ParamSpec> specs) : forward_(std::move(forward)), specs_(std::move(specs)) {}
  Tensors forward(const Tensors& inputs, const Context& context) override { return forward_(inputs, context); }
  std::vector<ParamSpec> parameters() override { return specs_; }

 private:
  Forward forward_;
  std::vector<ParamSpec> specs_;
};

inline FlatModel bind_block(std::shared_ptr<Block> block, const FlatOptions& options = {}) {
  Model model{.name = "test", .blocks = {}, .loss = cross_entropy, .hits = {}};
  model.blocks.push_back({"block", "block", std::move(block)});
  FlatModel flat(std::move(model), options);
  flat.initialise(0, /*seed=*/1);
  return flat;
}

}  // namespace weft
