// A model whose layers are split over the ranks of tp, by its own table: weft run -n 2 -- build/examples/split_layers
#include <ATen/Context.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/randn.h>

#include <iostream>

#include "weft/layers.h"
#include "weft/trainer.h"

/// x + W2 gelu(W1 norm(x)). The context gives its layers the ranks that share them; alone they are whole.
class Residual : public weft::Block {
 public:
  explicit Residual(int64_t width) : norm_(width), up_(width, 4 * width), down_(4 * width, width) {}

  weft::Tensors forward(const weft::Tensors& inputs, const weft::Context& context) override {
    const at::Tensor& x = inputs.front();
    return {x.add(down_(at::gelu(up_(norm_(x, context), context)), context))};
  }

  std::vector<weft::ParamSpec> parameters() override {
    std::vector<weft::ParamSpec> specs;
    norm_.describe(specs, "norm");
    up_.describe(specs, "up");
    down_.describe(specs, "down");
    return specs;
  }

 private:
  weft::LayerNorm norm_;
  weft::Linear up_, down_;
};

weft::LossValue squared_error(const weft::Tensors& outputs, const at::Tensor& target) {
  return {outputs.front().sub(target).square().sum(), target.numel()};
}

int main() {
  const weft::World world = weft::World::from_environment();
  const weft::Mesh mesh(world, {{"tp", world.size()}});
  weft::Model model{.name = "residual", .loss = squared_error};
  for (int i = 0; i < 4; ++i) {
    const std::string name = "layer." + std::to_string(i);
    model.blocks.push_back({.name = name, .prefix = name, .block = std::make_shared<Residual>(16)});
  }
  // Each rank has its part of the 64 hidden elements; the rows' products are summed over the ranks.
  model.splits = {{.layer = "layer.*.up", .kind = weft::SplitKind::columns, .unit_name = "hidden elements"},
                  {.layer = "layer.*.down", .kind = weft::SplitKind::rows, .unit_name = "hidden elements"}};
  weft::Trainer trainer(mesh, model, weft::AdamW{.lr = 0.003}, {.global_batch = 256, .micro_batch = 256});

  at::manual_seed(1);  // every rank draws the same x, and takes all of it: samples are divided over dp and shard only
  const at::Tensor x = at::randn({256, 16});
  const weft::Batch batch{.inputs = {x}, .target = x.flip(1)};  // to learn: the elements in reverse order
  for (int step = 0; step <= 200; ++step) {
    const double loss = trainer.step(batch).loss;
    if (step % 50 == 0 && world.rank() == 0) std::cout << "step " << step << ": loss " << loss << "\n";
  }
}
