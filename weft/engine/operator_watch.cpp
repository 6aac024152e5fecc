#include "weft/engine/operator_watch.h"

#include <ATen/core/function_schema.h>
#include <ATen/ops/isfinite.h>
#include <ATen/record_function.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>
#include <utility>

#include "weft/nn/each_tensor.h"

namespace weft {

namespace {

constexpr int kFresh = -2;  ///< memory that nothing has written yet

template <class Of>
void each_float(const c10::IValue& value, const Of& of) {
  each_tensor(value, [&](const at::Tensor& tensor) {
    if (has_values(tensor)) of(tensor);
  });
}

const c10::StorageImpl* storage_of(const at::Tensor& tensor) { return tensor.storage().unsafeGetStorageImpl(); }

bool makes_memory(std::string_view name) {
  return name.find("empty") != std::string_view::npos || name == "aten::resize_" || name == "aten::set_";
}

/// Operators that write their first argument without reading it.
bool overwrites(std::string_view name) {
  static constexpr std::string_view kNames[] = {"aten::copy_",   "aten::fill_",    "aten::zero_",
                                                "aten::normal_", "aten::uniform_", "aten::bernoulli_"};
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

/// Index of the first value that is not finite.
std::vector<int64_t> first_not_finite_in(const at::Tensor& tensor) {
  const at::Tensor bad = tensor.detach().isfinite().logical_not().flatten().to(at::kByte).argmax();
  int64_t at = bad.item<int64_t>();
  std::vector<int64_t> index(static_cast<size_t>(tensor.dim()));
  for (int64_t dim = tensor.dim() - 1; dim >= 0; --dim) {
    index[static_cast<size_t>(dim)] = at % tensor.size(dim);
    at /= tensor.size(dim);
  }
  return index;
}

std::string what_is(const at::Tensor& tensor, const std::vector<int64_t>& index) {
  at::Tensor value = tensor.detach();
  for (const int64_t i : index) value = value.select(0, i);
  const auto number = value.item<double>();
  return std::isnan(number) ? "NaN" : number > 0 ? "inf" : "-inf";
}

std::unique_ptr<at::ObserverContext> seen_before(const at::RecordFunction& fn) {
  auto* seen = seen_by<SeenOperators>(kOperatorWatch);
  return seen && seen->is_on ? seen->before(fn) : nullptr;
}

void seen_after(const at::RecordFunction& fn, at::ObserverContext* context) {
  auto* seen = seen_by<SeenOperators>(kOperatorWatch);
  if (seen && context) seen->after(fn, context);
}

}  // namespace

struct SeenOperators::Call : at::ObserverContext {
  struct Input {
    TensorRange range;
    const c10::StorageImpl* storage;
    int origin;
  };
  std::vector<Input> inputs;  ///< those that are read
  std::vector<const c10::StorageImpl*> storages;
  std::vector<at::Tensor> written;  ///< arguments that it changes
  size_t first_origin = 0;          ///< of those made in it, by operators that it calls
  double constant = 0.0;            ///< a number among the arguments that is not finite
  bool is_node = false;

  std::vector<TensorRange> ranges() const {
    std::vector<TensorRange> result;
    result.reserve(inputs.size());
    for (const Input& input : inputs) result.push_back(input.range);
    return result;
  }
};

int SeenOperators::origin_of(const at::Tensor& tensor) const {
  const auto found = marks_.find(storage_of(tensor));
  return found == marks_.end() || found->second.storage.expired() ? -1 : found->second.origin;
}

void SeenOperators::mark(const at::Tensor& tensor, int origin) {
  const c10::StorageImpl* storage = storage_of(tensor);
  marks_.erase(storage);
  if (origin == -1) return;
  marks_.emplace(storage, Mark{c10::weak_intrusive_ptr<c10::StorageImpl>(
                                   c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(tensor.storage().unsafeGetStorageImpl())),
                               origin});
}

int SeenOperators::add(Finding::Kind kind, std::string operation, std::vector<TensorRange> inputs, const at::Tensor& value,
                       bool is_constant) {
  Finding finding = here;
  finding.kind = kind;
  finding.operation = std::move(operation);
  finding.inputs = std::move(inputs);
  finding.element = first_not_finite_in(value);
  finding.made = what_is(value, finding.element);
  const int64_t rows = value.dim() > 0 ? value.size(0) : 0;
  if (samples > 0 && (rows == samples || (tokens > 1 && rows == samples * tokens))) {
    finding.row = finding.element.front() * samples / rows;
    if (first_sample >= 0) finding.sample = first_sample + finding.row;
  }
  origins_.push_back({std::move(finding), is_constant});
  return static_cast<int>(origins_.size()) - 1;
}

int SeenOperators::likely_origin() const {
  for (size_t i = scope_begin_; i < origins_.size(); ++i) {
    if (!origins_[i].is_constant) return static_cast<int>(i);
  }
  return scope_input_;
}

int SeenOperators::add(Finding::Kind kind, const at::Tensor& value, const TensorRange& range) {
  if (const int likely = kind == Finding::Kind::unseen ? likely_origin() : -1; likely >= 0) {
    mark(value, likely);
    return likely;
  }
  const int origin = add(kind, kind == Finding::Kind::unseen ? last_ : "", {range}, value);
  mark(value, origin);
  return origin;
}

std::string SeenOperators::name_of(const at::Tensor& tensor, const std::string& argument) const {
  const auto found = names.find(tensor.const_data_ptr());
  return found == names.end() ? argument : "'" + found->second + "'";
}

void SeenOperators::look_at(const at::Tensor& input, const std::string& argument, bool is_written, Call& call) {
  call.storages.push_back(storage_of(input));
  int origin = origin_of(input);
  if (is_written && origin == kFresh) return;
  TensorRange range = range_of(input, name_of(input, argument));
  if (range.not_finite == 0) {
    origin = -1;
  } else if (origin < 0) {
    if (is_written) return;  // left over
    origin = add(Finding::Kind::unseen, input, range);
  }
  call.inputs.push_back({std::move(range), storage_of(input), origin});
}

std::unique_ptr<at::ObserverContext> SeenOperators::before(const at::RecordFunction& fn) {
  const at::DisableRecordFunctionGuard own;
  const c10::NoGradGuard no_grad;
  auto call = std::make_unique<Call>();
  const std::string_view name = fn.name();
  if (fn.scope() == at::RecordScope::BACKWARD_FUNCTION) {
    nodes_.emplace_back(name.substr(name.rfind("::") == std::string_view::npos ? 0 : name.rfind("::") + 2));
    call->is_node = true;
    return call;
  }
  if (name.starts_with("weft::")) {  // what it writes is not known yet
    last_ = name;
    return nullptr;
  }
  const auto schema = fn.operator_schema();
  const bool is_fresh = makes_memory(name);
  call->first_origin = origins_.size();
  for (size_t i = 0; i < fn.inputs().size() && !is_fresh; ++i) {
    const c10::IValue& value = fn.inputs()[i];
    const bool known = schema && i < schema->arguments().size();
    const c10::Argument* argument = known ? &schema->arguments()[i] : nullptr;
    const bool is_written = argument && argument->alias_info() && argument->alias_info()->isWrite();
    const bool is_only_written = is_written && (argument->kwarg_only() || (i == 0 && overwrites(name)));
    if (value.isDouble() && !std::isfinite(value.toDouble())) call->constant = value.toDouble();
    if (value.isScalar() && value.toScalar().isFloatingPoint() && !std::isfinite(value.toScalar().toDouble())) {
      call->constant = value.toScalar().toDouble();
    }
    const bool is_statistic = argument && argument->name().starts_with("running_");  // changed, though not declared so
    each_float(value, [&](const at::Tensor& input) {
      if (input.unsafeGetTensorImpl()->is_wrapped_number()) {  // a number, as a tensor
        if (const double number = input.item<double>(); !std::isfinite(number)) call->constant = number;
        return;
      }
      if (is_statistic || is_written) call->written.push_back(input);
      if (is_only_written) {
        call->storages.push_back(storage_of(input));
      } else {
        look_at(input, argument ? argument->name() : "", is_written, *call);
      }
    });
  }
  return call;
}

void SeenOperators::look_at_output(const at::Tensor& output, const std::string& name, bool makes_memory, const Call& call) {
  const TensorRange range = range_of(output);
  const bool is_own = std::find(call.storages.begin(), call.storages.end(), storage_of(output)) == call.storages.end();
  if (range.not_finite == 0) {
    if (is_own) mark(output, -1);
    return;
  }
  if (makes_memory) return mark(output, kFresh);
  int origin = origin_of(output);
  if (origin >= static_cast<int>(call.first_origin)) return;
  origin = -1;
  bool has_nan = std::isnan(call.constant), is_constant = call.constant != 0.0;
  for (const Call::Input& input : call.inputs) {
    if (input.origin < 0) continue;
    has_nan |= input.range.has_nan;
    const bool is_written = origins_[static_cast<size_t>(input.origin)].is_constant;
    const bool is_better = origin < 0 || (origins_[static_cast<size_t>(origin)].is_constant && !is_written);
    if (is_better) origin = input.origin;
  }
  if (call.inputs.empty() && std::isnan(call.constant) && likely_origin() >= 0) {  // a number that came over the host
    return mark(output, likely_origin());
  }
  const bool from_constants = origin >= 0 && origins_[static_cast<size_t>(origin)].is_constant;
  const bool is_new = origin < 0 || (from_constants && range.has_nan && !has_nan);
  if (is_new) {
    std::string what = name;
    if (!nodes_.empty()) what += " in " + nodes_.back();
    if (is_constant) what += fmt::format(" by {}", call.constant);
    is_constant = is_constant && !range.has_nan;
    origin = add(Finding::Kind::operation, what, call.ranges(), output, is_constant);
  }
  mark(output, origin);
}

void SeenOperators::after(const at::RecordFunction& fn, at::ObserverContext* context) {
  const auto* call = static_cast<const Call*>(context);
  if (call->is_node) {
    last_ = nodes_.empty() ? "" : nodes_.back();
    if (!nodes_.empty()) nodes_.pop_back();
    return;
  }
  const at::DisableRecordFunctionGuard own;
  const c10::NoGradGuard no_grad;
  const std::string name = fn.name();
  for (const c10::IValue& value : fn.outputs()) {
    each_float(value, [&](const at::Tensor& output) { look_at_output(output, name, makes_memory(name), *call); });
  }
  for (const at::Tensor& written : call->written) {
    if (has_values(written)) look_at_output(written, name, false, *call);
  }
  last_ = name;
}

OperatorWatch::OperatorWatch(std::shared_ptr<SeenOperators> seen)
    : observer_(kOperatorWatch, std::move(seen), seen_before, seen_after) {}

}  // namespace weft
