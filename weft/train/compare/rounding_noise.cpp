#include "weft/train/compare/rounding_noise.h"

#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "weft/nn/keyed_generators.h"
#include "weft/nn/random.h"

namespace weft {

namespace {

/// Distance from 1 to the next number of the type.
double spacing(Precision precision) {
  switch (precision) {
    case Precision::bf16:
      return 0x1p-7;
    case Precision::fp16:
      return 0x1p-10;
    case Precision::fp32:
      break;
  }
  return 0x1p-23;
}

class Noisy : public Block, public HasRandomName {
 public:
  Noisy(std::shared_ptr<Block> block, std::string name, double most)
      : block_(std::move(block)), name_(std::move(name)), most_(most) {}

  Tensors forward(const Tensors& inputs, const Context& context) override {
    Tensors outputs = block_->forward(inputs, context);
    for (at::Tensor& output : outputs) {
      if (!output.is_floating_point() || output.dim() == 0) continue;
      const at::Tensor factor = at::empty(output.sizes(), output.options().dtype(at::kFloat));
      const int64_t first = context.first_sample * (output.numel() / std::max<int64_t>(1, output.size(0)));
      fill_uniform(factor, random_key(context.seed, name_, context.step), first, 1.0 - most_, 1.0 + most_);
      output = output.mul(factor).to(output.scalar_type());
    }
    return outputs;
  }
  std::vector<ParamSpec> parameters() override { return block_->parameters(); }
  std::vector<BufferSpec> buffers() override { return block_->buffers(); }
  bool can_recompute_parts() const override { return block_->can_recompute_parts(); }
  bool can_split_backward() const override { return block_->can_split_backward(); }
  bool can_chunk_loss() const override { return block_->can_chunk_loss(); }
  bool can_join_batches() const override { return block_->can_join_batches(); }
  bool always_uses_all() const override { return block_->always_uses_all(); }
  std::string random_name() const override { return random_name_of(*block_); }

 private:
  std::shared_ptr<Block> block_;
  std::string name_;
  double most_;
};

}  // namespace

Model with_rounding_noise(Model model, Precision precision, int number, NoiseWidth width) {
  const double most = 2.0 * spacing(precision) * (width == NoiseWidth::wide ? kWideNoise : 1.0);
  for (NamedBlock& named : model.blocks) {
    const std::string name =
        fmt::format("{}rounding noise {} of {}", width == NoiseWidth::wide ? "wide " : "", number, named.name);
    named.block = std::make_shared<Noisy>(named.block, name, most);
  }
  return model;
}

}  // namespace weft
