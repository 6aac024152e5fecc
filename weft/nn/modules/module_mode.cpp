#include "weft/nn/modules/module_mode.h"

#include <torch/nn/module.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

namespace weft {

namespace {

/// Modules with their flags, each before the modules within it; a module within several appears once for each.
using Flags = std::vector<std::pair<std::shared_ptr<torch::nn::Module>, bool>>;

/// train() also sets all modules within, so each is set after those that contain it.
void set_flags(const Flags& flags) {
  for (const auto& [module, training] : flags) {
    if (module->is_training() != training) module->train(training);
  }
}

}  // namespace

Tensors run_in_evaluation(torch::nn::Module& module, const std::function<Tensors()>& run) {
  Flags flags;
  for (const std::shared_ptr<torch::nn::Module>& part : module.modules()) flags.emplace_back(part, part->is_training());
  if (std::none_of(flags.begin(), flags.end(), [](const auto& entry) { return entry.second; })) return run();
  module.eval();
  Tensors outputs;
  try {
    outputs = run();
  } catch (...) {
    set_flags(flags);
    throw;
  }
  set_flags(flags);
  return outputs;
}

}  // namespace weft
