// Memory that a layer of gpt and of llama keeps for backward when its layers, and with sequence parallelism its tokens, are
// divided over ranks (Korthikanti et al. 2022, arXiv:2205.05198), tensor by tensor.
//
// With sequence parallelism all of a gpt layer is divided. The rest stays whole because:
// - llama: cosines and sines of its positions, one head wide and shared by all samples: each rank rotates all tokens of its
//   heads;
// - embeddings: ids and a mask of other ranks' ids, 9 bytes per token: each rank looks up all tokens in its part; gpt also 8
//   bytes per position.
#include <ATen/ops/empty.h>
#include <gtest/gtest.h>

#include "weft/models/gpt.h"
#include "weft/models/llama.h"
#include "weft/nn/cost/measure_cost.h"
#include "weft/nn/tensor_parallel/apply_splits.h"

namespace weft::layer_memory_test {
namespace {

constexpr int64_t kBatch = 3, kTokens = 32, kWidth = 64, kHeads = 8, kKvHeads = 4, kFfn = 96, kVocabulary = 100, kFloat = 4;

Model make_gpt() {
  return gpt({.layers = 1, .heads = kHeads, .width = kWidth, .context = kTokens, .vocabulary = kVocabulary, .dropout = 0.1});
}

Model make_llama() {
  return llama({.layers = 1,
                .heads = kHeads,
                .kv_heads = kKvHeads,
                .width = kWidth,
                .ffn = kFfn,
                .context = kTokens,
                .vocabulary = kVocabulary});
}

/// Bytes divided only by sequence parallelism, divided by tp, and never divided.
struct Kept {
  int64_t between, within, whole;
};

/// Between split layers: two numbers per token of each norm, the second norm's input, two masks of a byte. Within: queries,
/// keys and values, attention's output and a log-sum per head, the MLP's inner rows before GELU.
Kept gpt_layer() {
  const int64_t tokens = kBatch * kTokens;
  return {tokens * ((kWidth + 4) * kFloat + 2 * kWidth), tokens * (3 * kWidth + kWidth + kHeads + 4 * kWidth) * kFloat, 0};
}

/// Likewise, with one number per token of each norm, no masks, and gate and up.
Kept llama_layer() {
  const int64_t tokens = kBatch * kTokens, head = kWidth / kHeads;
  const int64_t qkv = kWidth + 2 * kKvHeads * head;
  return {tokens * (kWidth + 2) * kFloat, tokens * (qkv + kWidth + kHeads + 2 * kFfn) * kFloat, kTokens * head * kFloat};
}

/// Its dropout mask; with a divided vocabulary, ids and a mask of other ranks' ids. gpt adds its positions, one number each.
Kept embedding(bool is_gpt, int tp) {
  const int64_t tokens = kBatch * kTokens, ids = tp > 1 ? tokens * 9 : 0;
  return {is_gpt ? tokens * kWidth : 0, 0, ids};
}

std::vector<MeasuredCost> costs_of(Model model, int tp, bool sequence_parallel) {
  split_layers(model, tp, 0);
  const at::Tensor ids = at::empty({kBatch, kTokens}, at::TensorOptions(at::kLong).device(at::kMeta));
  return measure_cost(model, {ids}, {.tp = tp, .layout = {.sequence_parallel = sequence_parallel}});
}

struct Case {
  const char* name;
  int tp;
  bool sequence_parallel;
};

TEST(LayerMemory, IsDividedAsTheFormulasSay) {
  const struct {
    const char* name;
    Model (*make)();
    Kept kept;
  } models[] = {{"gpt", make_gpt, gpt_layer()}, {"llama", make_llama, llama_layer()}};
  const Case cases[] = {
      {"alone", 1, false}, {"tp 2", 2, false}, {"tp 4", 4, false}, {"tp 2, sequences", 2, true}, {"tp 4, sequences", 4, true}};
  for (const auto& model : models) {
    for (const Case& c : cases) {
      SCOPED_TRACE(std::string(model.name) + " " + c.name);
      const MeasuredCost layer = costs_of(model.make(), c.tp, c.sequence_parallel)[1];
      const int between = c.sequence_parallel ? c.tp : 1;
      EXPECT_EQ(layer.saved_bytes, model.kept.between / between + model.kept.within / c.tp + model.kept.whole);
      EXPECT_EQ(layer.output_bytes, kBatch * kTokens * kWidth * kFloat / between);
    }
  }
}

TEST(EmbeddingMemory, KeepsIdsWhole) {
  for (const bool is_gpt : {true, false}) {
    for (const Case& c : {Case{"alone", 1, false}, Case{"tp 2", 2, false}, Case{"tp 4, sequences", 4, true}}) {
      SCOPED_TRACE(std::string(is_gpt ? "gpt " : "llama ") + c.name);
      const MeasuredCost cost = costs_of(is_gpt ? make_gpt() : make_llama(), c.tp, c.sequence_parallel)[0];
      const Kept kept = embedding(is_gpt, c.tp);
      const int between = c.sequence_parallel ? c.tp : 1;
      const int64_t positions = is_gpt ? kTokens * 8 : 0;  // a rank's part is a view of all
      EXPECT_EQ(cost.saved_bytes, kept.between / between + kept.whole + positions);
    }
  }
}

/// Both parts of a layer's memory together: the peak of a rank's forward and backward also falls by tp, except for what is
/// gathered for one product.
TEST(LayerMemory, PeaksFallToo) {
  for (const auto make : {make_gpt, make_llama}) {
    const MeasuredCost one = costs_of(make(), 1, false)[1];
    for (const int tp : {2, 4}) {
      const MeasuredCost split = costs_of(make(), tp, true)[1];
      const int64_t rows = kBatch * kTokens * kWidth * kFloat, gathered = 2 * rows;        // and in the exchange's layout
      EXPECT_LE(split.forward_peak_bytes, one.forward_peak_bytes / tp + gathered + rows);  // a product, whole
      EXPECT_LE(split.backward_peak_bytes, one.backward_peak_bytes / tp + 2 * gathered);
    }
  }
}

}  // namespace
}  // namespace weft::layer_memory_test
