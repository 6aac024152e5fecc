#include "tests/comm/reference.h"

#include <ATen/ops/add.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>

#include <cmath>
#include <cstring>

#include "weft/comm/call/shard_range.h"
namespace weft::test {
namespace {

at::Tensor tree(const std::vector<at::Tensor>& wide, size_t low, size_t high, ReduceOp op) {
  if (high - low == 1) return wide[low];
  size_t half = 1;
  while (half * 2 < high - low) half *= 2;
  const at::Tensor a = tree(wide, low, low + half, op), b = tree(wide, low + half, high, op);
  if (op == ReduceOp::sum) return at::add(a, b);
  return op == ReduceOp::max ? at::maximum(a, b) : at::minimum(a, b);
}

}  // namespace

at::Tensor make_input(int rank, int64_t numel, at::ScalarType dtype) {
  at::Tensor values = at::empty({numel}, at::kDouble);
  double* data = values.data_ptr<double>();
  for (int64_t k = 0; k < numel; ++k) {
    const auto hash = static_cast<uint32_t>((k + 1) * 2654435761u) ^ static_cast<uint32_t>((rank + 1) * 40503u * 2654435761u);
    data[k] = (static_cast<double>(hash % 20011) - 10005.0) / 37.0;
  }
  return values.to(dtype);
}

at::Tensor reduce_all(const std::vector<at::Tensor>& inputs, ReduceOp op) {
  const at::ScalarType dtype = inputs[0].scalar_type();
  const bool narrow = dtype == at::kBFloat16 || dtype == at::kHalf;
  std::vector<at::Tensor> wide;
  for (const at::Tensor& input : inputs) wide.push_back(narrow ? input.to(at::kFloat) : input);
  return tree(wide, 0, wide.size(), op).to(dtype);
}

at::Tensor shard_of(const at::Tensor& whole, int size, int rank) {
  const ShardRange range = shard_range(whole.numel(), size, rank);
  return whole.narrow(0, range.begin, range.end - range.begin);
}

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.numel() == b.numel() &&
         (a.numel() == 0 || std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0);
}

}  // namespace weft::test
