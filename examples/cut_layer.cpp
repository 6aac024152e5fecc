// One linear layer cut horizontally over devices, their results concatenated: weft run -n 2 -- build/examples/cut_layer
#include <ATen/Context.h>
#include <ATen/ops/randn.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/linear.h>

#include <iostream>

#include "weft/torch_modules.h"
#include "weft/trainer.h"

int main() {
  const weft::World world = weft::World::from_environment();
  const weft::Mesh mesh(world, {{"dp", 1}, {"tp", world.size()}});

  at::manual_seed(1);  // all ranks of tp have the same samples: [batch, 2] points, and whether they lie in a circle
  const at::Tensor points = at::randn({256, 2});
  const weft::Batch batch{.inputs = {points}, .target = points.square().sum(1).lt(1.0).to(at::kLong)};

  torch::nn::Linear cut(2, 64);
  weft::Model model = weft::sequential_model("circle", torch::nn::Sequential(cut, torch::nn::ReLU(), torch::nn::Linear(64, 2)));
  // Each rank holds some rows of W in y = x W^T + b, computes their outputs, and receives the others' outputs. Without `joined`
  // the outputs stay local, for a next layer split by rows (weft::SplitKind::rows); then half as much is sent.
  model.splits = {{.layer = "0", .kind = weft::SplitKind::columns, .joined = true}};

  weft::Trainer trainer(mesh, model, weft::AdamW{.lr = 0.01}, {.global_batch = 256, .micro_batch = 256});
  double loss = 0.0;
  for (int step = 0; step < 100; ++step) loss = trainer.step(batch).loss;  // the same on every rank
  if (world.rank() != 0) return 0;
  std::cout << "loss " << loss << "; each of " << world.size() << " ranks has " << cut->weight.size(0) << " of 64 rows\n";
  return loss < 0.2 && cut->weight.size(0) == 64 / world.size() ? 0 : 1;
}
