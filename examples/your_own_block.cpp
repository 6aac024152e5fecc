// A block with its own layers, stacked into a model: weft run -n 2 -- build/examples/your_own_block
#include <ATen/Context.h>
#include <ATen/ops/full.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/randn.h>

#include <iostream>
#include <string>
#include <utility>

#include "weft/layers.h"
#include "weft/trainer.h"

/// x + scale dropout(W2 gelu(W1 norm(x))), on activations [batch, width]. Blocks are the units of scheduling: the trainer runs
/// each one's backward separately.
class Residual : public weft::Block {
 public:
  Residual(std::string name, int64_t width)
      : name_(std::move(name)), norm_(width), up_(width, 4 * width), down_(4 * width, width), scale_(at::full({width}, 0.5)) {}

  /// Dropped elements depend on samples and steps, not on ranks. Other draws here from LibTorch's default generators
  /// (at::rand_like) are keyed too; the block's own generator would differ between ranks, and on recompute.
  weft::Tensors forward(const weft::Tensors& inputs, const weft::Context& context) override {
    const at::Tensor& x = inputs.front();
    const at::Tensor y = down_(at::gelu(up_(norm_(x))));
    return {x.add(weft::dropout(y, 0.02, context, name_ + ".dropout").mul(scale_))};
  }

  /// Names, first values and weight decay of each parameter come from the layers. No memory is allocated until training starts.
  std::vector<weft::ParamSpec> parameters() override {
    std::vector<weft::ParamSpec> specs;
    norm_.describe(specs, "norm");
    up_.describe(specs, "up");
    down_.describe(specs, "down");
    return specs;
  }

  /// Other tensors that the block reads: all ranks get rank 0's values, and checkpoints keep them. A tensor that the block
  /// keeps but does not list is each rank's own, and lost with the process.
  std::vector<weft::BufferSpec> buffers() override { return {{.name = "scale", .value = scale_}}; }

 private:
  std::string name_;
  weft::LayerNorm norm_;
  weft::Linear up_, down_;
  at::Tensor scale_;
};

/// A loss is a sum and its number of terms; the trainer divides by the count of the whole global batch.
weft::LossValue squared_error(const weft::Tensors& outputs, const at::Tensor& target) {
  return {outputs.front().sub(target).square().sum(), target.numel()};
}

int main() {
  const weft::World world = weft::World::from_environment();
  const weft::Mesh mesh(world, {{"dp", world.size()}});
  weft::Model model{.name = "residual", .loss = squared_error};
  for (int i = 0; i < 4; ++i) {
    const std::string name = "layer." + std::to_string(i);  // parameters are named layer.0.norm.weight and so on
    model.blocks.push_back({.name = name, .prefix = name, .block = std::make_shared<Residual>(name, 16)});
  }
  const int64_t share = 256 / world.size();
  weft::Trainer trainer(mesh, model, weft::AdamW{.lr = 0.003}, {.global_batch = 256, .micro_batch = share});

  at::manual_seed(1);  // every rank draws the same x, and takes its share of it
  const at::Tensor x = at::randn({256, 16}).narrow(0, world.rank() * share, share);
  const weft::Batch batch{.inputs = {x}, .target = x.flip(1)};  // to learn: the elements in reverse order
  for (int step = 0; step <= 200; ++step) {
    const double loss = trainer.step(batch).loss;
    if (step % 50 == 0 && world.rank() == 0) std::cout << "step " << step << ": loss " << loss << "\n";
  }
}
