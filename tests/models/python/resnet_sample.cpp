// resnet_sample FOLDER: for several ResNets, one file each with weights, images, logits in evaluation and in training, and the
// gradients of a loss. The model's options are the file's metadata.
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <fmt/format.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "tests/support/write_samples.h"
#include "weft/models/resnet.h"
#include "weft/nn/flat/flat_model.h"
#include "weft/nn/random.h"

namespace {

struct Case {
  const char* name;
  weft::ResnetOptions options;
  int64_t size;
};

constexpr int64_t kImages = 8;

std::vector<Case> cases() {
  return {{"resnet18", {.depth = 18, .classes = 13}, 64},
          {"resnet50", {.depth = 50, .classes = 7}, 64},
          {"resnet101", {.depth = 101, .classes = 5}, 64}};
}

/// Draws values that affect the logits, and statistics other than the norms' initial ones. Norms output mostly positive values,
/// and residual blocks add little to their shortcuts: a ReLU's gradient jumps at zero, where rounding decides, and the end of a
/// ResNet has few pixels. Otherwise float32 gradients match no reference, and PyTorch's do not even match themselves.
void draw(weft::FlatModel& flat, const std::string& last_norm) {
  for (const weft::Param& param : flat.params()) {
    const at::Tensor value = param.parameter->value.detach();
    const weft::RandomKey key = weft::random_key(1, param.name);
    if (param.name.ends_with("running_var")) {
      weft::fill_uniform(value, key, 0, 0.5, 1.5);
    } else if (param.shape.size() == 4) {
      const auto fan_in = static_cast<double>(param.whole_numel() / param.shape[0]);
      weft::fill_normal(value, key, 0, 0.0, 1.0 / std::sqrt(fan_in));
    } else {
      const bool weight = param.name.ends_with("weight"), last = param.name.find(last_norm) != std::string::npos;
      const double of_norm = weight ? (last ? 0.2 : 0.5) : (last ? 0.0 : 2.0);
      const bool is_norm = param.shape.size() == 1 && param.name != "fc.bias";
      weft::fill_normal(value, key, 0, is_norm ? of_norm : 0.0, weight && is_norm ? 0.02 : 0.1);
    }
  }
}

weft::Tensors forward(weft::FlatModel& flat, const at::Tensor& images, bool training) {
  weft::Tensors x = {images};
  for (int b = 0; b < flat.num_blocks(); ++b) x = flat.block(b).forward(x, {.training = training});
  return x;
}

std::vector<weft::NamedTensor> sample(const Case& c) {
  weft::FlatModel flat(weft::resnet(c.options), {});
  draw(flat, c.options.depth < 50 ? ".bn2." : ".bn3.");
  for (int b = 0; b < flat.num_blocks(); ++b) flat.clear_gradients(b);
  auto generator = at::detail::createCPUGenerator(7);
  const at::Tensor images = at::randn({kImages, 3, c.size, c.size}, generator);
  const at::Tensor target = at::randint(c.options.classes, {kImages}, generator, at::kLong);
  std::vector<weft::NamedTensor> tensors = {{"images", images}, {"target", target}};
  for (const weft::Param& param : flat.params())
    tensors.push_back({"weight." + param.name, param.parameter->value.detach().clone()});
  tensors.push_back({"evaluated", forward(flat, images, false)[0].detach()});
  const weft::Tensors logits = forward(flat, images, true);
  tensors.push_back({"logits", logits[0].detach()});
  flat.model().loss(logits, target).sum.backward();
  for (const weft::Param& param : flat.params()) {
    if (param.group == weft::ParamGroup::statistic) {
      tensors.push_back({"after." + param.name, param.parameter->value.detach().clone()});
    } else {
      tensors.push_back({"gradient." + param.name, param.parameter->value.grad()});
    }
  }
  return tensors;
}

}  // namespace

int main(int argc, char** argv) {
  const auto said = [](const Case& c) {
    return std::map<std::string, std::string>{{"name", c.name}, {"classes", fmt::to_string(c.options.classes)}};
  };
  return weft::test::write_samples(argc, argv, "resnet_sample", cases(), sample, said);
}
