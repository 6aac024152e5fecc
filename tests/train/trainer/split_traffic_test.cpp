// Bytes on the wire of a step with layers and sequences divided over ranks: the groups' counts while a Trainer runs equal the
// program's and, inside blocks, measure_cost()'s, instruction by instruction.
#include <ATen/ops/arange.h>
#include <ATen/ops/randint.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>
#include <tuple>

#include "tests/support/run_ranks.h"
#include "weft/nn/cost/measure_cost.h"
#include "weft/nn/tensor_parallel/apply_splits.h"
#include "weft/plan/make_plan.h"
#include "weft/program/cost.h"
#include "weft/recipe/build/build_model.h"
#include "weft/recipe/read/read_recipe.h"
#include "weft/train/trainer/trainer.h"

namespace weft::split_traffic_test {
namespace {

constexpr int64_t kTokens = 8, kGlobal = 8, kMicroBatch = 2;

struct Case {
  const char* name;
  int ranks;
  const char* layout;  ///< keys
  const char* clip = "0.0";
  const char* pack = "stream";
  int slots = 0;  ///< reproducible ones, with tied embeddings
};

std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.name; }

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"alone", 1, ""},
      {"tp2", 2, "tp = 2"},
      {"tp4_clip", 4, "tp = 4", "1.0"},
      {"tp2_sequence", 2, "tp = 2, sequence_parallel = true"},
      {"tp4_sequence_recompute", 4, R"(tp = 4, sequence_parallel = true, recompute = "blocks")"},
      {"tp2_sequence_attention_again", 2, R"(tp = 2, sequence_parallel = true, recompute = "attention")"},
      {"tp2_sequence_bf16", 2, R"(tp = 2, sequence_parallel = true, precision = "bf16")"},
      {"cp2_ring", 2, R"(cp = 2, context_attention = "ring")"},
      {"cp2_all_to_all", 2, R"(cp = 2, context_attention = "all_to_all")"},
      {"cp2_tp2_sequence", 4, R"(cp = 2, tp = 2, sequence_parallel = true, context_attention = "ring")"},
      {"zero3_tp2", 4, R"(tp = 2, shard_level = "parameters")"},
      {"zero2_cp2", 4, R"(cp = 2, shard_level = "gradients")"},
      {"pp2_documents", 2, "pp = 2", "0.0", "documents"},
      {"pp2_documents_interleaved_recompute", 2, R"(pp = 2, schedule = "interleaved", recompute = "blocks")", "0.0",
       "documents"},
      {"pp2_tp2_sequence_documents_zb_h1", 4, R"(pp = 2, tp = 2, sequence_parallel = true, schedule = "zb-h1")", "0.0",
       "documents"},
      {"master2", 2, R"(style = "master", recompute = "blocks")", "1.0"},
      {"master4_bf16", 4, R"(style = "master", precision = "bf16")"},
      {"naive2", 2, R"(style = "naive")"},
      {"pp2_tied_slots", 2, "pp = 2", "0.0", "stream", 2},
      {"pp2_tp2_zb_h1", 4, R"(pp = 2, tp = 2, sequence_parallel = true, schedule = "zb-h1")"},
  };
  return all;
}

Recipe recipe_of(const Case& c, const std::string& model) {
  const char* more = model == "llama" ? ", kv_heads = 4, ffn = 48" : ", dropout = 0.1";
  return parse_recipe(fmt::format(R"(
    model = {{ name = "{}", layers = 2, heads = 8, width = 32, context = {}, vocabulary = 257{}, tied_embeddings = {} }}
    data = {{ name = "text", path = "none.txt", pack = "{}" }}
    batch = {{ global = {}, micro = {} }}
    layout = {{ {} }}
    optimizer = {{ clip = {} }}
    run = {{ steps = 3, threads = 1, reproducible_slots = {} }}
    save = {{ folder = "votes travel with the losses" }}
  )",
                                  model, kTokens, more, c.slots > 0, c.pack, kGlobal, kMicroBatch, c.layout, c.clip, c.slots),
                      "split_traffic_test.toml");
}

/// Bytes sent by each block and the loss in a micro-batch, on rank 0 of tp and cp.
struct Recorded {
  std::vector<MeasuredCost> blocks;
  std::vector<RecordedCall> loss;
};

Recorded record(const Recipe& recipe, const ResolvedLayout& layout) {
  const bool narrow = layout.options.precision == Precision::bf16;
  const CostOptions options{.weight_dtype = narrow ? at::kBFloat16 : at::kFloat,
                            .gradient_dtype = narrow ? at::kBFloat16 : at::kFloat,
                            .tp = layout.tp,
                            .cp = layout.cp,
                            .layout = {.recompute_parts = layout.options.recompute_parts,
                                       .sequence_parallel = layout.options.sequence_parallel,
                                       .partial_gradients = layout.options.sequence_parallel && layout.tp > 1,
                                       .attention_over = layout.options.attention_over}};
  Model model = build_model(recipe.model);
  split_layers(model, layout.tp, 0);
  Tensors outputs;
  Recorded recorded;
  const MetaBatch batch = meta_batch(recipe, kMicroBatch, layout.cp);
  recorded.blocks = measure_cost(model, batch.inputs, options, &outputs);
  recorded.loss = measure_loss(model, outputs, batch.target, options).calls;
  return recorded;
}

int64_t bytes_of(const std::vector<RecordedCall>& calls) {
  int64_t bytes = 0;
  for (const RecordedCall& call : calls) bytes += call.wire_bytes;
  return bytes;
}

int64_t bytes_of(const InstructionList& list, const Recorded& recorded) {
  int64_t bytes = 0;
  for (const Instruction& x : list) {
    if (x.op == Op::loss) bytes += bytes_of(recorded.loss);
    if (x.op != Op::forward && !is_backward(x.op)) continue;
    const BlockTraffic& traffic = recorded.blocks[static_cast<size_t>(x.first)].traffic;
    bytes += bytes_of(x.op == Op::forward          ? traffic.forward
                      : x.op == Op::backward       ? traffic.backward
                      : x.op == Op::backward_input ? traffic.input
                                                   : traffic.weight);
  }
  return bytes;
}

/// Undeclared bytes of pipelines and a master: the shapes of each block's activation, and of inputs, once per step to each rank
/// (engine/transfers.cpp).
int64_t shape_bytes(const InstructionList& list) {
  std::set<std::tuple<int, Payload, int>> reported;
  for (const Instruction& x : list) {
    const bool has_shape = x.what == Payload::activation || x.what == Payload::batch;
    if (x.op == Op::send && has_shape) reported.insert({x.peer, x.what, x.first});
  }
  return static_cast<int64_t>(reported.size()) * 1024;
}

/// With positions of two documents per sample if packed.
Batch batch_of(int64_t samples, const Recipe& recipe) {
  const at::Tensor tokens = at::randint(256, {samples, kTokens + 1}, at::detail::createCPUGenerator(7), at::kLong);
  Batch batch{{tokens.narrow(1, 0, kTokens).contiguous()}, tokens.narrow(1, 1, kTokens).contiguous(), 0};
  if (recipe.data.pack == "documents") {
    batch.inputs.push_back(at::arange(kTokens, at::kLong).remainder(kTokens - 3).expand({samples, kTokens}).contiguous());
  }
  return batch;
}

class SplitTrafficTest : public ::testing::TestWithParam<std::tuple<Case, std::string>> {};

TEST_P(SplitTrafficTest, CountedIsAsDeclaredAndAsRecorded) {
  const Case& c = std::get<0>(GetParam());
  const Recipe recipe = recipe_of(c, std::get<1>(GetParam()));
  const Plan plan = make_plan(recipe, c.ranks);
  const ResolvedLayout& layout = plan.layout;
  const Recorded recorded = record(recipe, layout);
  test::run_ranks(c.ranks, [&](World world) {
    const Mesh mesh(world,
                    {{"pp", layout.pp}, {"dp", layout.dp}, {"shard", layout.shard}, {"cp", layout.cp}, {"tp", layout.tp}});
    Trainer trainer(mesh, build_model(recipe.model), AdamW{},
                    {.global_batch = kGlobal,
                     .micro_batch = kMicroBatch,
                     .clip = recipe.optimizer.clip,
                     .reproducible_slots = c.slots,
                     .layout = layout.options,
                     .program = plan.program,
                     .votes = {.count = layout.votes}});
    trainer.start();
    const auto sent = [&trainer] {
      int64_t bytes = 0;
      for (const Group& group : trainer.groups()) bytes += group.traffic().bytes;
      return bytes;
    };
    const InstructionList& list = trainer.program().of(world.rank());
    const StepCost declared = step_cost(list);
    EXPECT_EQ(declared.inner_wire_bytes, bytes_of(list, recorded));
    for (const int64_t step : {0, 1, 2}) {
      const int64_t before = sent();
      trainer.step(batch_of(kGlobal / layout.data_ranks(), recipe));
      if (step == 0) continue;  // ranks also agree on what losses are scaled by
      EXPECT_EQ(sent() - before, declared.wire_bytes() + shape_bytes(list)) << "step " << step;
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Layouts, SplitTrafficTest,
                         ::testing::Combine(::testing::ValuesIn(cases()),
                                            ::testing::Values(std::string("gpt"), std::string("llama"))),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param).name) + "_" + std::get<1>(info.param);
                         });

}  // namespace
}  // namespace weft::split_traffic_test
