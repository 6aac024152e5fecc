// Attention over sequence shards against attention on one device over the whole sequence: values, gradients, bytes on the wire,
// and refusals.
#include "weft/nn/attention/over_ranks.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <atomic>

#include "tests/nn/bound_layer.h"
#include "tests/nn/relative_error.h"
#include "tests/support/refusal.h"
#include "tests/support/run_ranks.h"
#include "tests/support/seeds.h"
#include "weft/comm/call/backend.h"
#include "weft/comm/mesh.h"
#include "weft/nn/cost/measure_cost.h"
#include "weft/nn/cost/meta_kernels.h"
#include "weft/nn/kernels/attention_kernels.h"
#include "weft/nn/layers/layers.h"
#include "weft/nn/loss/cross_entropy.h"
#include "weft/nn/sequence/zigzag.h"

namespace weft::over_ranks_test {
namespace {

using test::relative_error;
using test::run_ranks;

struct Form {
  const char* name;
  decltype(&ring_attention) attend;
  decltype(&ring_attention_bytes) bytes;
};
const Form kRing{"ring", ring_attention, ring_attention_bytes};
const Form kAllToAll{"all_to_all", all_to_all_attention, all_to_all_attention_bytes};

/// A whole attention: q, k, v, the gradient of its output, and one device's results in float64.
struct Whole {
  Whole(int64_t heads, int64_t kv_heads, int64_t tokens, at::ScalarType dtype) {
    const auto random = [&](int64_t h) { return at::randn({2, h, tokens, 8}).to(dtype); };
    in = {random(heads), random(kv_heads), random(kv_heads)};
    dout = random(heads);
    std::vector<at::Tensor> exact;
    for (const at::Tensor& x : in) exact.push_back(x.to(at::kDouble).requires_grad_(true));
    out = at::scaled_dot_product_attention(exact[0], exact[1], exact[2], {}, 0.0, /*is_causal=*/true, {}, /*enable_gqa=*/true);
    out.backward(dout.to(at::kDouble));
    for (const at::Tensor& x : exact) gradients.push_back(x.grad());
  }
  std::vector<at::Tensor> in;
  at::Tensor dout, out;
  std::vector<at::Tensor> gradients;
};

/// Small enough that no message fits the shared-memory ring: waits must move each one.
Group context_group(const World& world, BackendKind backend = BackendKind::shm) {
  const Mesh mesh(world, {{"cp", world.size()}});
  return mesh.group(mesh.axis("cp"), {.backend = backend, .timeout = std::chrono::seconds(20), .message_bytes = 4096});
}

/// Throws if this rank's part of a result is off, so that run_ranks names the rank.
void expect_close(const at::Tensor& own, const at::Tensor& whole, const std::vector<ShardRange>& ranges, double bound,
                  const std::string& name) {
  const double error = relative_error(own, take_shards(whole, 2, ranges));
  if (!(error < bound)) throw std::runtime_error(fmt::format("{} is off by {:.2e}", name, error));
}

void expect_bytes(const Group& cp, int64_t before, int64_t expected, const char* pass) {
  const int64_t sent = cp.traffic().bytes - before;
  if (sent != expected) throw std::runtime_error(fmt::format("{} sent {} bytes, not {}", pass, sent, expected));
}

struct Row {
  Form form;
  int ranks;
  int64_t heads, kv_heads;
  BackendKind backend = BackendKind::shm;
};

/// Forward and backward on one rank; the group handle is gone before backward runs.
void run_rank(const World& world, const Row& row, const Whole& whole, double bound) {
  const int64_t tokens = whole.out.size(2);
  const std::vector<ShardRange> ranges = zigzag(tokens, row.ranks, world.rank());
  std::vector<at::Tensor> own;
  for (const at::Tensor& x : whole.in) own.push_back(take_shards(x, 2, ranges).detach().clone().requires_grad_(true));
  const AttentionShape shape{.batch = 2,
                             .heads = row.heads,
                             .kv_heads = row.kv_heads,
                             .tokens = tokens / row.ranks,
                             .head_width = 8,
                             .element_bytes = own[0].element_size(),
                             .ranks = row.ranks};
  const Group cp = row.ranks == 1 ? Group() : context_group(world, row.backend);
  at::Tensor out = row.form.attend(own[0], own[1], own[2], cp, "layer 3");
  EXPECT_EQ(out.scalar_type(), own[0].scalar_type());
  expect_close(out, whole.out, ranges, bound, "output");
  const int64_t forward = row.form.bytes(shape, AttentionPass::forward);
  expect_bytes(cp, 0, forward, "forward");
  out.backward(take_shards(whole.dout, 2, ranges));
  expect_bytes(cp, forward, row.form.bytes(shape, AttentionPass::backward), "backward");
  const char* const names[] = {"gradient of q", "gradient of k", "gradient of v"};
  for (size_t i = 0; i < 3; ++i) expect_close(own[i].grad(), whole.gradients[i], ranges, bound, names[i]);
}

class ContextAttention : public testing::TestWithParam<Row> {};

TEST_P(ContextAttention, EqualsOneDeviceAndSendsWhatItSays) {
  const Row& row = GetParam();
  for (const unsigned seed : test::seeds(3)) {
    SCOPED_TRACE(test::replay(seed));
    at::manual_seed(seed);
    test::Random random(seed);
    const Whole whole(row.heads, row.kv_heads, 2 * row.ranks * (1 + random.below(20)), at::kFloat);
    EXPECT_NO_THROW(run_ranks(row.ranks, [&](const World& world) { run_rank(world, row, whole, 1e-5); }));
  }
}

std::string name_of(const testing::TestParamInfo<Row>& info) {
  const Row& row = info.param;
  return fmt::format("{}_{}_ranks_{}_heads_{}_kv{}", row.form.name, row.ranks, row.heads, row.kv_heads,
                     row.backend == BackendKind::gloo ? "_gloo" : "");
}

INSTANTIATE_TEST_SUITE_P(Table, ContextAttention,
                         testing::Values(Row{kRing, 1, 4, 4}, Row{kRing, 2, 4, 4}, Row{kRing, 4, 4, 4},  // as many kv heads
                                         Row{kRing, 1, 6, 2}, Row{kRing, 2, 6, 2}, Row{kRing, 4, 6, 2},  // grouped
                                         Row{kRing, 2, 3, 1}, Row{kRing, 4, 3, 1}, Row{kRing, 3, 4, 2},  // one for all; odd
                                         Row{kRing, 2, 4, 2, BackendKind::gloo}, Row{kRing, 4, 4, 2, BackendKind::gloo},
                                         Row{kAllToAll, 1, 4, 4}, Row{kAllToAll, 2, 4, 4}, Row{kAllToAll, 4, 4, 4},
                                         Row{kAllToAll, 1, 8, 4}, Row{kAllToAll, 2, 8, 4}, Row{kAllToAll, 4, 8, 4},
                                         Row{kAllToAll, 2, 6, 1}, Row{kAllToAll, 4, 8, 2},
                                         Row{kAllToAll, 4, 12, 6},  // repeated
                                         Row{kAllToAll, 3, 6, 2}, Row{kAllToAll, 4, 4, 1, BackendKind::gloo}),
                         name_of);

// One kernel over the whole has half the error, as it also rounds its output. Gradients travel in float32, as the bytes show.
TEST(ContextAttentionTypes, Bfloat16IsJoinedInFloat32) {
  at::manual_seed(1);
  const Whole whole(4, 2, 64, at::kBFloat16);
  for (const Form& form : {kRing, kAllToAll}) {
    for (const int ranks : {1, 2, 4}) {
      SCOPED_TRACE(fmt::format("{} on {}", form.name, ranks));
      EXPECT_NO_THROW(run_ranks(ranks, [&](const World& world) { run_rank(world, {form, ranks, 4, 2}, whole, 1e-2); }));
    }
  }
}

/// Moves no data: one rank's view of a group, for the meta device.
class Recorder : public Backend {
 public:
  Recorder(int ranks, int rank) : Backend({"cp", std::vector<int>(ranks), rank}) {}
  std::string_view kind() const override { return "recorder"; }
  Work all_reduce(const at::Tensor&, ReduceOp, std::string_view) override { return {}; }
  Work reduce_scatter(const at::Tensor&, const at::Tensor&, ReduceOp, std::string_view) override { return {}; }
  Work all_gather(const at::Tensor&, const at::Tensor&, std::string_view) override { return {}; }
  Work broadcast(const at::Tensor&, int, std::string_view) override { return {}; }
  Work all_to_all(const at::Tensor&, const at::Tensor&, std::string_view) override { return {}; }
  Work send(const at::Tensor&, int, std::string_view) override { return {}; }
  Work receive(const at::Tensor&, int, std::string_view) override { return {}; }
  Work barrier(std::string_view) override { return {}; }
  at::Tensor allocate(int64_t, at::ScalarType, std::string_view) override { return {}; }
};

/// Memory as declared in the header, when q, k and v are `x`.
void expect_declared_memory(const MeasuredCost& cost, const Form& form, const at::Tensor& x, int ranks) {
  const int64_t narrow = x.numel() * x.element_size(), wide = x.numel() * 4, sums = wide / x.size(3);
  const bool ring = form.attend == ring_attention;
  EXPECT_EQ(cost.saved_bytes, sums + (ring || ranks == 1 ? 0 : 4 * narrow));
  const int64_t output = narrow, with_gradients = 6 * narrow;  // output, its gradient, those of q, k and v, and their sum
  const int64_t forward = ranks == 1 ? 0 : ring ? 4 * narrow + 2 * wide : 6 * narrow;
  const int64_t backward = ranks == 1 ? 0 : ring ? 4 * narrow + 7 * wide + 3 * narrow : 9 * narrow;
  const auto scratch = [&](bool is_backward) {
    const int64_t keys = x.size(2) * (ring ? 1 : ranks);
    return attention_scratch({.keys = keys, .width = x.size(3)}, is_backward) * static_cast<int64_t>(sizeof(float));
  };
  EXPECT_LE(cost.forward_peak_bytes, output + cost.saved_bytes + forward + 2 * sums + scratch(false));
  EXPECT_LE(cost.backward_peak_bytes, with_gradients + cost.saved_bytes + backward + 2 * sums + scratch(true));
}

// Keys that no query sees are skipped: each rank computes the same, a little over half of the work with all keys.
TEST(ContextAttentionOnMeta, CostsAreMeasuredWithoutDataOrPeers) {
  const int64_t batch = 3, heads = 8, tokens = 32, width = 16;
  const at::Tensor x = at::empty({batch, heads, tokens, width}, at::TensorOptions(at::kBFloat16).device(at::kMeta));
  for (const Form& form : {kRing, kAllToAll}) {
    for (const int ranks : {1, 2, 4}) {
      for (int rank = 0; rank < ranks; ++rank) {
        SCOPED_TRACE(fmt::format("{}, rank {} of {}", form.name, rank, ranks));
        const Group cp(std::make_shared<Recorder>(ranks, rank));
        Model model{.name = "test", .blocks = {}, .loss = cross_entropy, .hits = {}};
        Linear linear(width, width);
        std::vector<ParamSpec> specs;
        linear.describe(specs, "linear");
        const auto add = [&](FunctionBlock::Forward forward, std::vector<ParamSpec> of_block) {
          model.blocks.push_back({"block", "block", std::make_shared<FunctionBlock>(std::move(forward), std::move(of_block))});
        };
        add([&](const Tensors& in, const Context&) -> Tensors { return {linear(in[0])}; }, specs);
        add([&](const Tensors& in, const Context&) -> Tensors { return {form.attend(in[0], in[0], in[0], cp, "layer")}; }, {});
        const MeasuredCost cost = measure_cost(model, {x}, {.weight_dtype = at::kBFloat16})[1];
        const double all_tokens = form.attend == ring_attention ? tokens * (ranks + 1) / 2.0 : tokens * ranks;
        EXPECT_DOUBLE_EQ(cost.forward_flops, 4.0 * batch * heads * tokens * width * all_tokens);
        EXPECT_DOUBLE_EQ(cost.backward_flops, 2.5 * cost.forward_flops);
        EXPECT_EQ(cost.output_bytes, x.numel() * 2);
        expect_declared_memory(cost, form, x, ranks);
        const AttentionShape shape{.batch = batch,
                                   .heads = heads,
                                   .kv_heads = heads,
                                   .tokens = tokens,
                                   .head_width = width,
                                   .element_bytes = 2,
                                   .ranks = ranks};
        const int64_t bytes = form.bytes(shape, AttentionPass::forward) + form.bytes(shape, AttentionPass::backward);
        EXPECT_EQ(cp.traffic().bytes, 2 * bytes) << "of a backward, and of one that adds to gradients";
      }
    }
  }
}

TEST(ContextAttentionMisuse, WhatDoesNotFitIsRefusedBeforeAnythingIsSent) {
  const auto ones = [](int64_t heads, int64_t tokens, at::ScalarType dtype = at::kFloat) {
    return at::ones({1, heads, tokens, 4}, dtype);
  };
  const Group two(std::make_shared<Recorder>(2, 0));
  const Group three(std::make_shared<Recorder>(3, 0));
  const struct {
    Form form;
    Group group;
    at::Tensor q, k, v;
    const char* text;
  } cases[] = {
      {kRing, two, ones(2, 5), ones(2, 5), ones(2, 5),
       "a sequence of 10 tokens cannot be cut into 4 equal chunks for 2 ranks; take 8 or 12"},
      {kAllToAll, two, ones(2, 5), ones(2, 5), ones(2, 5), "take 8 or 12"},
      {kRing, two, ones(4, 6), ones(3, 6), ones(3, 6),
       "q Float [1, 4, 6, 4], k Float [1, 3, 6, 4] and v Float [1, 3, 6, 4] do not fit"},
      {kRing, two, ones(4, 6), ones(4, 8), ones(4, 8), "do not fit"},
      {kRing, two, ones(4, 6), ones(2, 6), ones(4, 6), "do not fit"},
      {kAllToAll, two, ones(4, 6), ones(4, 6, at::kBFloat16), ones(4, 6), "do not fit"},
      {kRing, two, ones(4, 6)[0], ones(4, 6), ones(4, 6), "do not fit"},
      {kRing, two, ones(4, 6), {}, ones(4, 6), "must be defined"},
      {kAllToAll, three, ones(4, 6), ones(4, 6), ones(4, 6),
       "3 ranks cannot share 4 attention heads evenly; use 1, 2, 4 ranks (layout.cp), or "
       "layout.context_attention = \"ring\""},
  };
  for (const auto& c : cases) {
    const std::string text = test::refusal([&] { c.form.attend(c.q, c.k, c.v, c.group, "layer 3"); });
    EXPECT_NE(text.find(c.text), std::string::npos) << text;
    EXPECT_NE(text.find(R"("layer 3" on group "cp")"), std::string::npos) << text;
  }
  EXPECT_EQ(two.traffic().calls + three.traffic().calls, 0);
}

TEST(ContextAttentionMisuse, ThereIsNoSecondDerivative) {
  for (const Form& form : {kRing, kAllToAll}) {
    const at::Tensor x = at::randn({1, 2, 4, 8}).requires_grad_(true);
    const at::Tensor out = form.attend(x, x, x, Group(), "layer 3");
    const std::string text =
        test::refusal([&] { torch::autograd::grad({out.sum()}, {x}, {}, std::nullopt, /*create_graph=*/true); });
    EXPECT_NE(text.find("differentiable once"), std::string::npos) << text;
  }
}

/// The last rank's mistake, and the error on the others.
struct Wrong {
  const char* name;
  std::function<void(const Form&, const at::Tensor&, const Group&)> last_rank;
  bool all_fail;  ///< including the last rank
};

// No rank waits for one that has left or makes a different call, in forward or in backward.
TEST(ContextAttentionMisuse, NobodyHangsOnAPeerThatFails) {
  const auto attend = [](const Form& form, const at::Tensor& x, const Group& cp) {
    return form.attend(x, x, x, cp, "layer 3");
  };
  const Wrong wrongs[] = {
      {"leaves", [](const Form&, const at::Tensor&, const Group&) { throw NumericError("out of patience"); }, true},
      {"leaves after forward",
       [&](const Form& form, const at::Tensor& x, const Group& cp) {
         attend(form, x, cp);
         throw NumericError("out of patience");
       },
       true},
      {"has a longer sequence",
       [&](const Form& form, const at::Tensor&, const Group& cp) {
         attend(form, at::randn({1, 4, 40, 8}).requires_grad_(true), cp).sum().backward();
       },
       true},
  };
  for (const Form& form : {kRing, kAllToAll}) {
    for (const BackendKind backend : {BackendKind::shm, BackendKind::gloo}) {
      for (const Wrong& wrong : wrongs) {
        for (const int ranks : {2, 4}) {
          // Gloo searches for evidence for a second each time.
          if (backend == BackendKind::gloo && (ranks == 4 || form.attend != ring_attention)) continue;
          SCOPED_TRACE(fmt::format("{}, {} of {} {}", form.name, ranks - 1, ranks, wrong.name));
          std::atomic<int> errors{0};
          const auto begin = std::chrono::steady_clock::now();
          run_ranks(ranks, [&](const World& world) {
            const Group cp = context_group(world, backend);
            const at::Tensor x = at::randn({1, 4, 32, 8}).requires_grad_(true);
            try {
              world.rank() == ranks - 1 ? wrong.last_rank(form, x, cp) : attend(form, x, cp).sum().backward();
            } catch (const CommError&) {
              ++errors;
            } catch (const NumericError&) {
              ++errors;
            }
          });
          EXPECT_EQ(errors, ranks);
          EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
        }
      }
    }
  }
}

}  // namespace
}  // namespace weft::over_ranks_test
