// A split layer's communication overlaps its products: the operations at which calls begin and are awaited; and chunks give the
// same values as the whole.
#include "weft/nn/tensor_parallel/overlapped.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <exception>

#include "tests/nn/relative_error.h"
#include "tests/support/run_ranks.h"
#include "weft/comm/mesh.h"
#include "weft/models/gpt.h"
#include "weft/nn/cost/measure_cost.h"
#include "weft/nn/functional/matmul.h"
#include "weft/nn/tensor_parallel/apply_splits.h"

namespace weft::overlapped_test {
namespace {

constexpr int64_t kBatch = 2, kTokens = 8, kWidth = 32;

BlockTraffic traffic(CostOptions options) {
  Model model = gpt({.layers = 1, .heads = 4, .width = kWidth, .context = kTokens, .vocabulary = 13});
  options.tp = 2;
  split_layers(model, options.tp, 0);
  return measure_cost(model, {at::empty({kBatch, kTokens}, at::TensorOptions(at::kLong).device(at::kMeta))}, options)[1]
      .traffic;
}

/// Operations between the start of a call and its wait.
std::vector<double> beside(const std::vector<RecordedCall>& calls) {
  std::vector<double> result;
  for (const RecordedCall& call : calls) result.push_back(call.waited_at - call.begins_at);
  return result;
}

/// Operations of a product of all rows with a matrix of width x `columns`.
double flops(int64_t columns) { return 2.0 * kBatch * kTokens * kWidth * static_cast<double>(columns); }

// Each rank has 2 x width of the MLP's hidden elements, and queries, keys and values of half the heads.
constexpr int64_t kHidden = 2 * kWidth, kQkv = 3 * kWidth / 2, kHeads = kWidth / 2;

TEST(Travelling, GradientsOfInputsTravelBesideThoseOfWeights) {
  const BlockTraffic calls = traffic({});
  EXPECT_EQ(beside(calls.forward), (std::vector<double>{0, 0}));
  EXPECT_EQ(beside(calls.backward), (std::vector<double>{flops(kHidden), flops(kQkv)}));
  EXPECT_EQ(beside(calls.input), (std::vector<double>{0, 0})) << "the weights' gradients are deferred";
}

TEST(Travelling, TokensAreGatheredBesideTheGradientOfTheInput) {
  const std::vector<double> passes = beside(traffic({.layout = {.sequence_parallel = true}}).backward);
  const std::vector<double> mlp = {0, flops(kHidden), flops(kHidden)}, attention = {0, flops(kQkv), flops(kQkv)};
  ASSERT_GE(passes.size(), 6U);
  const auto has = [&](const std::vector<double>& part) {
    return std::search(passes.begin(), passes.end(), part.begin(), part.end()) != passes.end();
  };
  EXPECT_TRUE(has(mlp)) << "dy, x with dx, dx with dw";
  EXPECT_TRUE(has(attention));
}

TEST(Travelling, AChunkTravelsBesideTheNextOnes) {
  const auto chunks = [](double product) { return std::vector<double>{product * 3 / 4, product / 2, product / 4, 0}; };
  for (const bool sequence_parallel : {false, true}) {
    const std::vector<RecordedCall> calls =
        traffic({.layout = {.sequence_parallel = sequence_parallel, .tp_chunks = 4}}).forward;
    std::vector<double> sums = beside(calls);
    if (sequence_parallel) std::erase_if(sums, [i = 0](double) mutable { return i++ % 5 == 0; });  // gathers
    std::vector<double> expected = chunks(flops(kHeads));
    for (double mlp : chunks(flops(kHidden))) expected.push_back(mlp);
    EXPECT_EQ(sums, expected) << sequence_parallel;
  }
}

/// Sums over ranks of products of various sizes, in as many chunks as rows and in more.
TEST(Travelling, ChunksGiveWhatTheWholeGives) {
  test::run_ranks(2, [](World world) {
    const Mesh mesh(world, {{"tp", 2}});
    const Group group = mesh.group(mesh.axis("tp"));
    auto generator = at::detail::createCPUGenerator(static_cast<uint64_t>(world.rank()) + 1);
    for (const int64_t batch : {1, 3}) {
      const at::Tensor x = at::randn({batch, 10, 5}, generator), w = at::randn({5, 7}, generator);
      for (const bool to_tokens : {false, true}) {
        const auto sum = [&](int chunks) {
          const MultiplyRows rows = [&w](const std::vector<at::Tensor>& in, const at::Tensor& out) { multiply(out, in[0], w); };
          return begin_sum({x}, 7, rows, {group, to_tokens, chunks, "test"}).wait();
        };
        const at::Tensor whole = at::matmul(x, w);
        group.all_reduce(whole, ReduceOp::sum, "expected").wait();
        const at::Tensor expected = to_tokens ? whole.narrow(1, 5 * world.rank(), 5) : whole;
        for (const int chunks : {1, 2, 3, 5, 10, 100}) {
          EXPECT_EQ(sum(chunks).sizes(), expected.sizes());
          EXPECT_LE(test::relative_error(sum(chunks), expected), 1e-6) << batch << " x " << chunks << " " << to_tokens;
        }
      }
    }
  });
}

TEST(Travelling, TokensThatRanksDoNotDivideAreRefused) {
  test::run_ranks(2, [](World world) {
    const Mesh mesh(world, {{"tp", 2}});
    const Group group = mesh.group(mesh.axis("tp"));
    try {
      begin_sum({at::empty({1, 5, 2})}, 2, {}, {group, true, 1, "output of up"});
      ADD_FAILURE();
    } catch (const std::exception& error) {
      EXPECT_EQ(std::string(error.what()),
                "output of up: 5 positions along dim 1 do not divide over the 2 ranks of group \"tp\"; take a multiple");
    }
  });
}

}  // namespace
}  // namespace weft::overlapped_test
