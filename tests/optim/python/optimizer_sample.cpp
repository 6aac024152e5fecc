// optimizer_sample FOLDER: for each of several optimizers, a file with weights, the gradients of 20 steps, and after each step
// the weights and their moving average. The optimizer's options are the file's metadata.
#include <ATen/ops/randn.h>
#include <fmt/format.h>

#include <map>
#include <string>
#include <vector>

#include "tests/support/write_samples.h"
#include "weft/nn/exact_sums.h"
#include "weft/nn/flat/flat_model.h"
#include "weft/optim/make_optimizer.h"
#include "weft/optim/weight_average.h"

namespace {

constexpr int kSteps = 20;
constexpr double kDecay = 0.9;  ///< decay of the average

struct Case {
  std::string name;
  weft::OptimizerOptions options;
  std::map<std::string, std::string> said;  ///< the same, for Python
};

std::vector<Case> cases() {
  using weft::Adafactor, weft::Adagrad, weft::AdamW, weft::Lamb, weft::Lars, weft::Lion, weft::Muon, weft::RmsProp, weft::Sgd;
  return {
      {"adamw", AdamW{.weight_decay = 0.1}, {{"name", "'AdamW'"}, {"weight_decay", "0.1"}}},
      {"sgd",
       Sgd{.weight_decay = 0.1, .nesterov = true},
       {{"name", "'SGD'"}, {"weight_decay", "0.1"}, {"momentum", "0.9"}, {"nesterov", "True"}}},
      {"lars",
       Lars{.weight_decay = 0.1, .trust = 0.02},
       {{"name", "'Lars'"}, {"weight_decay", "0.1"}, {"momentum", "0.9"}, {"trust_coeff", "0.02"}}},
      {"lars_nesterov",
       Lars{.weight_decay = 0.1, .nesterov = true},
       {{"name", "'Lars'"}, {"weight_decay", "0.1"}, {"momentum", "0.9"}, {"nesterov", "True"}}},
      {"lamb", Lamb{.weight_decay = 0.1}, {{"name", "'Lamb'"}, {"weight_decay", "0.1"}, {"max_grad_norm", "None"}}},
      {"lamb_limit",
       Lamb{.weight_decay = 0.1, .trust_limit = 1.0},
       {{"name", "'Lamb'"}, {"weight_decay", "0.1"}, {"max_grad_norm", "None"}, {"trust_clip", "True"}}},
      {"lion", Lion{.weight_decay = 0.1}, {{"name", "'Lion'"}, {"weight_decay", "0.1"}}},
      {"rmsprop", RmsProp{.weight_decay = 0.1}, {{"name", "'RMSprop'"}, {"weight_decay", "0.1"}}},
      {"rmsprop_momentum",
       RmsProp{.weight_decay = 0.1, .momentum = 0.9},
       {{"name", "'RMSprop'"}, {"weight_decay", "0.1"}, {"momentum", "0.9"}}},
      {"adagrad", Adagrad{.weight_decay = 0.1}, {{"name", "'Adagrad'"}, {"weight_decay", "0.1"}}},
      {"adafactor", Adafactor{.weight_decay = 0.1}, {{"name", "'Adafactor'"}, {"weight_decay", "0.1"}}},
      {"adafactor_clip",
       Adafactor{.beta2_decay = -0.5, .min_rms = 0.5, .update_clip = 1.2, .weight_decay = 0.1},
       {{"name", "'Adafactor'"}, {"weight_decay", "0.1"}, {"beta2_decay", "-0.5"}, {"eps", "(None, 0.5)"}, {"d", "1.2"}}},
      {"muon", Muon{.adam_lr = 1e-3}, {{"name", "'Muon'"}, {"weight_decay", "0.1"}}},
      {"muon_matched",
       Muon{.nesterov = false, .ns_steps = 3, .adjust = weft::MatrixRate::match_rms_adamw, .adam_lr = 1e-3},
       {{"name", "'Muon'"},
        {"weight_decay", "0.1"},
        {"nesterov", "False"},
        {"ns_steps", "3"},
        {"adjust_lr_fn", "'match_rms_adamw'"}}},
  };
}

/// A matrix, a convolution's kernel, and a bias, which takes no decay.
class Weights : public weft::Block {
 public:
  weft::Tensors forward(const weft::Tensors& inputs, const weft::Context& /*context*/) override { return inputs; }
  std::vector<weft::ParamSpec> parameters() override {
    return {{"matrix", &matrix_, {}}, {"kernel", &kernel_, {}}, {"bias", &bias_, {}, /*decay=*/false}};
  }

 private:
  weft::Parameter matrix_{at::randn({7, 11}), {}}, kernel_{at::randn({4, 3, 3, 3}), {}}, bias_{at::randn({11}), {}};
};

std::vector<weft::NamedTensor> sample(const Case& c) {
  weft::Model model{.name = "weights"};
  model.blocks.push_back({"weights", "", std::make_shared<Weights>()});
  weft::FlatModel flat(model, {});
  std::vector<weft::NamedTensor> tensors;
  const auto keep = [&](const std::string& prefix, const at::Tensor& whole) {
    for (const weft::Param& param : flat.params()) {
      tensors.push_back({prefix + param.name, whole.narrow(0, param.offset, param.numel).clone().view(param.shape)});
    }
  };
  keep("begin.", flat.flat(0).weights.detach());
  const weft::ParameterRules rules = {{.names = "matrix", .muon = true}, {.names = "kernel", .muon = true}};
  const auto optimizer = weft::make_optimizer(flat, c.options, rules);
  const at::Tensor average = flat.flat(0).master.clone();
  for (int step = 0; step < kSteps; ++step) {
    flat.flat(0).gradients.normal_();
    keep(fmt::format("gradient.{}.", step), flat.flat(0).gradients);
    const weft::UpdateStep update{.lr = 0.01 / (step + 1), .divisor = 1.0};
    const at::Tensor squares = weft::exact_sums(2 * static_cast<int64_t>(flat.params().size()), at::kCPU);
    optimizer->add_tensor_squares(update, squares);
    optimizer->take_tensor_squares(update, weft::sums_in(squares));
    optimizer->update(0, update);
    keep(fmt::format("weight.{}.", step), flat.flat(0).weights.detach());
    weft::add_to_average(average, flat.flat(0).master, kDecay);
    keep(fmt::format("average.{}.", step), average);
  }
  return tensors;
}

}  // namespace

int main(int argc, char** argv) {
  return weft::test::write_samples(argc, argv, "optimizer_sample", cases(), sample, [](const Case& c) { return c.said; });
}
