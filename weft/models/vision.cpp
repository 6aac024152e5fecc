#include "weft/models/vision.h"

#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/relu.h>
#include <fmt/core.h>

#include "weft/base/error.h"
#include "weft/nn/cost.h"
#include "weft/nn/layers.h"

namespace weft {

namespace {

class StageBlock : public Block {
 public:
  /// The norm that follows would cancel a bias of the convolution.
  StageBlock(int64_t in, int64_t out) : conv_(in, out, 3, /*with_bias=*/false), norm_(out) {}

  Tensors forward(const Tensors& inputs, const Context& context) override {
    return {at::max_pool2d(at::relu(norm_(conv_(inputs.front()), context.training)), 2)};
  }

  std::vector<ParamSpec> parameters() override {
    std::vector<ParamSpec> specs;
    conv_.describe(specs, "conv");
    norm_.describe(specs, "norm");
    return specs;
  }

  bool can_split_backward() const override { return true; }

 private:
  Conv2d conv_;
  BatchNorm2d norm_;
};

/// Flattens, applies a linear layer, and ReLU unless it is the last.
class LinearBlock : public Block, public HasKind {
 public:
  LinearBlock(int64_t in, int64_t out, bool activate) : linear_(in, out), activate_(activate) {}

  Tensors forward(const Tensors& inputs, const Context&) override {
    const at::Tensor y = linear_(inputs.front().flatten(1));
    return {activate_ ? at::relu(y) : y};
  }

  std::vector<ParamSpec> parameters() override {
    std::vector<ParamSpec> specs;
    linear_.describe(specs, "linear");
    return specs;
  }

  std::string kind() const override { return activate_ ? "linear layer and ReLU" : "linear layer"; }
  bool can_split_backward() const override { return true; }

 private:
  Linear linear_;
  bool activate_;
};

void add(Model& model, const std::string& name, std::shared_ptr<Block> block) {
  model.blocks.push_back({name, name, std::move(block)});
}

}  // namespace

Model cnn(const CnnOptions& o) {
  if (o.channels < 1 || o.width < 1 || o.classes < 1 || o.size < 4) {
    throw InputError("model cnn: channels, width and classes must be at least 1, the image size at least 4");
  }
  Model model{.name = "cnn", .blocks = {}, .loss = cross_entropy, .hits = count_hits};
  const int64_t pooled = o.size / 2 / 2;
  add(model, "stage1", std::make_shared<StageBlock>(o.channels, o.width));
  add(model, "stage2", std::make_shared<StageBlock>(o.width, 2 * o.width));
  add(model, "hidden", std::make_shared<LinearBlock>(2 * o.width * pooled * pooled, 4 * o.width, true));
  add(model, "head", std::make_shared<LinearBlock>(4 * o.width, o.classes, false));
  return model;
}

Model mlp(const MlpOptions& o) {
  if (o.inputs < 1 || o.width < 1 || o.layers < 0 || o.classes < 1) {
    throw InputError("model mlp: inputs, width and classes must be at least 1, layers not negative");
  }
  Model model{.name = "mlp", .blocks = {}, .loss = cross_entropy, .hits = count_hits};
  int64_t in = o.inputs;
  for (int64_t layer = 0; layer < o.layers; ++layer) {
    add(model, fmt::format("hidden.{}", layer), std::make_shared<LinearBlock>(in, o.width, true));
    in = o.width;
  }
  add(model, "head", std::make_shared<LinearBlock>(in, o.classes, false));
  return model;
}

}  // namespace weft
