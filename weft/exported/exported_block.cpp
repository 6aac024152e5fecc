#include "weft/exported/exported_block.h"

#include <ATen/ops/empty_like.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "weft/base/error.h"
#include "weft/nn/activation_form.h"
#include "weft/nn/graph.h"

namespace weft {
namespace {

using HeldKind = HeldTensor::Kind;
using HeldTensors = std::vector<std::shared_ptr<HeldTensor>>;

class ExportedBlock : public Block, public ChecksSplits, public HasKind {
 public:
  ExportedBlock(BlockOperations operations, HeldTensors held, HeldTensors owned)
      : run_(std::move(operations)),
        held_(std::move(held)),
        owned_(std::move(owned)),
        parameters_(static_cast<size_t>(run_.num_slots)) {
    for (size_t i = 0; i < held_.size(); ++i) parameters_[static_cast<size_t>(run_.held[i].first)] = held_[i]->parameter.get();
  }

  Tensors forward(const Tensors& inputs, const Context& context) override {
    if (inputs.size() != run_.inputs.size()) {
      throw InputError(fmt::format("model: block '{}' takes {} inputs, not {}", run_.name, run_.inputs.size(), inputs.size()));
    }
    const at::Device device = inputs.front().device();
    std::map<int, at::Tensor> copies;
    const OperationScope scope{context, device, working_type(inputs), samples_of(inputs), run_.path, parameters_, copies};
    if (run_.guards && !device.is_meta()) run_.guards->check(scope.samples);  // plans look at other sizes too
    std::vector<c10::IValue> slots(static_cast<size_t>(run_.num_slots));
    for (size_t i = 0; i < inputs.size(); ++i) slots[run_.inputs[i]] = run_.copied[i] ? inputs[i].clone() : inputs[i];
    for (size_t i = 0; i < held_.size(); ++i) slots[run_.held[i].first] = value_of(*held_[i], scope);
    run_operations(run_.operations, slots, scope);
    Tensors outputs;
    for (const int slot : run_.outputs) outputs.push_back(slots[slot].toTensor());
    if (context.training && !device.is_meta()) count_forward(context.step);
    return outputs;
  }

  ActivationForm check_splits(const ActivationForm& /*input*/) override {
    for (const auto& held : held_) {
      if (!held->parameter || !held->parameter->split || held->parameter->split->pieces == 0) continue;
      throw InputError(
          fmt::format("layout: model 'exported', layer {}: run.reproducible_tp divides layers of weft's own models "
                      "alone; leave it out",
                      held->parameter->split->layer));
    }
    if (run_.split_output.empty()) return {};
    return {.kind = ActivationForm::Kind::rows, .layer = run_.split_output, .segments = {}};
  }

  std::string kind() const override {
    std::string text = operations_text(run_.operations);
    text += fmt::format("in {} out {} of {} {} {}\n", run_.inputs, run_.outputs, run_.samples_input, run_.samples_dim,
                        run_.samples_factor);
    for (size_t i = 0; i < held_.size(); ++i) {
      const HeldTensor& held = *held_[i];
      const at::Tensor& value = held.parameter ? held.parameter->value : held.value;
      text += fmt::format("{} {} {} {} {}; ", run_.held[i].first, static_cast<int>(held.kind), held.is_trained, value.sizes(),
                          static_cast<int>(value.scalar_type()));
    }
    return text;
  }

  std::vector<ParamSpec> parameters() override {
    std::vector<ParamSpec> specs;
    for (const auto& held : owned_) {
      const bool is_statistic = held->kind == HeldKind::statistic;
      if (!held->parameter) continue;
      specs.push_back({.name = held->name,
                       .parameter = held->parameter.get(),
                       .init = initial(*held),
                       .decay = held->parameter->value.dim() >= 2,
                       .statistic = is_statistic,
                       .wide = is_statistic,
                       .frozen = !is_statistic && !held->is_trained,
                       .embedding = held->is_embedding});
    }
    return specs;
  }

  std::vector<BufferSpec> buffers() override {
    std::vector<BufferSpec> specs;
    for (const auto& held : owned_) {
      const bool is_count = held->kind == HeldKind::count;
      if (is_count || held->kind == HeldKind::buffer)
        specs.push_back({.name = held->name, .value = held->value, .counts = is_count});
    }
    return specs;
  }

 private:
  /// Before the file's weights are loaded.
  static Init initial(const HeldTensor& held) {
    const bool is_bias = held.name.ends_with("bias") || held.name.ends_with("mean");
    if (held.kind == HeldKind::statistic || held.parameter->value.dim() < 2)
      return {Init::Kind::constant, is_bias ? 0.0 : 1.0, 0.0};
    constexpr double kStddev = 0.02;
    return {Init::Kind::normal, 0.0, kStddev};
  }

  /// The type of the weights: that of layout.precision.
  at::ScalarType working_type(const Tensors& inputs) const {
    for (const auto& held : held_) {
      if (held->kind == HeldKind::parameter) return held->parameter->value.scalar_type();
    }
    for (const at::Tensor& input : inputs) {
      if (input.is_floating_point()) return input.scalar_type();
    }
    return at::kFloat;
  }

  int64_t samples_of(const Tensors& inputs) const {
    if (run_.samples_input < 0) return 0;
    const at::Tensor& input = inputs[static_cast<size_t>(run_.samples_input)];
    if (run_.samples_dim >= input.dim()) {
      throw InputError(fmt::format("model: block '{}' takes an input of {} or more dimensions, not {}", run_.name,
                                   run_.samples_dim + 1, input.dim()));
    }
    return input.size(run_.samples_dim) / run_.samples_factor;
  }

  /// Buffers and constants come to the block's device.
  static at::Tensor value_of(HeldTensor& held, const OperationScope& scope) {
    if (held.parameter) return held.parameter->value;
    const at::ScalarType type = held.value.scalar_type();
    if (scope.device.is_meta()) return at::empty_like(held.value, held.value.options().device(at::kMeta).dtype(type));
    if (held.kind == HeldKind::constant && held.value.device() != scope.device) held.value = held.value.to(scope.device);
    return held.value.to(scope.device);
  }

  /// Advances BatchNorm's counts by what the step's first forward adds; a version of another writer, such as a load, counts
  /// anew.
  void count_forward(int64_t step) {
    c10::NoGradGuard no_grad;
    for (const auto& held : owned_) {
      if (held->kind != HeldKind::count) continue;
      Counted& counted = counted_[held.get()];
      if (counted.step == step && counted.version == version_of(held->value)) continue;
      held->value.add_(held->calls);
      counted = {step, version_of(held->value)};
    }
  }

  struct Counted {
    int64_t step = -1;
    uint32_t version = 0;
  };

  BlockOperations run_;
  HeldTensors held_, owned_;
  std::vector<Parameter*> parameters_;  ///< by slot
  std::map<const HeldTensor*, Counted> counted_;
};

}  // namespace

std::shared_ptr<Block> exported_block(BlockOperations operations, HeldTensors held, HeldTensors owned) {
  return std::make_shared<ExportedBlock>(std::move(operations), std::move(held), std::move(owned));
}

}  // namespace weft
