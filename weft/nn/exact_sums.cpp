#include "weft/nn/exact_sums.h"

#include <ATen/ops/zeros.h>

#include <algorithm>

namespace weft {

at::Tensor exact_sums(int64_t count, at::Device device) {
  return at::zeros({count, kSumWords}, at::TensorOptions(at::kLong).device(device));
}

std::vector<ExactSum> sums_in(const at::Tensor& words) {
  std::vector<ExactSum> sums(static_cast<size_t>(words.size(0)));
  const auto* data = words.const_data_ptr<int64_t>();
  for (ExactSum& sum : sums) {
    std::copy_n(data, kSumWords, sum.words().begin());
    data += kSumWords;
  }
  return sums;
}

}  // namespace weft
