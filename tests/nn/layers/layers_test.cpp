// Layers against the equivalent plain LibTorch operations: values and every gradient.
#include "weft/nn/layers/layers.h"

#include <ATen/ops/allclose.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/split.h>
#include <gtest/gtest.h>

#include "tests/nn/bound_layer.h"
#include "weft/nn/attention/attention.h"

namespace weft {
namespace {

struct LinearCase {
  std::vector<int64_t> input;
  int64_t out;
  bool bias;
};

class LinearTest : public ::testing::TestWithParam<LinearCase> {};

TEST_P(LinearTest, ValueAndGradientsEqualLibTorchs) {
  const LinearCase& c = GetParam();
  Linear layer(c.input.back(), c.out, c.bias);
  std::vector<ParamSpec> specs;
  layer.describe(specs, "linear");
  FlatModel flat = bind_block(std::make_shared<FunctionBlock>(
      [&layer](const Tensors& in, const Context&) -> Tensors { return {layer(in[0])}; }, specs));
  flat.flat(0).gradients.fill_(99.0);  // must be overwritten
  flat.clear_gradients(0);

  const at::Tensor x = at::randn(c.input).requires_grad_(true);
  const at::Tensor x2 = x.detach().clone().requires_grad_(true);
  const at::Tensor weight = layer.weight.value.detach().clone().requires_grad_(true);
  const at::Tensor bias = c.bias ? layer.bias.value.detach().clone().requires_grad_(true) : at::Tensor();
  for (int pass = 0; pass < 2; ++pass) {  // the second one adds
    const at::Tensor y = flat.block(0).forward({x}, {})[0];
    const at::Tensor expected = at::linear(x2, weight, bias);
    EXPECT_TRUE(at::allclose(y, expected));
    const at::Tensor dy = at::randn(y.sizes());
    y.backward(dy);
    expected.backward(dy);
    flat.settle_gradients(0, {});
    EXPECT_TRUE(at::allclose(layer.weight.value.grad(), weight.grad(), 1e-5, 1e-6));
    EXPECT_EQ(layer.weight.value.grad().data_ptr(), layer.weight.gradient.data_ptr());
    if (c.bias) {
      EXPECT_TRUE(at::allclose(layer.bias.value.grad(), bias.grad(), 1e-5, 1e-6));
    }
    EXPECT_TRUE(at::allclose(x.grad(), x2.grad(), 1e-5, 1e-6));
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, LinearTest,
                         ::testing::Values(LinearCase{{5, 8}, 3, true}, LinearCase{{2, 7, 16}, 33, true},
                                           LinearCase{{4, 9}, 6, false}, LinearCase{{1, 1}, 1, true},
                                           LinearCase{{2, 64, 128}, 160, true}, LinearCase{{128, 160}, 128, false}));

TEST(Attention, ValueAndGradientEqualTheExactFormula) {
  const int64_t batch = 2, tokens = 9, heads = 3, head_width = 4, width = heads * head_width;
  const at::Tensor qkv = at::randn({batch, tokens, 3 * width}).requires_grad_(true);
  const at::Tensor qkv2 = qkv.detach().clone().to(at::kDouble).requires_grad_(true);
  const auto heads_of = [&](const at::Tensor& x) { return x.reshape({batch, tokens, heads, head_width}).transpose(1, 2); };
  const std::vector<at::Tensor> parts = at::split(qkv2, width, 2);
  const at::Tensor scores = heads_of(parts[0]).matmul(heads_of(parts[1]).transpose(2, 3)).div(std::sqrt(double(head_width)));
  const at::Tensor mask = at::ones({tokens, tokens}, at::kBool).triu(1);
  const at::Tensor exact = scores.masked_fill(mask, -1e30).softmax(-1).matmul(heads_of(parts[2])).transpose(1, 2).flatten(2);

  const at::Tensor y = attention(qkv, heads);
  EXPECT_TRUE(at::allclose(y.to(at::kDouble), exact, 1e-5, 1e-6));
  const at::Tensor dy = at::randn(y.sizes());
  y.backward(dy);
  exact.backward(dy.to(at::kDouble));
  EXPECT_TRUE(at::allclose(qkv.grad().to(at::kDouble), qkv2.grad(), 1e-4, 1e-5));
}

TEST(Attention, ATokenSeesNothingAfterIt) {
  const at::Tensor qkv = at::randn({1, 6, 12});
  at::Tensor changed = qkv.clone();
  changed.narrow(1, 4, 2).add_(1.0);
  EXPECT_TRUE(at::allclose(attention(qkv, 2).narrow(1, 0, 4), attention(changed, 2).narrow(1, 0, 4)));
}

}  // namespace
}  // namespace weft
