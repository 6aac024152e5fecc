// Learns which points lie in a circle, on any number of ranks: weft run -n 2 -- build/examples/quickstart
#include <ATen/Context.h>
#include <ATen/ops/randn.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/linear.h>

#include <iostream>

#include "weft/torch_modules.h"
#include "weft/trainer.h"

int main() {
  const weft::World world = weft::World::from_environment();
  const weft::Mesh mesh(world, {{"dp", world.size()}});

  at::manual_seed(1);  // every rank draws the same points, and takes its share of them
  const at::Tensor points = at::randn({1024, 2});
  const at::Tensor inside = points.square().sum(1).lt(1.0).to(at::kLong);
  const int64_t share = 1024 / world.size(), first = world.rank() * share;
  const weft::Batch batch{.inputs = {points.narrow(0, first, share)}, .target = inside.narrow(0, first, share)};

  torch::nn::Sequential network(torch::nn::Linear(2, 64), torch::nn::ReLU(), torch::nn::Linear(64, 2));
  weft::Trainer trainer(mesh, weft::sequential_model("circle", network), weft::AdamW{.lr = 0.01},
                        {.global_batch = 1024, .micro_batch = share});
  for (int step = 0; step <= 200; ++step) {
    const double loss = trainer.step(batch).loss;  // of the whole global batch, the same on every rank
    if (step % 50 == 0 && world.rank() == 0) std::cout << "step " << step << ": loss " << loss << "\n";
  }
}
