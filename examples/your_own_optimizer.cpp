// A custom optimizer, whose state the ranks share: weft run -n 2 -- build/examples/your_own_optimizer
#include <ATen/Context.h>
#include <ATen/ops/randn.h>

#include <iostream>

#include "weft/model.h"
#include "weft/trainer.h"

/// The sign of a momentum (Bernstein et al. 2018, arXiv:1802.04434): m = momentum m + (1 - momentum) g; w -= lr (sign(m) +
/// weight_decay w).
class Signum : public weft::ElementWiseUpdate {
 public:
  explicit Signum(double momentum) : momentum_(momentum) {}

  std::string name() const override { return "signum"; }
  std::string numbers() const override { return "momentum " + std::to_string(momentum_); }
  std::vector<std::string> state_names() const override { return {"momentum"}; }

  /// Updates the elements that this rank owns, part of one tensor or of several, in place.
  void update(const weft::ElementRange& range) const override {
    const at::Tensor& mean = range.state[0];
    mean.mul_(momentum_).add_(range.gradients, 1.0 - momentum_);
    if (range.weight_decay != 0.0) range.weights.mul_(1.0 - range.lr * range.weight_decay);
    range.weights.sub_(mean.sign(), range.lr);
  }

 private:
  double momentum_;
};

int main() {
  const weft::World world = weft::World::from_environment();
  const weft::Mesh mesh(world, {{"shard", world.size()}});
  const weft::CustomOptimizer optimizer{.lr = 0.002, .weight_decay = 0.01, .update = std::make_shared<Signum>(0.9)};
  const int64_t share = 256 / world.size();
  weft::Trainer trainer(mesh, weft::mlp({.inputs = 16, .width = 32, .layers = 2, .classes = 2}), optimizer,
                        {.global_batch = 256,
                         .micro_batch = share,
                         .layout = {.shard_level = weft::ShardLevel::optimizer}});  // each rank has its part of "momentum"

  at::manual_seed(1);  // every rank draws the same points, and takes its share of them
  const at::Tensor points = at::randn({256, 16}).narrow(0, world.rank() * share, share);
  const weft::Batch batch{.inputs = {points}, .target = points.square().sum(1).gt(16.0).to(at::kLong)};
  for (int step = 0; step <= 60; ++step) {
    const double loss = trainer.step(batch).loss;
    if (step % 20 == 0 && world.rank() == 0) std::cout << "step " << step << ": loss " << loss << "\n";
  }
  // trainer.save() keeps "momentum/NAME" with the weights; load() reads it on any number of ranks, at any level.
}
