// Bytes that a rank sends inside a layer of gpt and of llama, forward, backward and in both parts of a split backward: explicit
// formulas against recordings on the meta device and counts of real groups.
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <numeric>

#include "tests/support/run_ranks.h"
#include "weft/comm/mesh.h"
#include "weft/models/gpt.h"
#include "weft/models/llama.h"
#include "weft/nn/attention/over_ranks.h"
#include "weft/nn/cost/measure_cost.h"
#include "weft/nn/deferred_gradients.h"
#include "weft/nn/flat/flat_model.h"
#include "weft/nn/graph.h"
#include "weft/nn/tensor_parallel/apply_splits.h"

namespace weft::layer_traffic_test {
namespace {

constexpr int64_t kBatch = 3, kTokens = 16, kWidth = 32, kHeads = 8, kKvHeads = 4, kFloat = 4;

struct Layer {
  const char* name;
  Model (*make)();
  int64_t kv_heads;
  int64_t norm_numel, row_bias_numel;  ///< parameters that every rank has whole: before a split layer, and after one
};

const Layer kGpt = {"gpt",
                    [] { return gpt({.layers = 1, .heads = kHeads, .width = kWidth, .context = kTokens, .vocabulary = 13}); },
                    kHeads, 4 * kWidth, 2 * kWidth};
const Layer kLlama = {"llama",
                      [] {
                        return llama({.layers = 1,
                                      .heads = kHeads,
                                      .kv_heads = kKvHeads,
                                      .width = kWidth,
                                      .ffn = 48,
                                      .context = kTokens,
                                      .vocabulary = 13});
                      },
                      kKvHeads, 2 * kWidth, 0};

struct Case {
  const char* name;
  const Layer* layer;
  int tp = 1, cp = 1;
  bool sequence_parallel = false, recompute = false;
  ContextMethod attention = ContextMethod::ring;
  int chunks = 1;
};

std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.name; }

constexpr auto kRing = ContextMethod::ring, kAllToAll = ContextMethod::all_to_all;

std::vector<Case> cases() {
  return {
      {.name = "gpt_alone", .layer = &kGpt},
      {.name = "gpt_tp2", .layer = &kGpt, .tp = 2},
      {.name = "gpt_tp4", .layer = &kGpt, .tp = 4},
      {.name = "gpt_tp2_sequence", .layer = &kGpt, .tp = 2, .sequence_parallel = true},
      {.name = "gpt_tp4_sequence", .layer = &kGpt, .tp = 4, .sequence_parallel = true},
      {.name = "gpt_tp2_recompute", .layer = &kGpt, .tp = 2, .recompute = true},
      {.name = "gpt_tp2_sequence_recompute", .layer = &kGpt, .tp = 2, .sequence_parallel = true, .recompute = true},
      {.name = "gpt_cp2_ring", .layer = &kGpt, .cp = 2},
      {.name = "gpt_cp2_all_to_all", .layer = &kGpt, .cp = 2, .attention = kAllToAll},
      {.name = "gpt_cp2_tp2_sequence_ring", .layer = &kGpt, .tp = 2, .cp = 2, .sequence_parallel = true},
      {.name = "llama_tp2", .layer = &kLlama, .tp = 2},
      {.name = "llama_tp4", .layer = &kLlama, .tp = 4},
      {.name = "llama_tp2_sequence", .layer = &kLlama, .tp = 2, .sequence_parallel = true},
      {.name = "llama_tp4_sequence", .layer = &kLlama, .tp = 4, .sequence_parallel = true},
      {.name = "gpt_tp2_chunks", .layer = &kGpt, .tp = 2, .chunks = 3},
      {.name = "llama_tp2_sequence_chunks", .layer = &kLlama, .tp = 2, .sequence_parallel = true, .chunks = 3},
      {.name = "llama_cp2_ring", .layer = &kLlama, .cp = 2},
      {.name = "llama_cp2_all_to_all", .layer = &kLlama, .cp = 2, .attention = kAllToAll},
      {.name = "llama_cp4_ring", .layer = &kLlama, .cp = 4},
      {.name = "llama_cp2_tp2_all_to_all", .layer = &kLlama, .tp = 2, .cp = 2, .attention = kAllToAll},
  };
}

/// Bytes on tp and on cp.
struct Bytes {
  int64_t tp = 0, cp = 0;
  bool operator==(const Bytes&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Bytes& b) { return out << b.tp << " on tp, " << b.cp << " on cp"; }

struct Passes {
  Bytes forward, backward, input, weight;
};

/// An all-reduce sends 2 (n-1)/n b, an all-gather or a reduce-scatter (n-1)/n b, for b bytes of the whole.
int64_t half(const Case& c, int64_t bytes) { return bytes / c.tp * (c.tp - 1); }

int64_t tokens_here(const Case& c) { return kTokens / c.cp; }

/// n ranks of cp, P = batch x own tokens x head width elements per head, E bytes each; this rank's heads. Ring, forward: (n-1)
/// 2 kv P E; backward: (n-1) 2 kv P (E + 4). All to all, both: (n-1)/n (2 heads + 2 kv repeats) P E.
int64_t attention_bytes(const Case& c, bool backward) {
  const int64_t n = c.cp, heads = kHeads / c.tp, kv = c.layer->kv_heads / c.tp;
  const int64_t bytes = kBatch * tokens_here(c) * (kWidth / kHeads) * kFloat;
  if (c.attention == kRing) return (n - 1) * 2 * kv * bytes * (backward ? 2 : 1);
  return (n - 1) * (2 * heads + 2 * kv * (n / std::gcd(n, kv))) * bytes / n;
}

/// Two regions per layer, attention and MLP: rows go into layers by columns, sums come out of layers by rows.
Passes formulas(const Case& c) {
  const int64_t half_activation = half(c, kBatch * tokens_here(c) * kWidth * kFloat);
  Passes p;
  if (!c.sequence_parallel) {
    p.forward.tp = 2 * 2 * half_activation;  // the two sums
    p.input.tp = 2 * 2 * half_activation;    // input gradients, once for all layers that share the input
    if (c.recompute) p.input.tp += 2 * half_activation;
  } else {
    const int64_t whole = half(c, (c.layer->norm_numel + c.layer->row_bias_numel) * kFloat);
    p.forward.tp = (2 + 2) * half_activation;            // rows gathered, sums scattered
    p.input.tp = (2 + 2) * half_activation + 2 * whole;  // the reverse; gradients of whole parameters
    p.weight.tp = 2 * half_activation;                   // the rows again
    if (c.recompute) p.input.tp += 2 * half_activation;
  }
  p.forward.cp = attention_bytes(c, false);
  p.input.cp = attention_bytes(c, true);
  p.backward = {p.input.tp + p.weight.tp, p.input.cp + p.weight.cp};
  return p;
}

Bytes bytes_of(const std::vector<RecordedCall>& calls) {
  Bytes sum;
  for (const RecordedCall& call : calls) (call.group == "tp" ? sum.tp : sum.cp) += call.wire_bytes;
  return sum;
}

class LayerTrafficTest : public ::testing::TestWithParam<Case> {};

BlockLayout block_layout(const Case& c) {
  return {.recompute_parts = c.recompute,
          .sequence_parallel = c.sequence_parallel,
          .tp_chunks = c.chunks,
          .attention_over = c.attention};
}

TEST_P(LayerTrafficTest, RecordedIsAsTheFormulasSay) {
  const Case& c = GetParam();
  Model model = c.layer->make();
  split_layers(model, c.tp, 0);
  const at::Tensor ids = at::empty({kBatch, tokens_here(c)}, at::TensorOptions(at::kLong).device(at::kMeta));
  const BlockTraffic traffic = measure_cost(model, {ids}, {.tp = c.tp, .cp = c.cp, .layout = block_layout(c)})[1].traffic;
  const Passes expected = formulas(c);
  EXPECT_EQ(bytes_of(traffic.forward), expected.forward);
  EXPECT_EQ(bytes_of(traffic.backward), expected.backward);
  EXPECT_EQ(bytes_of(traffic.input), expected.input);
  EXPECT_EQ(bytes_of(traffic.weight), expected.weight);
}

/// Bytes that this rank sent since the last call.
class Counter {
 public:
  explicit Counter(const Context& context) : context_(context) { take(); }
  Bytes take() {
    const Bytes now = {context_.tp.traffic().bytes, context_.cp.traffic().bytes};
    const Bytes since = {now.tp - before_.tp, now.cp - before_.cp};
    before_ = now;
    return since;
  }

 private:
  const Context& context_;
  Bytes before_;
};

TEST_P(LayerTrafficTest, RealGroupsCountTheSame) {
  const Case& c = GetParam();
  test::run_ranks(c.tp * c.cp, [&](World world) {
    const Mesh mesh(world, {{"cp", c.cp}, {"tp", c.tp}});
    Context context{.layout = block_layout(c)};
    context.tp = mesh.group(mesh.axis("tp"));
    context.cp = mesh.group(mesh.axis("cp"));
    Model model = c.layer->make();
    split_layers(model, c.tp, mesh.coordinate("tp"));
    FlatModel flat(std::move(model), {});
    const int64_t tokens = tokens_here(c) / (c.sequence_parallel ? c.tp : 1);
    const Passes expected = formulas(c);
    Counter counter(context);
    for (const bool split : {false, true}) {
      const at::Tensor x = at::ones({kBatch, tokens, kWidth}).requires_grad_(true);
      const Tensors out = flat.block(1).forward({x}, context);
      EXPECT_EQ(counter.take(), expected.forward);
      const Tensors gradients = {at::ones(out[0].sizes())};
      if (!split) {
        run_backward(out, gradients);
        EXPECT_EQ(counter.take(), expected.backward);
        continue;
      }
      DeferredGradients deferred = run_backward_input(flat.trained(1), out, gradients);
      EXPECT_EQ(counter.take(), expected.input);
      deferred.run();
      EXPECT_EQ(counter.take(), expected.weight);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Table, LayerTrafficTest, ::testing::ValuesIn(cases()),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace weft::layer_traffic_test
