// Adafactor's state has rows and columns, not elements, on every rank; and the estimate matches the actual state.
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include "tests/nn/bound_layer.h"
#include "weft/nn/loss/cross_entropy.h"
#include "weft/optim/block_update.h"
#include "weft/optim/make_optimizer.h"

namespace weft::factored_state_test {
namespace {

/// A matrix, a convolution's kernel, a vector, and a frozen parameter.
struct Parameters {
  Parameter matrix{at::randn({70, 110}), {}}, kernel{at::randn({4, 3, 5, 7}), {}}, bias{at::randn({13}), {}};
  Parameter frozen{at::randn({9, 9}), {}};

  std::shared_ptr<Block> block() {
    return std::make_shared<FunctionBlock>(
        [](const Tensors& in, const Context&) { return in; },
        std::vector<ParamSpec>{{"matrix", &matrix, {}},
                               {"kernel", &kernel, {}},
                               {"bias", &bias, {}, /*decay=*/false},
                               {.name = "frozen", .parameter = &frozen, .init = {}, .frozen = true}});
  }
};

constexpr int64_t kElements = 70 + 110 + (4 * 3 * 5 + 4 * 3 * 7) + 13;

TEST(Adafactor, KeepsRowsAndColumns) {
  Parameters parameters;
  Model model{.name = "test", .blocks = {}, .loss = cross_entropy};
  model.blocks.push_back({"block", "block", parameters.block()});
  const BlockUpdate estimate = block_updates(model, Adafactor{}, {}, 2).front();
  EXPECT_EQ(estimate.whole_state, kElements);
  EXPECT_EQ(estimate.states + estimate.part_state, 0);
  EXPECT_EQ(estimate.gathered_bytes, 2);
  for (const int shards : {1, 4}) {
    Parameters own;
    FlatModel flat = bind_block(own.block(), {.num_shards = shards, .shard = shards - 1, .separate_gradients = shards > 1});
    const auto optimizer = make_optimizer(flat, Adafactor{});
    EXPECT_EQ(optimizer->state_numels(0), std::vector<int64_t>{kElements});
    optimizer->take_gradients(0, at::randn({flat.flat(0).numel}));
    optimizer->update(0, {.lr = 0.01});
    ASSERT_EQ(optimizer->state(0).size(), 1u);
    EXPECT_EQ(optimizer->state(0)[0].numel(), kElements);
    std::vector<std::string> names;
    int64_t elements = 0;
    for (int i = 0; i < static_cast<int>(flat.params().size()); ++i) {
      if (!is_trained(flat.params()[i].group)) continue;
      for (const StateTensor& state : optimizer->state_tensors(i)) {
        names.push_back(state.name + " " + flat.params()[i].name);
        EXPECT_EQ(state.begin, elements);
        EXPECT_TRUE(state.whole);
        elements += c10::multiply_integers(state.shape);
      }
    }
    EXPECT_EQ(elements, kElements);
    EXPECT_EQ(names, (std::vector<std::string>{"row_var block.matrix", "col_var block.matrix", "row_var block.kernel",
                                               "col_var block.kernel", "variance block.bias"}));
  }
}

}  // namespace
}  // namespace weft::factored_state_test
