// ModuleChain: consecutive torch::nn modules that run as one block; some may be split over tp.
//
// A Linear, Conv2d or Embedding with a rule in Model::splits runs with the Context (nn/modules/module_layer.h); modules between
// two split ones work on parts if they can (nn/modules/part_wise.h); all others run unchanged on whole activations, the same on
// every rank of tp.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "weft/nn/modules/module_layer.h"

namespace weft {

/// A module at its position in a sequence.
struct ChainModule {
  std::string name;                                   ///< its name there: "2"
  std::shared_ptr<torch::nn::Module> module;          ///< the module
  std::function<at::Tensor(const at::Tensor&)> run;   ///< its own forward
  std::shared_ptr<const TorchLayer> layer = nullptr;  ///< the module as a layer that can be split; null: it cannot
  std::vector<ParamSpec> parameters = {};             ///< its parameters, with the block's names
  Parameter* weight = nullptr;                        ///< its weight among `parameters`, if it can be split
  Parameter* bias = nullptr;                          ///< its bias among `parameters`; null: no bias
};

/// The modules of one block, in order.
class ModuleChain : public ChecksSplits {
 public:
  ModuleChain(std::string block, std::vector<ChainModule> modules)
      : block_(std::move(block)), modules_(std::move(modules)) {}  ///< `block` is the name used in errors
  /// Sets the block's parameters, which must outlive this object. Call once, before anything else.
  void bind(const std::vector<ParamSpec>& parameters);
  at::Tensor forward(at::Tensor x, const Context& context) const;  ///< through all modules
  ActivationForm check_splits(const ActivationForm& input) override;

 private:
  void refuse_splits_within(const ChainModule& module) const;
  ActivationForm after_split(const ChainModule& module, const ActivationForm& input) const;
  ActivationForm after_rows(const ChainModule& module, const ActivationForm& input) const;
  ActivationForm after_whole(const ChainModule& module, const ActivationForm& input) const;
  [[noreturn]] void fail(const ChainModule& module, const std::string& text) const;

  std::string block_;
  std::vector<ChainModule> modules_;
};

}  // namespace weft
