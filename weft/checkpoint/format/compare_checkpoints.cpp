#include "weft/checkpoint/format/compare_checkpoints.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/view_as_real.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstring>

#include "weft/base/error.h"

namespace weft {
namespace {

TensorDifference compare_values(const std::string& name, const at::Tensor& a, const at::Tensor& b) {
  if (a.is_complex()) return compare_values(name, at::view_as_real(a), at::view_as_real(b));  // real and imaginary parts
  const at::Tensor x = a.to(at::kDouble), y = b.to(at::kDouble);
  const at::Tensor differ = x.ne(y).logical_and(x.eq(x).logical_or(y.eq(y)));  // NaN equals NaN
  return {.name = name,
          .only = {},
          .elements = differ.sum().item<int64_t>(),
          .numel = a.numel(),
          .largest = x.sub(y).abs().nan_to_num(0.0).max().item<double>(),
          .scale = x.abs().nan_to_num(0.0).max().item<double>()};
}

TensorDifference not_compared(const std::string& name, std::string why) {
  TensorDifference difference;
  difference.name = name;
  difference.only = std::move(why);
  return difference;
}

}  // namespace

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  return a.nbytes() == 0 || std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0;
}

CheckpointDifference compare_checkpoints(SavedCheckpoint& a, SavedCheckpoint& b) {
  CheckpointDifference result;
  const auto &in_a = a.index().tensors, &in_b = b.index().tensors;
  for (const auto& [name, stored] : in_a) {
    const auto other = in_b.find(name);
    ++result.tensors;
    if (other == in_b.end()) {
      result.differences.push_back(not_compared(name, "only in the first"));
    } else if (other->second.shape != stored.shape || other->second.type != stored.type) {
      result.differences.push_back(
          not_compared(name, fmt::format("{} [{}] and {} [{}]", c10::toString(stored.type), fmt::join(stored.shape, ", "),
                                         c10::toString(other->second.type), fmt::join(other->second.shape, ", "))));
    } else {
      const at::Tensor x = a.read(name), y = b.read(name);
      if (!same_bits(x, y)) result.differences.push_back(compare_values(name, x, y));
    }
  }
  for (const auto& [name, stored] : in_b) {
    if (in_a.count(name) > 0) continue;
    ++result.tensors;
    result.differences.push_back(not_compared(name, "only in the second"));
  }
  return result;
}

std::vector<NamedTensor> read_weights(SavedCheckpoint& checkpoint) {
  std::vector<NamedTensor> tensors;
  for (const std::string& name : checkpoint.weights()) tensors.push_back({name, checkpoint.read(kModelPrefix + name)});
  return tensors;
}

std::vector<NamedTensor> read_average(SavedCheckpoint& checkpoint) {
  const std::string prefix = std::string(kAverageState) + "/";
  const auto& stored = checkpoint.index().tensors;
  const std::vector<std::string> names = checkpoint.weights();
  std::vector<NamedTensor> tensors;
  tensors.reserve(names.size());
  bool any = false;
  for (const std::string& name : names) {
    const bool is_averaged = stored.count(prefix + name) > 0;
    any = any || is_averaged;
    tensors.push_back({name, checkpoint.read((is_averaged ? prefix : kModelPrefix) + name)});
  }
  if (any) return tensors;
  throw InputError(fmt::format("{}: it has no average of the weights; its run did not set optimizer.ema", checkpoint.path()));
}

namespace {

/// Reads a weight from all checkpoints, which must agree in its shape and type.
std::vector<at::Tensor> read_named(std::vector<SavedCheckpoint>& checkpoints, const std::string& name) {
  std::vector<at::Tensor> values;
  for (SavedCheckpoint& checkpoint : checkpoints) {
    values.push_back(checkpoint.read(kModelPrefix + name));
    if (values.back().sizes() == values.front().sizes() && values.back().scalar_type() == values.front().scalar_type())
      continue;
    throw InputError(fmt::format("{} and {} have different shapes or types of '{}'; average checkpoints of one model",
                                 checkpoints.front().path(), checkpoint.path(), name));
  }
  return values;
}

at::Tensor mean_of(const std::vector<at::Tensor>& values) {
  const at::Tensor sum = values.front().to(at::kDouble);
  for (size_t i = 1; i < values.size(); ++i) sum.add_(values[i]);
  return sum.div_(static_cast<double>(values.size())).to(at::kFloat);
}

at::Tensor largest_of(const std::vector<at::Tensor>& values) {
  at::Tensor largest = values.front();
  for (const at::Tensor& value : values) largest = at::maximum(largest, value);
  return largest;
}

}  // namespace

std::vector<NamedTensor> average_weights(std::vector<SavedCheckpoint>& checkpoints) {
  SavedCheckpoint& first = checkpoints.front();
  const std::vector<std::string> names = first.weights();
  for (SavedCheckpoint& other : checkpoints) {
    if (other.weights() == names) continue;
    throw InputError(fmt::format("{} and {} differ in weights; average checkpoints of one model", first.path(), other.path()));
  }
  std::map<std::string, std::string> kinds = first.buffers();
  std::vector<NamedTensor> tensors;
  for (const std::string& name : names) {
    const std::vector<at::Tensor> values = read_named(checkpoints, name);
    const auto kind = kinds.find(name);
    if (kind == kinds.end()) {
      tensors.push_back({name, mean_of(values)});
      continue;
    }
    for (size_t i = 0; i < values.size() && kind->second == kConstantBuffer; ++i) {
      if (same_bits(values.front(), values[i])) continue;
      throw InputError(
          fmt::format("{} and {} differ in buffer '{}', which training never changes: they are two networks, and a "
                      "mean of their weights is meaningless; average checkpoints of one run",
                      first.path(), checkpoints[i].path(), name));
    }
    tensors.push_back({name, kind->second == kConstantBuffer ? values.front() : largest_of(values)});
  }
  return tensors;
}

}  // namespace weft
