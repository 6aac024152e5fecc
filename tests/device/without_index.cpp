#include "tests/device/without_index.h"

#include <ATen/ops/ones.h>

#include <utility>

namespace weft {

namespace {

class WithoutIndex : public Block {
 public:
  explicit WithoutIndex(std::shared_ptr<Block> block) : block_(std::move(block)) {}
  Tensors forward(const Tensors& inputs, const Context& context) override {
    Tensors outputs = block_->forward(inputs, context);
    const at::TensorOptions somewhere = at::TensorOptions().device(outputs[0].device().type());
    outputs[0] = outputs[0].mul(at::ones({1}, somewhere));
    if (outputs[0].requires_grad()) {
      outputs[0].register_hook([somewhere](const at::Tensor& gradient) { return gradient.mul(at::ones({1}, somewhere)); });
    }
    return outputs;
  }
  std::vector<ParamSpec> parameters() override { return block_->parameters(); }

 private:
  std::shared_ptr<Block> block_;
};

}  // namespace

const Job& job_without_index() {
  static const Job made = [] {
    Job job = weft::job("mlp");
    job.model = [model = job.model] {
      Model made = model();
      for (NamedBlock& named : made.blocks) named.block = std::make_shared<WithoutIndex>(named.block);
      return made;
    };
    return job;
  }();
  return made;
}

}  // namespace weft
