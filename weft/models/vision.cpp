#include "weft/models/vision.h"

#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/relu.h>
#include <fmt/core.h>

#include <optional>

#include "weft/base/error.h"
#include "weft/nn/block.h"
#include "weft/nn/layers/layers.h"
#include "weft/nn/loss/cross_entropy.h"

namespace weft {

namespace {

class StageBlock : public Block {
 public:
  /// The following norm would cancel a bias of the convolution.
  StageBlock(int64_t in, int64_t out) : conv_(in, out, 3, /*with_bias=*/false), norm_(out) {}

  Tensors forward(const Tensors& inputs, const Context& context) override {
    return {at::max_pool2d(norm_.relu(conv_(inputs.front(), context), context), 2)};
  }

  std::vector<ParamSpec> parameters() override {
    std::vector<ParamSpec> specs;
    conv_.describe(specs, "conv");
    norm_.describe(specs, "norm");
    return specs;
  }

  bool can_split_backward() const override { return true; }
  bool always_uses_all() const override { return true; }
  bool can_join_batches() const override { return true; }

 private:
  Conv2d conv_;
  BatchNorm2d norm_;
};

/// Flattens, applies a linear layer, and ReLU unless it is the last.
class LinearBlock : public Block, public HasKind {
 public:
  LinearBlock(int64_t in, int64_t out, bool activate) : linear_(in, out), activate_(activate) {}

  Tensors forward(const Tensors& inputs, const Context& context) override {
    const at::Tensor y = linear_(inputs.front().flatten(1), context);
    return {activate_ ? at::relu(y) : y};
  }

  std::vector<ParamSpec> parameters() override {
    std::vector<ParamSpec> specs;
    linear_.describe(specs, "linear");
    return specs;
  }

  std::string kind() const override {
    const std::optional<Split>& split = linear_.weight.split;
    return fmt::format("linear layer{}{}", activate_ ? " and ReLU" : "",
                       split ? fmt::format(", split along dim {}{}", split->dim, split->joined ? ", joined" : "") : "");
  }
  bool can_split_backward() const override { return true; }
  bool always_uses_all() const override { return true; }
  bool can_join_batches() const override { return true; }

 private:
  Linear linear_;
  bool activate_;
};

void add(Model& model, const std::string& name, std::shared_ptr<Block> block) {
  model.blocks.push_back({name, name, std::move(block)});
}

/// The norms' statistics need whole activations, so the convolutions' channels are gathered; the two linear layers are a pair
/// with one sum at the end.
SplitTable cnn_splits() {
  return {
      {.layer = "*.conv", .kind = SplitKind::columns, .unit_name = "channels", .joined = true},
      {.layer = "hidden.linear", .kind = SplitKind::columns},
      {.layer = "head.linear", .kind = SplitKind::rows},
  };
}

/// Pairs of layers, each with one sum at the end; a head without a partner returns whole logits.
SplitTable mlp_splits(int64_t layers) {
  SplitTable table;
  for (int64_t layer = 0; layer < layers; ++layer) {
    table.push_back(
        {.layer = fmt::format("hidden.{}.linear", layer), .kind = layer % 2 == 0 ? SplitKind::columns : SplitKind::rows});
  }
  SplitRule head{.layer = "head.linear", .kind = SplitKind::rows};
  if (layers % 2 == 0) {
    head.kind = SplitKind::vocabulary;
    head.joined = true;
  }
  table.push_back(head);
  return table;
}

}  // namespace

Model cnn(const CnnOptions& o) {
  if (o.channels < 1 || o.width < 1 || o.classes < 1 || o.size < 4) {
    throw InputError("model cnn: channels, width and classes must be at least 1, the image size at least 4");
  }
  Model model{.name = "cnn",
              .blocks = {},
              .loss = cross_entropy,
              .hits = count_hits,
              .top5 = top5_of(o.classes),
              .splits = cnn_splits(),
              .options = {model_option("name", "cnn"), model_option("channels", o.channels), model_option("image_size", o.size),
                          model_option("width", o.width), model_option("classes", o.classes)}};
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
  Model model{.name = "mlp",
              .blocks = {},
              .loss = cross_entropy,
              .hits = count_hits,
              .top5 = top5_of(o.classes),
              .splits = mlp_splits(o.layers),
              .options = {model_option("name", "mlp"), model_option("layers", o.layers), model_option("width", o.width),
                          model_option("classes", o.classes)}};
  int64_t in = o.inputs;
  for (int64_t layer = 0; layer < o.layers; ++layer) {
    add(model, fmt::format("hidden.{}", layer), std::make_shared<LinearBlock>(in, o.width, true));
    in = o.width;
  }
  add(model, "head", std::make_shared<LinearBlock>(in, o.classes, false));
  return model;
}

}  // namespace weft
