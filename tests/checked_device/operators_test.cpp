// Operators that LibTorch treats otherwise on devices outside it: the bits are the CPU's.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <functional>
#include <ostream>

#include "tests/checked_device/device.h"

namespace weft::checked_device {
namespace {

using Tensors = std::vector<at::Tensor>;

struct Row {
  const char* name;
  std::function<Tensors(const at::Device&)> run;
};
void PrintTo(const Row& row, std::ostream* out) { *out << row.name; }

at::Tensor random(at::IntArrayRef shape, const at::Device& device, at::ScalarType dtype = at::kFloat) {
  at::Generator generator = at::globalContext().defaultGenerator(at::kCPU).clone();
  generator.set_current_seed(static_cast<uint64_t>(shape[0]));
  return at::randn(shape, generator, dtype).to(device);
}

/// Result and gradients of a convolution to 6 channels.
Tensors convolution(const at::Device& device, bool bias, bool transposed, int64_t groups) {
  const int64_t from = 4, to = 6;
  Tensors leaves{random({2, from, 9, 9}, device),
                 random({transposed ? from : to, (transposed ? to : from) / groups, 3, 3}, device)};
  if (bias) leaves.push_back(random({to}, device));
  for (at::Tensor& leaf : leaves) leaf.requires_grad_();
  const at::Tensor b = bias ? leaves[2] : at::Tensor();
  Tensors all{transposed ? at::conv_transpose2d(leaves[0], leaves[1], b, 2, 1, 1, groups)
                         : at::conv2d(leaves[0], leaves[1], b, 2, 1, 1, groups)};
  all[0].pow(2).sum().backward();
  for (const at::Tensor& leaf : leaves) all.push_back(leaf.grad());
  return all;
}

const Row kRows[] = {
    {"Convolution", [](const at::Device& d) { return convolution(d, true, false, 1); }},
    {"ConvolutionWithoutBias", [](const at::Device& d) { return convolution(d, false, false, 1); }},
    {"ConvolutionInGroups", [](const at::Device& d) { return convolution(d, true, false, 2); }},
    {"TransposedConvolution", [](const at::Device& d) { return convolution(d, true, true, 1); }},
    {"TransposedConvolutionInGroups", [](const at::Device& d) { return convolution(d, false, true, 2); }},
    {"Conjugated",
     [](const at::Device& d) {
       const at::Tensor z = random({3, 4}, d, at::kComplexFloat), c = z.conj();
       return Tensors{c.resolve_conj(), (c * 2).resolve_conj(), at::matmul(c, z.mT()), c.sum().resolve_conj()};
     }},
    {"Borrowed",  // a part of another tensor's memory
     [](const at::Device& d) {
       const at::Tensor whole = random({6, 8}, d);
       at::Tensor part = at::from_blob(whole.data_ptr<float>() + 10, {4, 3}, {8, 2}, at::TensorOptions(d));
       const at::Tensor row = part.narrow(0, 1, 2).t();
       part.mul_(2);
       row.narrow(1, 1, 1).add_(whole.narrow(0, 0, 1).sum());
       return Tensors{part + 1, row.contiguous(), at::matmul(part, row), whole};
     }},
    {"Negated",
     [](const at::Device& d) {
       return Tensors{at::imag(random({3, 4}, d, at::kComplexFloat).conj()).resolve_neg()};
     }},
};

class Operators : public testing::TestWithParam<Row> {};

TEST_P(Operators, HaveTheBitsOfTheCpu) {
  device();
  take_violations();
  const Tensors here = GetParam().run(device()), there = GetParam().run(at::kCPU);
  ASSERT_EQ(here.size(), there.size());
  for (size_t i = 0; i < here.size(); ++i) {
    EXPECT_EQ(here[i].device(), device());
    EXPECT_TRUE(same_bits(here[i], there[i])) << "tensor " << i;
  }
  EXPECT_EQ(violations(), "");
}

INSTANTIATE_TEST_SUITE_P(Table, Operators, testing::ValuesIn(kRows), [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace weft::checked_device
