#include "weft/exported/run_split.h"

#include <ATen/ops/addmm.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/where.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <limits>

#include "weft/base/error.h"
#include "weft/exported/operation.h"
#include "weft/nn/layers/embedding.h"
#include "weft/nn/layers/linear.h"
#include "weft/nn/parameter_split.h"
#include "weft/nn/random.h"
#include "weft/nn/tensor_parallel/collectives.h"

namespace weft {
namespace {

int64_t part_of(int64_t size, int64_t ranks) {
  if (size == -1 || size == std::numeric_limits<int64_t>::max()) return size;  // the rest, or all
  if (size % ranks == 0) return size / ranks;
  throw InputError(fmt::format("a size of {} does not divide over {} ranks of tp", size, ranks));
}

void divide(c10::IValue& size, int64_t element, int64_t ranks) {
  if (size.isInt()) {
    size = part_of(size.toInt(), ranks);
    return;
  }
  std::vector<int64_t> sizes = size.toIntVector();
  sizes.at(static_cast<size_t>(element)) = part_of(sizes.at(static_cast<size_t>(element)), ranks);
  size = sizes;
}

/// Calls on the same value share its copy, so that the sum of their gradients is summed over ranks once.
at::Tensor copied(const Operation& x, const SplitChange& change, const at::Tensor& whole, const OperationScope& scope) {
  if (!whole.requires_grad() || !c10::GradMode::is_enabled()) return whole;
  const std::string what = "whole input of " + x.split->name;
  if (change.is_changed) return copy_to(whole.clone(), scope.context.tp, what);
  const size_t element = change.element < 0 ? 0 : static_cast<size_t>(change.element);
  at::Tensor& copy = scope.copies[x.operands[change.argument].slots[element]];
  if (!copy.defined()) copy = copy_to(whole, scope.context.tp, what);
  return copy;
}

at::Tensor changed(const Operation& x, const SplitChange& change, const at::Tensor& whole, const OperationScope& scope) {
  if (change.kind == SplitChange::Kind::copied) return copied(x, change, whole, scope);
  return own_part(whole, change.dim, scope.context.tp, "part for " + x.split->name);
}

/// Of the bias, the input, [rows, inputs], and the weight, [inputs, outputs].
at::Tensor split_addmm(const Operation& x, const std::vector<c10::IValue>& arguments, const OperationScope& scope) {
  const at::Tensor bias = arguments[0].toTensor(), input = arguments[1].toTensor(), weight = arguments[2].toTensor();
  if (x.split->layer == SplitCall::Layer::columns) return at::addmm(bias, input, weight);
  const Group& tp = scope.context.tp;
  const at::Tensor part = input.size(1) == weight.size(0) ? input : own_part(input, 1, tp, "input of " + x.split->name);
  return sum_over(at::mm(part, weight), tp, "output of " + x.split->name).add(bias);
}

Parameter& parameter_at(const Operation& x, size_t argument, const OperationScope& scope) {
  return *scope.parameters[static_cast<size_t>(x.operands[argument].slots.front())];
}

}  // namespace

void take_parts(const Operation& x, std::vector<c10::IValue>& arguments, const OperationScope& scope) {
  for (const SplitChange& change : x.split->changes) {
    c10::IValue& argument = arguments[change.argument];
    if (change.kind == SplitChange::Kind::divided) {
      divide(argument, change.element, scope.context.tp.size());
    } else if (change.element < 0) {
      if (argument.isTensor()) argument = changed(x, change, argument.toTensor(), scope);
    } else {
      std::vector<at::Tensor> list = argument.toTensorVector();
      at::Tensor& one = list[static_cast<size_t>(change.element)];
      one = changed(x, change, one, scope);
      argument = list;
    }
  }
}

at::Tensor split_layer(const Operation& x, const std::vector<c10::IValue>& arguments, const OperationScope& scope) {
  if (x.split->is_addmm) return split_addmm(x, arguments, scope);
  if (x.split->layer == SplitCall::Layer::embedding) {  // weight, indices, padding_idx, ...
    const at::Tensor ids = arguments[1].toTensor(), rows = embedding(ids, parameter_at(x, 0, scope), scope.context);
    const int64_t padding = arguments[2].toInt();
    return padding < 0 ? rows : at::where(ids.eq(padding).unsqueeze(-1), rows.detach(), rows);
  }
  Parameter& weight = parameter_at(x, 1, scope);  // input, weight, bias
  Parameter* const bias = arguments[2].isNone() ? nullptr : &parameter_at(x, 2, scope);
  const at::Tensor input = arguments[0].toTensor();
  return x.split->layer == SplitCall::Layer::rows ? linear(LayerInput(input), weight, bias, scope.context)
                                                  : linear(input, weight, bias);
}

at::Tensor dropout_of_part(const Operation& x, const at::Tensor& given, double p, const OperationScope& scope) {
  const Context& context = scope.context;
  if (p == 0.0 || !context.training || given.numel() == 0) return given;
  const auto ranks = static_cast<int>(context.tp.size());
  std::vector<int64_t> sample = given.sizes().vec();
  sample.front() = x.factor;
  const auto dim = static_cast<size_t>(x.split->dim < x.dim ? x.split->dim + 1 : x.split->dim);
  sample[dim] *= ranks;
  const Split split{.dim = static_cast<int64_t>(dim),
                    .segments = std::vector<int64_t>(static_cast<size_t>(x.split->segments), sample[dim] / x.split->segments),
                    .parts = ranks,
                    .part = static_cast<int>(context.tp.rank())};
  const std::vector<SplitRun> part = runs_of(sample, split);
  int64_t of_sample = 1;
  for (const int64_t size : sample) of_sample *= size;
  const StepPlace& place = context.place;
  const bool is_placed = place.values.defined() && place.values.device() == given.device();
  const int64_t first = context.first_sample - (is_placed ? place.first_sample : 0);
  std::vector<ElementRun> runs;
  for (int64_t s = 0; s < given.size(0) / x.factor; ++s) {
    for (const SplitRun& run : part) runs.push_back({(first + s) * of_sample + run.whole_begin, run.numel});
  }
  if (is_placed) return placed_dropout(given, p, placed_key(context.seed, x.name, place.values, of_sample), runs);
  return dropout(given, p, random_key(context.seed, x.name, context.step), runs);
}

}  // namespace weft
