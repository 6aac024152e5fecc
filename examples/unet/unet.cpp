// A U-Net that removes noise from pictures, as a pipeline that passes its skips along: weft run -n 2 -- ./unet
#include <ATen/Context.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/upsample_nearest2d.h>
#include <ATen/ops/zeros.h>

#include <iostream>

#include "weft/layers.h"
#include "weft/trainer.h"

/// relu(norm(conv(x))), on [samples, channels, height, width].
struct Convolution {
  Convolution(int64_t in, int64_t out) : conv(in, out, 3, /*with_bias=*/false), norm(out, 4) {}
  at::Tensor operator()(const at::Tensor& x) { return norm(conv(x)).relu(); }
  std::vector<weft::ParamSpec> parameters() {
    std::vector<weft::ParamSpec> specs;
    conv.describe(specs, "conv");
    norm.describe(specs, "norm");
    return specs;
  }

  weft::Conv2d conv;
  weft::GroupNorm norm;
};

/// Takes {x, skips...} and returns {x at half the size, skips..., x}: the last skip is the deepest so far.
class Down : public weft::Block {
 public:
  Down(int64_t in, int64_t out) : layer_(in, out) {}
  weft::Tensors forward(const weft::Tensors& inputs, const weft::Context& /*context*/) override {
    const at::Tensor x = layer_(inputs.front());
    weft::Tensors outputs = inputs;
    outputs.front() = at::max_pool2d(x, 2);
    outputs.push_back(x);
    return outputs;
  }
  std::vector<weft::ParamSpec> parameters() override { return layer_.parameters(); }

 private:
  Convolution layer_;
};

/// Takes {x, skips..., skip} and returns {x at twice the size joined with that skip, skips...}.
class Up : public weft::Block {
 public:
  Up(int64_t in, int64_t skip, int64_t out) : layer_(in + skip, out) {}
  weft::Tensors forward(const weft::Tensors& inputs, const weft::Context& /*context*/) override {
    weft::Tensors outputs = inputs;
    const at::Tensor skip = outputs.back();
    outputs.pop_back();
    outputs.front() = layer_(at::cat({at::upsample_nearest2d(inputs.front(), skip.sizes().slice(2)), skip}, 1));
    return outputs;
  }
  std::vector<weft::ParamSpec> parameters() override { return layer_.parameters(); }

 private:
  Convolution layer_;
};

/// Maps channels to one picture: {x} to {picture}.
class Head : public weft::Block {
 public:
  explicit Head(int64_t in) : conv_(in, 1, 1) {}
  weft::Tensors forward(const weft::Tensors& inputs, const weft::Context& /*context*/) override {
    return {conv_(inputs.front())};
  }
  std::vector<weft::ParamSpec> parameters() override {
    std::vector<weft::ParamSpec> specs;
    conv_.describe(specs, "conv");
    return specs;
  }

 private:
  weft::Conv2d conv_;
};

weft::LossValue squared_error(const weft::Tensors& outputs, const at::Tensor& target) {
  return {outputs.front().sub(target).square().sum(), target.numel()};
}

/// Squares on a dark ground [samples, 1, 16, 16], with noise as inputs and without as target.
weft::Batch pictures(int64_t samples) {
  const at::Tensor clean = at::zeros({samples, 1, 16, 16}), corners = at::randint(0, 8, {samples, 2}, at::kLong);
  for (int64_t i = 0; i < samples; ++i) {
    clean[i][0].narrow(0, corners[i][0].item<int64_t>(), 8).narrow(1, corners[i][1].item<int64_t>(), 8).fill_(1.0);
  }
  return {.inputs = {clean.add(at::randn(clean.sizes()), 0.5)}, .target = clean};
}

int main() {
  const weft::World world = weft::World::from_environment();
  const weft::Mesh mesh(world, {{"pp", world.size()}});  // blocks one after another on the ranks: skips travel between them

  weft::Model model{.name = "unet", .loss = squared_error};
  const auto add = [&model](const std::string& name, std::shared_ptr<weft::Block> block) {
    model.blocks.push_back({.name = name, .prefix = name, .block = std::move(block)});
  };
  add("down1", std::make_shared<Down>(1, 8));
  add("down2", std::make_shared<Down>(8, 16));
  add("up2", std::make_shared<Up>(16, 16, 16));
  add("up1", std::make_shared<Up>(16, 8, 8));
  add("head", std::make_shared<Head>(8));
  weft::Trainer trainer(mesh, model, weft::AdamW{.lr = 0.01}, {.global_batch = 32, .micro_batch = 8});

  at::manual_seed(1);  // all ranks of a pipeline have the same pictures
  for (int step = 0; step <= 60; ++step) {
    const double loss = trainer.step(pictures(32)).loss;
    if (step % 20 == 0 && world.rank() == 0) std::cout << "step " << step << ": loss " << loss << "\n";
  }
  const weft::Batch unseen = pictures(20);
  const at::Tensor cleaned = trainer.predict(unseen).front();  // [20, 1, 16, 16], on every rank
  const auto error = [&unseen](const at::Tensor& x) { return x.sub(unseen.target).square().mean().item<double>(); };
  if (world.rank() == 0)
    std::cout << "mean square of the noise: " << error(unseen.inputs[0]) << ", then " << error(cleaned) << "\n";
}
