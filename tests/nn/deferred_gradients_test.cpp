// A backward in two parts has the bits of a whole one, for any order of several micro-batches.
#include "weft/nn/deferred_gradients.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include <functional>
#include <ostream>

#include "tests/nn/bound_layer.h"
#include "weft/models/gpt.h"
#include "weft/models/llama.h"
#include "weft/models/vision.h"
#include "weft/nn/graph.h"
#include "weft/nn/layers/layers.h"

namespace weft {
namespace {

at::Tensor random(at::IntArrayRef sizes, int seed) {
  return at::randn(sizes, at::detail::createCPUGenerator(static_cast<uint64_t>(seed)), at::kFloat);
}
at::Tensor random_ids(at::IntArrayRef sizes, int seed) {
  return at::randint(13, sizes, at::detail::createCPUGenerator(static_cast<uint64_t>(seed)), at::kLong);
}

/// A block of one weft layer.
template <class Layer>
std::shared_ptr<Block> block_of(Layer made) {
  auto layer = std::make_shared<Layer>(std::move(made));
  std::vector<ParamSpec> specs;
  layer->describe(specs, "layer");
  return std::make_shared<FunctionBlock>([layer](const Tensors& in, const Context&) -> Tensors { return {(*layer)(in[0])}; },
                                         specs);
}

/// A linear layer that runs twice, and a parameter unknown to it.
std::shared_ptr<Block> twice() {
  struct Layers {
    Linear linear{8, 8};
    Parameter scale{meta_parameter({8})};
  };
  auto layers = std::make_shared<Layers>();
  std::vector<ParamSpec> specs;
  layers->linear.describe(specs, "linear");
  specs.push_back({"scale", &layers->scale, {Init::Kind::normal, 1.0, 0.1}});
  return std::make_shared<FunctionBlock>(
      [layers](const Tensors& in, const Context&) -> Tensors {
        return {layers->linear(layers->linear(in[0]).mul(layers->scale.value)).mul(layers->scale.value), in[0].mul(2.0)};
      },
      specs);
}

std::shared_ptr<Block> gpt_block(int index) {
  return gpt({.layers = 1, .heads = 2, .width = 16, .context = 8, .vocabulary = 13, .dropout = 0.1}).blocks[index].block;
}

std::shared_ptr<Block> llama_block(int index) {
  return llama({.layers = 1, .heads = 4, .kv_heads = 2, .width = 16, .ffn = 24, .vocabulary = 13}).blocks[index].block;
}

struct Case {
  const char* name;
  std::function<std::shared_ptr<Block>()> block;
  std::function<at::Tensor(int)> input;  ///< input of a micro-batch
  Context context = {.seed = 5};
  at::ScalarType weight_dtype = at::kFloat;
};

std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.name; }

std::vector<Case> cases() {
  const auto rows = [](int j) { return random({6, 8}, j); };
  const auto images = [](int j) { return random({2, 3, 7, 7}, j); };
  const auto tokens = [](int j) { return random({2, 8, 16}, j); };
  const auto ids = [](int j) { return random_ids({2, 8}, j); };
  const auto narrow = [](const auto& make) { return [make](int j) { return make(j).to(at::kBFloat16); }; };
  const auto linear = [] { return block_of(Linear(8, 5)); };
  const auto convolution = [] { return block_of(Conv2d(3, 4, 3)); };
  const auto layer = [] { return gpt_block(1); };
  const auto llama_layer = [] { return llama_block(1); };
  return {
      {"linear", linear, rows},
      {"linear_without_bias", [] { return block_of(Linear(8, 5, false)); }, rows},
      {"linear_bf16", linear, narrow(rows), {.seed = 5}, at::kBFloat16},
      {"linear_twice", twice, rows},
      {"convolution", convolution, images},
      {"convolution_without_bias", [] { return block_of(Conv2d(3, 4, 5, false)); }, images},
      {"convolution_bf16", convolution, narrow(images), {.seed = 5}, at::kBFloat16},
      {"convolutions", [] { return cnn({.size = 12, .width = 4}).blocks[0].block; },
       [](int j) {
         return random({2, 1, 12, 12}, j);
       }},
      {"layer_norm", [] { return block_of(LayerNorm(8)); }, rows},
      {"embedding", [] { return block_of(Embedding(13, 6, 0.1)); }, ids},
      {"gpt_embedding", [] { return gpt_block(0); }, ids},
      {"gpt_layer", layer, tokens},
      {"gpt_layer_attention_again", layer, tokens, {.seed = 5, .layout = {.recompute_parts = true}}},
      {"gpt_layer_bf16", layer, narrow(tokens), {.seed = 5}, at::kBFloat16},
      {"gpt_head", [] { return gpt_block(2); }, tokens},
      {"rms_norm", [] { return block_of(RmsNorm(8)); }, rows},
      {"llama_embedding", [] { return llama_block(0); }, ids},
      {"llama_layer", llama_layer, tokens},
      {"llama_layer_attention_again", llama_layer, tokens, {.seed = 5, .layout = {.recompute_parts = true}}},
      {"llama_layer_bf16", llama_layer, narrow(tokens), {.seed = 5}, at::kBFloat16},
      {"llama_head", [] { return llama_block(2); }, tokens},
  };
}

enum class Order {
  whole,         ///< one backward after another
  in_turn,       ///< both parts of one micro-batch, then the next
  inputs_first,  ///< the inputs' parts of all micro-batches, then the weights' parts
  one_behind,    ///< the weights' part of a micro-batch after the inputs' part of the next
};

/// Results of three micro-batches: the block's flat gradients, and those of its inputs.
class Backward {
 public:
  Backward(const Case& c, bool there_already) : c_(c), flat_(bind_block(c.block(), {.weight_dtype = c.weight_dtype})) {
    flat_.flat(0).gradients.fill_(99.0);
    flat_.clear_gradients(0);
    if (there_already) whole(7);
  }

  Tensors run(Order order) {
    constexpr int kMicroBatches = 3;
    std::vector<DeferredGradients> left(kMicroBatches);
    const auto weights_of = [&](int j) {
      left[j].run();
      EXPECT_TRUE(left[j].empty());
      flat_.settle_gradients(0, {});
    };
    for (int j = 0; j < kMicroBatches; ++j) {
      if (order == Order::whole) {
        whole(j);
        continue;
      }
      left[j] = inputs_of(j);
      if (order == Order::in_turn) weights_of(j);
      if (order == Order::one_behind && j > 0) weights_of(j - 1);
    }
    for (int j = 0; j < kMicroBatches && order == Order::inputs_first; ++j) weights_of(j);
    if (order == Order::one_behind) weights_of(kMicroBatches - 1);
    Tensors result = std::move(input_gradients_);
    result.push_back(flat_.flat(0).gradients.clone());
    return result;
  }

 private:
  struct Piece {
    Tensors inputs, outputs, gradients;
  };

  Piece forward(int j) {
    Context context = c_.context;
    context.first_sample = 2 * j;
    Piece piece{.inputs = detach({c_.input(j)}), .outputs = {}, .gradients = {}};
    piece.outputs = flat_.block(0).forward(piece.inputs, context);
    for (const at::Tensor& output : piece.outputs) {
      piece.gradients.push_back(random(output.sizes(), 100 + j).to(output.scalar_type()));
    }
    return piece;
  }

  void whole(int j) {
    const Piece piece = forward(j);
    run_backward(piece.outputs, piece.gradients);
    flat_.settle_gradients(0, {});
    keep(piece);
  }

  DeferredGradients inputs_of(int j) {
    const Piece piece = forward(j);
    const at::Tensor before = flat_.flat(0).gradients.clone();
    DeferredGradients left = run_backward_input(flat_.trained(0), piece.outputs, piece.gradients);
    EXPECT_FALSE(left.empty());
    EXPECT_TRUE(at::equal(flat_.flat(0).gradients, before)) << "the inputs' part changes no gradient of the weights";
    for (const Parameter* parameter : flat_.trained(0)) EXPECT_EQ(parameter->deferred, nullptr);
    keep(piece);
    return left;
  }

  void keep(const Piece& piece) {
    for (const at::Tensor& gradient : take_gradients(piece.inputs)) {
      if (gradient.defined()) input_gradients_.push_back(gradient);
    }
  }

  const Case& c_;
  FlatModel flat_;
  Tensors input_gradients_;
};

class SplitBackwardTest : public ::testing::TestWithParam<Case> {};

TEST_P(SplitBackwardTest, HasTheBitsOfAWholeOne) {
  for (const bool there_already : {false, true}) {
    const Tensors expected = Backward(GetParam(), there_already).run(Order::whole);
    EXPECT_TRUE(expected.back().ne(0.0).any().item<bool>());
    for (const Order order : {Order::in_turn, Order::inputs_first, Order::one_behind}) {
      const Tensors actual = Backward(GetParam(), there_already).run(order);
      ASSERT_EQ(actual.size(), expected.size());
      for (size_t i = 0; i < expected.size(); ++i) {
        EXPECT_TRUE(at::equal(actual[i], expected[i]))
            << (i + 1 < expected.size() ? "gradient of an input" : "gradients of the weights") << ", order "
            << static_cast<int>(order) << (there_already ? ", some there already" : "");
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Blocks, SplitBackwardTest, ::testing::ValuesIn(cases()),
                         [](const auto& info) { return std::string(info.param.name); });

/// Returns whether the weights' gradients are computed only in the second part: then they do not see an input freed before.
bool defers_weights(const std::shared_ptr<Block>& block, const at::Tensor& input) {
  FlatModel flat = bind_block(block);
  flat.clear_gradients(0);
  const Tensors inputs = detach({input});
  const Tensors outputs = flat.block(0).forward(inputs, {});
  DeferredGradients left = run_backward_input(flat.trained(0), outputs, {random(outputs[0].sizes(), 3)});
  inputs[0].detach().zero_();
  left.run();
  flat.settle_gradients(0, {});
  return flat.trained(0)[0]->gradient.eq(0.0).all().item<bool>();
}

TEST(SplitBackward, PutsOffMatrixProductsAndConvolutionsAndNothingElse) {
  EXPECT_TRUE(defers_weights(block_of(Linear(8, 5)), random({6, 8}, 1)));
  EXPECT_TRUE(defers_weights(block_of(Conv2d(3, 4, 3)), random({2, 3, 7, 7}, 1)));
  EXPECT_FALSE(defers_weights(block_of(LayerNorm(8)), random({6, 8}, 1)));
}

/// The gradient that another block's backward adds to weights it uses.
TEST(SplitBackward, TiedWeights) {
  const auto gradients = [](bool split) {
    Model model = gpt({.layers = 1, .heads = 2, .width = 16, .context = 8, .vocabulary = 13, .tied_embeddings = true});
    FlatModel flat(std::move(model), {});
    for (int b : {0, 2}) {
      flat.initialise(b, 1);
      flat.clear_gradients(b);
    }
    const Tensors inputs = detach({random({2, 8, 16}, 1)});
    const Tensors outputs = flat.block(2).forward(inputs, {});
    const Tensors seeds = {random(outputs[0].sizes(), 2)};
    if (split) {
      std::vector<Parameter*> parameters = flat.trained(2);
      for (Parameter* used : flat.trained(0)) parameters.push_back(used);
      run_backward_input(parameters, outputs, seeds).run();
    } else {
      run_backward(outputs, seeds);
    }
    for (int b : {0, 2}) flat.settle_gradients(b, {});
    return Tensors{flat.flat(0).gradients.clone(), flat.flat(2).gradients.clone(), inputs[0].grad()};
  };
  const Tensors whole = gradients(false), split = gradients(true);
  for (size_t i = 0; i < whole.size(); ++i) EXPECT_TRUE(at::equal(whole[i], split[i])) << i;
  EXPECT_TRUE(whole[0].ne(0.0).any().item<bool>());
}

/// LibTorch's error of it is a plain std::logic_error.
TEST(Backward, ALeafThatBecameAResultIsRefused) {
  const at::Tensor memory = at::ones({2}), factor = at::ones({2}).requires_grad_(true);
  const at::Tensor leaf = memory.view({2}).requires_grad_(true);
  const at::Tensor output = leaf.mul(2.0);
  memory.mul_(factor);
  try {
    run_backward(Tensors{output}, {at::ones({2})});
    ADD_FAILURE() << "ran";
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("in place"), std::string::npos);
  }
}

}  // namespace
}  // namespace weft
