#include "weft/nn/modules/module_block.h"

#include <fmt/core.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/embedding.h>

#include <algorithm>
#include <string_view>

#include "weft/base/error.h"
#include "weft/nn/graph.h"
#include "weft/nn/keyed_generators.h"
#include "weft/nn/loss/cross_entropy.h"
#include "weft/nn/modules/module_chain.h"
#include "weft/nn/modules/module_mode.h"

namespace weft {

namespace {

/// Parameters with two dimensions or more take weight decay, as in weft's own layers.
bool decays(const at::Tensor& value) { return value.dim() >= 2; }

std::string_view last_part(std::string_view name) {
  const size_t dot = name.rfind('.');
  return name.substr(dot == std::string_view::npos ? 0 : dot + 1);
}

/// BatchNorm's running_mean and running_var, and buffers of other modules with that prefix.
bool is_running(const std::string& name) { return last_part(name).starts_with("running_"); }

/// BatchNorm's count of forwards.
bool is_count(const std::string& name) { return last_part(name) == "num_batches_tracked"; }

class ModuleBlock : public Block, public ChecksSplits, public HasRandomName {
 public:
  /// Takes modules, each of which may be split.
  ModuleBlock(const std::string& name, std::shared_ptr<torch::nn::Module> module, const std::vector<ChainModule>& modules)
      : ModuleBlock(name, std::move(module), std::function<Tensors(const Tensors&)>(), {}) {
    chain_ = std::make_unique<ModuleChain>(name, modules);
    chain_->bind(parameters());
  }

  ModuleBlock(std::string name, std::shared_ptr<torch::nn::Module> module, std::function<Tensors(const Tensors&)> forward,
              const TensorNames& names)
      : name_(std::move(name)), module_(std::move(module)), forward_(std::move(forward)) {
    for (const auto& entry : module_->named_parameters()) add(entry.key(), entry.value(), Kind::parameter);
    find_embeddings();
    for (const std::string& name : names.embeddings) set_embedding(name);
    for (const auto& entry : module_->named_buffers()) {
      if (!entry.value().defined()) continue;
      if (is_running(entry.key()) && entry.value().is_floating_point()) {
        add(entry.key(), entry.value(), Kind::statistic);
      } else {
        const bool counts = is_count(entry.key());
        const bool saved = counts || std::ranges::count(names.unsaved, entry.key()) == 0;
        buffers_.push_back({.name = entry.key(), .value = entry.value(), .counts = counts, .saved = saved});
      }
    }
    refuse_cumulative_means();
  }

  Tensors forward(const Tensors& inputs, const Context& context) override {
    refuse_sequence_parts(context);
    if (!context.training) return run(inputs, context);
    for (Buffer& buffer : buffers_) {
      if (buffer.counts) buffer.keep_count(context.step);
    }
    Tensors outputs = run(inputs, context);
    for (Buffer& buffer : buffers_) {
      if (buffer.counts) buffer.count_once(context.step);
    }
    return outputs;
  }

  std::vector<ParamSpec> parameters() override {
    std::vector<ParamSpec> specs;
    for (const std::unique_ptr<Held>& held : held_) {
      const at::Tensor& value = held->parameter.value;
      // A narrow statistic would lose small changes, so all statistics are wide.
      const bool statistic = held->kind == Kind::statistic;
      specs.push_back({.name = held->name,
                       .parameter = &held->parameter,
                       .init = {},
                       .decay = decays(value),
                       .statistic = statistic,
                       .wide = statistic,
                       .frozen = !statistic && !value.requires_grad(),
                       .embedding = held->embedding});
    }
    return specs;
  }

  std::vector<BufferSpec> buffers() override {
    std::vector<BufferSpec> specs;
    specs.reserve(buffers_.size());
    for (const Buffer& buffer : buffers_) {
      specs.push_back({.name = buffer.name, .value = buffer.value, .counts = buffer.counts, .saved = buffer.saved});
    }
    return specs;
  }

  std::string random_name() const override { return name_; }

  ActivationForm check_splits(const ActivationForm& input) override {
    if (chain_) return chain_->check_splits(input);
    for (const std::unique_ptr<Held>& held : held_) {
      if (!held->parameter.split) continue;
      throw InputError(
          fmt::format("layout: block '{}', layer {}: it is inside a torch module that runs as a unit, whose layers cannot be "
                      "split; build the model from its layers with sequential_model(), or leave it whole",
                      name_, held->parameter.split->layer));
    }
    if (input.is_whole()) return {};
    throw InputError(
        fmt::format("layout: block '{}' needs its whole input, but each rank has a part of the output of layer {}; join the "
                    "outputs of {} (SplitRule::joined)",
                    name_, input.layer, input.layer));
  }

 private:
  enum class Kind { parameter, statistic };
  struct Held {
    std::string name;
    Parameter parameter;
    Kind kind;
    bool embedding = false;
  };

  /// A buffer that is not a statistic. A count advances by what a step's first forward adds; later micro-batches and recomputed
  /// blocks leave it unchanged, so it is the same in every layout.
  struct Buffer {
    std::string name;
    at::Tensor value;
    bool counts = false;
    bool saved = true;
    int64_t step = -1;       ///< last step included in the count
    uint32_t version = 0;    ///< version after that step; another version means that a load wrote the buffer
    at::Tensor before = {};  ///< value before a forward that must not count

    void keep_count(int64_t now) { before = step == now && version == version_of(value) ? value.clone() : at::Tensor(); }
    void count_once(int64_t now) {
      if (before.defined()) value.copy_(before);
      before.reset();
      step = now;
      version = version_of(value);
    }
  };

  /// Runs the modules in their owner's modes; in an evaluation, all in eval().
  Tensors run(const Tensors& inputs, const Context& context) {
    if (inputs.empty() || !inputs.front().defined()) throw InputError(fmt::format("block {}: it has no input", name_));
    const auto forward = [&] { return chain_ ? Tensors{chain_->forward(inputs.front(), context)} : forward_(inputs); };
    return context.training ? forward() : run_in_evaluation(*module_, forward);
  }

  void add(const std::string& name, const at::Tensor& value, Kind kind) {
    held_.push_back(std::make_unique<Held>(Held{name, {value, {}}, kind}));
  }

  void find_embeddings() {
    for (const auto& entry : module_->named_modules()) {
      const auto* embedding = entry.value()->as<torch::nn::EmbeddingImpl>();
      const auto* bag = entry.value()->as<torch::nn::EmbeddingBagImpl>();
      if (!embedding && !bag) continue;
      set_embedding(entry.key().empty() ? "weight" : entry.key() + ".weight");
    }
  }

  void set_embedding(const std::string& name) {
    for (const std::unique_ptr<Held>& held : held_) held->embedding = held->embedding || held->name == name;
  }

  /// Torch's layers would sum their gradients over this rank's tokens only.
  void refuse_sequence_parts(const Context& context) const {
    if (!context.layout.sequence_parallel) return;
    throw InputError(fmt::format(
        "layout.sequence_parallel: block '{}' is made of torch modules, which need whole sequences; set it to false", name_));
  }

  /// A cumulative mean is divided by the number of forwards so far, which depends on layouts and recomputing.
  void refuse_cumulative_means() const {
    for (const auto& entry : module_->named_modules()) {
      if (!is_cumulative<torch::nn::BatchNorm1dImpl>(*entry.value()) &&
          !is_cumulative<torch::nn::BatchNorm2dImpl>(*entry.value()) &&
          !is_cumulative<torch::nn::BatchNorm3dImpl>(*entry.value())) {
        continue;
      }
      throw InputError(fmt::format(
          "model: block '{}' has a BatchNorm '{}' without momentum, whose statistics are means over all forwards so "
          "far, which layouts count differently; give it a momentum",
          name_, entry.key()));
    }
  }

  template <class Norm>
  static bool is_cumulative(const torch::nn::Module& module) {
    const auto* norm = dynamic_cast<const Norm*>(&module);
    return norm && norm->options.track_running_stats() && !norm->options.momentum().has_value();
  }

  std::string name_;
  std::shared_ptr<torch::nn::Module> module_;
  std::function<Tensors(const Tensors&)> forward_;
  std::unique_ptr<ModuleChain> chain_;  ///< used in place of forward_
  std::vector<std::unique_ptr<Held>> held_;
  std::vector<Buffer> buffers_;
};

/// Consecutive modules of a sequence, as one.
std::shared_ptr<Block> joined_block(const std::string& name, const std::vector<torch::nn::AnyModule>& modules,
                                    const std::vector<std::string>& names) {
  auto holder = std::make_shared<torch::nn::Module>(name);
  std::vector<ChainModule> chain;
  for (size_t i = 0; i < modules.size(); ++i) {
    holder->register_module(names[i], modules[i].ptr());
    chain.push_back({.name = names[i],
                     .module = modules[i].ptr(),
                     .run = [module = modules[i]](const at::Tensor& x) mutable -> at::Tensor { return module.forward(x); }});
  }
  return std::make_shared<ModuleBlock>(name, std::move(holder), chain);
}

/// Tensors registered on the sequence itself are in no block, as blocks are made of its modules.
void refuse_own_tensors(const std::string& model, const torch::nn::SequentialImpl& sequence) {
  const auto refuse = [&model](const char* what, const std::string& name) {
    throw InputError(
        fmt::format("model '{}': {} '{}' is registered at the sequence itself, but only its modules run; "
                    "register it at the module that reads it",
                    model, what, name));
  };
  for (const auto& entry : sequence.named_parameters(/*recurse=*/false)) refuse("parameter", entry.key());
  for (const auto& entry : sequence.named_buffers(/*recurse=*/false)) refuse("buffer", entry.key());
}

}  // namespace

std::shared_ptr<Block> module_block(std::string name, std::shared_ptr<torch::nn::Module> module,
                                    std::function<Tensors(const Tensors&)> forward, const TensorNames& names) {
  return std::make_shared<ModuleBlock>(std::move(name), std::move(module), std::move(forward), names);
}

Model sequential_model(const std::string& name, torch::nn::Sequential sequence, const Loss& loss) {
  if (sequence->size() == 0) throw InputError(fmt::format("model '{}': the sequence is empty", name));
  refuse_own_tensors(name, *sequence);
  Model model{.name = name, .blocks = {}, .loss = loss, .hits = hits_of(loss)};
  const auto names = sequence->named_children();
  std::vector<torch::nn::AnyModule> modules;
  std::vector<std::string> module_names;
  const auto close = [&] {
    model.blocks.push_back({module_names.front(), "", joined_block(name + "." + module_names.front(), modules, module_names)});
    modules.clear();
    module_names.clear();
  };
  size_t index = 0;
  for (torch::nn::AnyModule& module : *sequence) {
    const bool has_parameters = !module.ptr()->parameters().empty();
    const bool holds_parameters = !modules.empty() && index > 0;
    if (holds_parameters && has_parameters) close();
    modules.push_back(module);
    module_names.push_back(names[index].key());
    ++index;
  }
  close();
  return model;
}

}  // namespace weft
