// A data set, a network of ordinary torch::nn modules, training and evaluation: weft run -n 2 -- build/examples/train
#include <ATen/ops/randn.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>

#include <iostream>

#include "weft/torch_modules.h"
#include "weft/trainer.h"

/// Points on two interleaved rings, [n, 2], and the ring of each. A loader's background thread calls get().
class Rings : public weft::Dataset {
 public:
  Rings(int64_t size, uint64_t seed) : noise_(at::randn({size, 2}, at::detail::createCPUGenerator(seed))) {}

  int64_t size() const override { return noise_.size(0); }

  weft::Batch get(const std::vector<int64_t>& indices, int64_t /*epoch*/) const override {
    const at::Tensor index = at::tensor(indices, at::kLong);
    const at::Tensor ring = index.remainder(2);
    const at::Tensor angle = index.mul(2.4), radius = ring.add(1.0).unsqueeze(1);
    const at::Tensor circle = at::stack({angle.cos(), angle.sin()}, 1);
    return {.inputs = {circle.mul(radius).add(noise_.index_select(0, index), 0.2)}, .target = ring};
  }

 private:
  at::Tensor noise_;
};

int main() {
  const weft::World world = weft::World::from_environment();
  const weft::Mesh mesh(world, {{"dp", world.size()}});

  // Each module with parameters becomes a block; those without join the block before them.
  torch::nn::Sequential network(torch::nn::Linear(2, 64), torch::nn::BatchNorm1d(64), torch::nn::ReLU(),
                                torch::nn::Dropout(0.1), torch::nn::Linear(64, 2));
  weft::Trainer trainer(mesh, weft::sequential_model("rings", network), weft::AdamW{.lr = 0.01, .weight_decay = 0.1},
                        {.global_batch = 64,
                         .micro_batch = 16,
                         .learning_rate = {.warmup = 20, .steps = 300, .decay = weft::Decay::cosine},
                         .clip = 1.0});

  const auto points = std::make_shared<Rings>(2000, 1);
  weft::Loader loader(points, weft::Sampler(points->size(), {.seed = 1}), trainer.loader_options());
  weft::EvaluationLoader evaluation(std::make_shared<Rings>(500, 2), 100, world.rank(), world.size());
  for (int step = 1; step <= 300; ++step) {
    const weft::StepResult result = trainer.step(loader);
    if (step % 100 != 0) continue;
    const weft::EvaluationResult held_out = trainer.evaluate(evaluation);  // called by every rank: they share the work
    if (world.rank() != 0) continue;
    std::cout << "step " << step << ": loss " << result.loss << ", held-out loss " << held_out.loss << ", " << held_out.hits
              << " of " << held_out.count << " right\n";
  }
}
