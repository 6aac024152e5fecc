#include "weft/models/gpt.h"

#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "tests/nn/shards.h"

namespace weft {
namespace {

Model tied() { return gpt({.layers = 1, .heads = 2, .width = 16, .context = 8, .vocabulary = 11, .tied_embeddings = true}); }

at::Tensor value(FlatModel& flat, const std::string& name) {
  for (const Param& param : flat.params()) {
    if (param.name == name) return param.parameter->value;
  }
  throw std::runtime_error("no parameter " + name);
}

TEST(Gpt, TiedHeadHasNoWeightsOfItsOwnAndSaysWhoseItUses) {
  const FlatModel flat(tied(), {});
  const FlatModel untied(gpt({.layers = 1, .heads = 2, .width = 16, .context = 8, .vocabulary = 11}), {});
  EXPECT_EQ(untied.num_parameters() - flat.num_parameters(), 11 * 16);
  EXPECT_EQ(flat.model().blocks.back().uses, std::vector<int>{0});
  EXPECT_TRUE(untied.model().blocks.back().uses.empty());
}

TEST(Gpt, TiedLogitsAreProductsWithTheEmbeddingsAndBothUsesAddTheirGradients) {
  FlatModel flat(tied(), {});
  initialise(flat, 3);
  for (int b : {0, 2}) flat.clear_gradients(b);
  const at::Tensor ids = at::arange(8, at::kLong).view({1, 8}), x = at::randn({1, 8, 16});
  const at::Tensor logits = flat.block(2).forward({x.clone().requires_grad_(true)}, {})[0];
  const at::Tensor embedded = flat.block(0).forward({ids}, {})[0];
  const at::Tensor d_logits = at::randn({1, 8, 11}), d_embedded = at::randn({1, 8, 16});
  logits.backward(d_logits);
  flat.settle_gradients(2, {});
  flat.settle_gradients(0, {});  // the engine also settles blocks whose weights are used
  embedded.backward(d_embedded);
  flat.settle_gradients(0, {});

  const at::Tensor weights = value(flat, "wte.weight").detach().clone().requires_grad_(true);
  const at::Tensor expected =
      at::linear(at::layer_norm(x, {16}, value(flat, "ln_f.weight").detach(), value(flat, "ln_f.bias").detach()), weights);
  EXPECT_TRUE(at::allclose(logits, expected, 1e-5, 1e-6));
  expected.backward(d_logits);
  at::embedding(weights, ids).backward(d_embedded);
  EXPECT_TRUE(at::allclose(value(flat, "wte.weight").grad(), weights.grad(), 1e-5, 1e-6));
  EXPECT_EQ(value(flat, "wte.weight").grad().data_ptr(),
            flat.flat(0).gradients.data_ptr<float>() + flat.params()[flat.flat(0).params[0]].offset);
}

}  // namespace
}  // namespace weft
