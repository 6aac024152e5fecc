#include "weft/checkpoint/format/compare_checkpoints.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstring>

#include "weft/base/error.h"

namespace weft {
namespace {

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  return std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0;
}

TensorDifference compare_values(const std::string& name, const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor x = a.to(at::kDouble), y = b.to(at::kDouble);
  const at::Tensor differ = x.ne(y).logical_and(x.eq(x).logical_or(y.eq(y)));  // of numbers; a NaN is not itself
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
  throw InputError(fmt::format("{}: it has no average of the weights; its run kept none (optimizer.ema)", checkpoint.path()));
}

std::vector<NamedTensor> average_weights(std::vector<SavedCheckpoint>& checkpoints) {
  SavedCheckpoint& first = checkpoints.front();
  const std::vector<std::string> names = first.weights();
  for (SavedCheckpoint& other : checkpoints) {
    if (other.weights() == names) continue;
    throw InputError(fmt::format("{} and {} have other weights; average checkpoints of one model", first.path(), other.path()));
  }
  std::vector<NamedTensor> tensors;
  for (const std::string& name : names) {
    const at::Tensor sum = first.read(kModelPrefix + name).to(at::kDouble);
    for (size_t i = 1; i < checkpoints.size(); ++i) {
      const at::Tensor next = checkpoints[i].read(kModelPrefix + name);
      if (next.sizes() != sum.sizes()) {
        throw InputError(fmt::format("{} and {} have '{}' in other shapes; average checkpoints of one model", first.path(),
                                     checkpoints[i].path(), name));
      }
      sum.add_(next);
    }
    tensors.push_back({name, sum.div_(static_cast<double>(checkpoints.size())).to(at::kFloat)});
  }
  return tensors;
}

}  // namespace weft
