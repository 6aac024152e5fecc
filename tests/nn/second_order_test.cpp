// Second derivatives: every operation either refuses them, by name, or matches LibTorch's formula in float64. The autograd
// functions that weft/nn defines are found in its sources: each must run here.
#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/batch_norm.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/group_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>

#include "tests/support/refusal.h"
#include "weft/nn/attention/attention.h"
#include "weft/nn/attention/fused.h"
#include "weft/nn/attention/heads.h"
#include "weft/nn/attention/over_ranks.h"
#include "weft/nn/attention/within_documents.h"
#include "weft/nn/cost/recorded_group.h"
#include "weft/nn/functional/gelu.h"
#include "weft/nn/functional/recompute.h"
#include "weft/nn/functional/rotary.h"
#include "weft/nn/functional/swiglu.h"
#include "weft/nn/images/batch_norm.h"
#include "weft/nn/images/convolution.h"
#include "weft/nn/images/pixel_norm.h"
#include "weft/nn/layers/layers.h"
#include "weft/nn/layers/linear.h"
#include "weft/nn/layers/normed_linear.h"
#include "weft/nn/loss/class_loss.h"
#include "weft/nn/loss/cross_entropy.h"
#include "weft/nn/loss/split_cross_entropy.h"
#include "weft/nn/model.h"
#include "weft/nn/operators_path.h"
#include "weft/nn/random.h"
#include "weft/nn/sequence/zigzag.h"
#include "weft/nn/target_scope.h"
#include "weft/nn/tensor_parallel/collectives.h"
#include "weft/nn/tensor_parallel/layer_over_ranks.h"
#include "weft/nn/tensor_parallel/reproducible_parts.h"

namespace weft::second_order_test {
namespace {

using Function = std::function<at::Tensor(const at::Tensor& x)>;

struct Operation {
  const char* name;
  std::vector<int64_t> sizes;  ///< of x
  Function ours;
  std::string refused = {};  ///< name in the error; empty: not refused
  Function theirs = {};      ///< in float64
};

void PrintTo(const Operation& operation, std::ostream* out) { *out << operation.name; }

const Context kTwoRanks = [] {
  Context context;
  context.tp = recorded_group("tp", 2, std::make_shared<RecordedCalls>());
  return context;
}();

at::Tensor fixed(at::IntArrayRef sizes, const at::Tensor& x) {
  int64_t count = 1;
  for (const int64_t size : sizes) count *= size;
  return at::arange(1, count + 1, x.options().requires_grad(false)).mul(0.7).sin().view(sizes);
}

at::Tensor heads(const at::Tensor& x) { return x.view({1, 4, 3, 8}).transpose(1, 2); }

const DocumentRuns kRuns = {{.sample = 0, .samples = 1, .begin = 0, .tokens = 2},
                            {.sample = 0, .samples = 1, .begin = 2, .tokens = 2}};

/// A layer that outlives the graphs of the test.
struct Held {
  Parameter weight, bias, norm;
};
Held& held(const at::Tensor& weight, bool bound, std::optional<Split> split = std::nullopt) {
  static std::vector<std::unique_ptr<Held>> all;
  all.push_back(std::make_unique<Held>());
  Held& layer = *all.back();
  layer.weight = {weight.detach().requires_grad_(true), bound ? at::zeros(weight.sizes(), weight.options()) : at::Tensor()};
  layer.weight.split = std::move(split);
  layer.norm.value = at::ones({weight.size(-1)}, weight.options()).requires_grad_(true);
  return layer;
}

BatchNormState state_of(const at::Tensor& x) {
  const int64_t channels = x.size(1);
  return {fixed({channels}, x), fixed({channels}, x), at::zeros({channels}, x.options()), at::ones({channels}, x.options())};
}

at::Tensor batch_norm_formula(const at::Tensor& x) {
  const BatchNormState state = state_of(x);
  return at::batch_norm(x, state.weight, state.bias, state.running_mean, state.running_var, true, 0.1, 1e-5, false);
}

at::Tensor last_channels(const at::Tensor& x) { return x.contiguous(at::MemoryFormat::ChannelsLast); }

at::Tensor drop_formula(const at::Tensor& x) {
  const at::Tensor kept = dropout(at::ones(x.sizes()), 0.5, {1, 2}, 0);
  return x.square().mul(kept.to(x.scalar_type()));
}

std::vector<Operation> kernels() {
  const auto cube = [](const at::Tensor& x) { return x.mul(x).mul(x); };
  return {{"gelu", {3, 8}, [](const at::Tensor& x) { return weft::gelu(x); }, "gelu"},
          {"swiglu", {3, 8}, [](const at::Tensor& x) { return swiglu(x, x); }, "swiglu"},
          {"layer norm",
           {3, 8},
           [](const at::Tensor& x) {
             return normalise(x, {fixed({8}, x), fixed({8}, x)});
           },
           "norm"},
          {"rms norm", {3, 8}, [](const at::Tensor& x) { return normalise(x, {fixed({8}, x)}); }, "norm"},
          {"rotate",
           {1, 4, 24},
           [](const at::Tensor& x) { return rotate(heads(x), rotation_at(at::arange(4, at::kLong), 8, 1e4, at::kFloat)); },
           "rotary embedding"},
          {"attention", {1, 4, 24}, [](const at::Tensor& x) { return attention(x, 1); }, "attention"},
          {"attention planned for a GPU",
           {1, 4, 24},
           [](const at::Tensor& x) {
             const TargetScope scope(TargetDevice::gpu);
             const at::Tensor planned = heads(x.to(at::kMeta));
             return fused_attention(planned, planned, planned);
           },
           "attention"},
          {"grouped attention",
           {1, 4, 24},
           [](const at::Tensor& x) { return attention(heads(x), heads(x), heads(x)); },
           "attention"},
          {"documents",
           {1, 4, 24},
           [](const at::Tensor& x) { return document_attention(x, 1, kRuns); },
           "attention within documents"},
          {"grouped documents",
           {1, 4, 24},
           [](const at::Tensor& x) { return document_attention(heads(x), heads(x), heads(x), kRuns); },
           "attention within documents"},
          {"ring",
           {1, 4, 24},
           [](const at::Tensor& x) { return ring_attention(heads(x), heads(x), heads(x), {}, "h"); },
           "ring attention \"h\""},
          {"all to all",
           {1, 4, 24},
           [](const at::Tensor& x) { return all_to_all_attention(heads(x), heads(x), heads(x), {}, "h"); },
           "all-to-all attention \"h\""},
          {"recompute", {3, 8}, [cube](const at::Tensor& x) { return recompute(cube, x); }, "recompute"},
          {"class loss", {3, 5}, [](const at::Tensor& x) { return class_loss(x, at::arange(3, at::kLong), -100); }, "loss"},
          {"class loss on a device",
           {3, 5},
           [](const at::Tensor& x) {
             const ForcedOperators forced;
             return class_loss(x, at::arange(3, at::kLong), -100);
           },
           "loss"},
          {"vocabulary loss",
           {3, 4},
           [](const at::Tensor& x) { return vocabulary_cross_entropy(8)({x}, at::arange(3, at::kLong), kTwoRanks).sum; },
           "loss"},
          {"channels last",
           {2, 3, 4, 4},
           [](const at::Tensor& x) { return batch_norm(last_channels(x), state_of(x), {}); },
           "batch norm"},
          {"channels last, relu",
           {2, 3, 4, 4},
           [](const at::Tensor& x) { return batch_norm_relu(last_channels(x), state_of(x), {}, last_channels(x)); },
           "batch norm"},
          {"pieces",
           {2, 3},
           [](const at::Tensor& x) {
             return batch_norm(x, state_of(x), {.batch = recorded_group("batch", 2, std::make_shared<RecordedCalls>())});
           },
           "batch norm"}};
}

std::vector<Operation> layers() {
  const Split columns{.dim = 0, .segments = {8}, .parts = 2, .layer = "up"},
      rows{.dim = 1, .segments = {16}, .parts = 2, .layer = "down"};
  const Split pieces{.dim = 0, .segments = {8}, .pieces = 2, .layer = "wide"};
  const auto weight = [](const at::Tensor& x) { return fixed({4, x.size(-1)}, x); };
  return {{"linear",
           {2, 3, 8},
           [=](const at::Tensor& x) { return linear(x, held(weight(x), true).weight, nullptr); },
           "linear layer"},
          {"by columns",
           {2, 3, 8},
           [=](const at::Tensor& x) { return linear(x, held(weight(x), true, columns).weight, nullptr, kTwoRanks); },
           "linear layer"},
          {"by rows",
           {2, 3, 8},
           [=](const at::Tensor& x) { return linear(x, held(weight(x), true, rows).weight, nullptr, kTwoRanks); },
           "linear layer"},
          {"behind a norm",
           {2, 3, 8},
           [=](const at::Tensor& x) {
             Held& layer = held(weight(x), true);
             return normed_linear(x, {}, {&layer.norm, nullptr, 1e-5}, {{&layer.weight, nullptr}}, {}).outputs[0];
           },
           "linear layers behind a norm"},
          {"in pieces",
           {2, 4, 8},
           [=](const at::Tensor& x) {
             return columns_of_pieces(x, held(fixed({2, 4, 8}, x), true, pieces).weight, nullptr, {.training = false});
           },
           "layer in pieces"},
          {"bound convolution",
           {2, 3, 4, 4},
           [](const at::Tensor& x) {
             return convolution(x, held(fixed({2, 3, 3, 3}, x), true).weight, nullptr);
           },
           "convolution"},
          {"unbound by columns",
           {2, 3, 8},
           [=](const at::Tensor& x) { return linear(x, held(weight(x), false, columns).weight, nullptr, kTwoRanks); },
           "input of up"},
          {"copy_to", {2, 4}, [](const at::Tensor& x) { return copy_to(x.square(), kTwoRanks.tp, "c"); }, "c"},
          {"sum_over", {2, 4}, [](const at::Tensor& x) { return sum_over(x.square(), kTwoRanks.tp, "c"); }, "c"},
          {"gather_over", {2, 4}, [](const at::Tensor& x) { return gather_over(x.square(), 1, kTwoRanks.tp, "c"); }, "c"},
          {"sum_scatter", {2, 4}, [](const at::Tensor& x) { return sum_scatter(x.square(), 1, kTwoRanks.tp, "c"); }, "c"},
          {"own_part", {2, 4}, [](const at::Tensor& x) { return own_part(x.square(), 1, kTwoRanks.tp, "c"); }, "c"},
          {"join_over", {2, 4}, [](const at::Tensor& x) { return join_over(x.square(), 1, kTwoRanks.tp, "c"); }, "c"}};
}

/// Compositions of LibTorch's operators, which have second derivatives.
std::vector<Operation> plain() {
  const auto square = [](const at::Tensor& x) { return x.square().view({1, 3, 4, 2}); };
  const at::Tensor target = at::arange(3, at::kLong);
  const auto conv = [](const at::Tensor& x) { return at::conv2d(x, fixed({2, 3, 3, 3}, x), {}, 1, 1).square(); };
  const auto group = [](const at::Tensor& x) { return at::group_norm(x, 2, fixed({4}, x), fixed({4}, x)); };
  const auto smoothed = [target](const at::Tensor& x) {
    return at::cross_entropy_loss(x, target, {}, at::Reduction::Sum, -100, 0.1);
  };
  return {{"unbound linear",
           {2, 8},
           [](const at::Tensor& x) {
             return linear(x, held(fixed({4, 8}, x), false).weight, nullptr).square();
           },
           {},
           [](const at::Tensor& x) {
             return at::linear(x, fixed({4, 8}, x)).square();
           }},
          {"unbound convolution",
           {2, 3, 4, 4},
           [](const at::Tensor& x) {
             return convolution(x, held(fixed({2, 3, 3, 3}, x), false).weight, nullptr).square();
           },
           {},
           conv},
          {"dropout of a device",
           {4, 8},
           [](const at::Tensor& x) {
             const ForcedOperators forced;
             return dropout(x, 0.5, random_key(1, "dropout"), 0).pow(3);
           },
           {},
           [](const at::Tensor& x) { return dropout(x, 0.5, random_key(1, "dropout"), 0).pow(3); }},
          {"batch norm by operators",
           {6, 3},
           [](const at::Tensor& x) { return batch_norm(x, state_of(x), {}).square(); },
           {},
           [](const at::Tensor& x) { return batch_norm_formula(x).square(); }},
          {"batch norm, relu",
           {6, 3},
           [](const at::Tensor& x) { return batch_norm_relu(x, state_of(x), {}, x.square()); },
           {},
           [](const at::Tensor& x) { return batch_norm_formula(x).add(x.square()).relu(); }},
          {"group norm",
           {2, 4, 3, 3},
           [](const at::Tensor& x) {
             GroupNorm norm(4, 2);
             norm.weight.value = norm.bias.value = fixed({4}, x);
             return norm(x);
           },
           {},
           group},
          {"dropout",
           {5, 7},
           [](const at::Tensor& x) {
             return dropout(x.square(), 0.5, {1, 2}, 0);
           },
           {},
           drop_formula},
          {"embedding",
           {5, 3},
           [](const at::Tensor& x) {
             Embedding layer(5, 3, 1.0);
             layer.weight.value = x;
             return layer(at::arange(4, at::kLong)).square();
           },
           {},
           [](const at::Tensor& x) { return at::embedding(x, at::arange(4, at::kLong)).square(); }},
          {"repeated heads",
           {24},
           [square](const at::Tensor& x) { return repeat_heads(square(x), 2); },
           {},
           [square](const at::Tensor& x) { return square(x).repeat_interleave(2, 1); }},
          {"shards",
           {8, 2},
           [](const at::Tensor& x) { return take_shards(x.square(), 0, zigzag(8, 2, 1)); },
           {},
           [](const at::Tensor& x) { return x.square().narrow(0, 2, 4); }},
          {"smoothed loss",
           {3, 5},
           [target](const at::Tensor& x) { return smoothed_cross_entropy(0.1)({x}, target).sum; },
           {},
           smoothed},
          {"loss of shares",
           {3, 5},
           [](const at::Tensor& x) {
             return cross_entropy({x}, fixed({3, 5}, x).softmax(-1)).sum;
           },
           {},
           [](const at::Tensor& x) {
             return at::cross_entropy_loss(x, fixed({3, 5}, x).softmax(-1), {}, at::Reduction::Sum);
           }},
          {"a group of one",
           {2, 4},
           [](const at::Tensor& x) { return sum_over(copy_to(x.square(), {}, "c"), {}, "c"); },
           {},
           [](const at::Tensor& x) { return x.square(); }}};
}

/// The gradient of the weighted sum of the gradient.
at::Tensor second_derivative(const Function& function, const at::Tensor& x) {
  const auto weighed = [](const at::Tensor& y) { return y.mul(fixed(y.sizes(), y)).sum(); };
  const at::Tensor first = torch::autograd::grad({weighed(function(x))}, {x}, {}, std::nullopt, /*create_graph=*/true)[0];
  if (!first.requires_grad()) return at::zeros(x.sizes(), x.options());
  return torch::autograd::grad({weighed(first)}, {x}, {}, std::nullopt, false, /*allow_unused=*/true)[0];
}

at::Tensor leaf(const Operation& operation, at::ScalarType type) {
  at::manual_seed(3);
  return at::randn(operation.sizes, at::kDouble).to(type).requires_grad_(true);
}

class SecondOrder : public ::testing::TestWithParam<Operation> {};

TEST_P(SecondOrder, IsRefusedByNameOrRight) {
  const Operation& operation = GetParam();
  if (!operation.refused.empty()) {
    const std::string text = test::refusal([&] { second_derivative(operation.ours, leaf(operation, at::kFloat)); });
    EXPECT_EQ(text.rfind(operation.refused, 0), 0U) << text;
    EXPECT_NE(text.find("differentiable once only; run backward without create_graph"), std::string::npos) << text;
    return;
  }
  const at::Tensor ours = second_derivative(operation.ours, leaf(operation, at::kFloat)).to(at::kDouble);
  const at::Tensor theirs =
      second_derivative(operation.theirs, leaf(operation, at::kFloat).detach().to(at::kDouble).requires_grad_(true));
  EXPECT_GT(theirs.abs().max().item<double>(), 0.0);
  EXPECT_LT(ours.sub(theirs).abs().max().item<double>(), 1e-3 * theirs.abs().max().item<double>());
}

const auto kNames = [](const ::testing::TestParamInfo<Operation>& info) {
  std::string name = info.param.name;
  for (char& c : name) c = isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  return name;
};
INSTANTIATE_TEST_SUITE_P(Kernels, SecondOrder, ::testing::ValuesIn(kernels()), kNames);
INSTANTIATE_TEST_SUITE_P(Layers, SecondOrder, ::testing::ValuesIn(layers()), kNames);
INSTANTIATE_TEST_SUITE_P(Plain, SecondOrder, ::testing::ValuesIn(plain()), kNames);

/// Names of weft's functions in the graph.
void collect(const std::shared_ptr<torch::autograd::Node>& node, std::set<std::string>& names) {
  if (!node) return;
  static const std::regex ours(R"(.*::(\w+)>$)");
  const std::string name = node->name();
  std::smatch found;
  if (name.find("CppNode") != std::string::npos && std::regex_match(name, found, ours)) names.insert(found[1]);
  for (const torch::autograd::Edge& edge : node->next_edges()) collect(edge.function, names);
}

TEST(SecondOrderTable, HasEveryFunctionOfAutograd) {
  std::set<std::string> met;
  for (const auto& operations : {kernels(), layers(), plain()}) {
    for (const Operation& operation : operations) collect(operation.ours(leaf(operation, at::kFloat)).grad_fn(), met);
  }
  static const std::regex definition(R"(.*: (?:public )?torch::autograd::Function<(\w+)>.*)");
  size_t defined = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(std::string(WEFT_SOURCE) + "/weft")) {
    if (entry.path().extension() != ".cpp" && entry.path().extension() != ".h") continue;
    std::ifstream file(entry.path());
    std::smatch found;
    for (std::string line; std::getline(file, line);) {
      if (line.find("autograd::Function<") == std::string::npos || !std::regex_match(line, found, definition)) continue;
      ++defined;
      EXPECT_TRUE(met.contains(found[1])) << found[1] << " of " << entry.path() << " is in no row of this table";
    }
  }
  EXPECT_GE(defined, 18U);
}

}  // namespace
}  // namespace weft::second_order_test
