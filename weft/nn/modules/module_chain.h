// ModuleChain: torch::nn modules in a row that run as one block, and of which some may be split over tp.
//
// A Linear, Conv2d or Embedding with a rule in Model::splits runs with the Context (nn/modules/module_layer.h); the modules
// between two that are split take parts where they can (nn/modules/part_wise.h); all others run as they are, on whole
// activations, the same on every rank of tp.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "weft/nn/modules/module_layer.h"

namespace weft {

/// A module in its place in a sequence.
struct ChainModule {
  std::string name;                                   ///< there: "2"
  std::shared_ptr<torch::nn::Module> module;          ///< what it is
  std::function<at::Tensor(const at::Tensor&)> run;   ///< its own forward
  std::shared_ptr<const TorchLayer> layer = nullptr;  ///< as one that can be split; null: none
  std::vector<ParamSpec> parameters = {};             ///< its own, with the names of the block
  Parameter* weight = nullptr;                        ///< of them, where it can be split
  Parameter* bias = nullptr;                          ///< the same; null: none
};

/// What a block of such modules does.
class ModuleChain : public ChecksSplits {
 public:
  ModuleChain(std::string block, std::vector<ChainModule> modules)
      : block_(std::move(block)), modules_(std::move(modules)) {}  ///< named, run and told of as `block`
  /// Tells it the block's parameters, which outlive it. To be called once, before the rest.
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
