// Activation memory and recompute of Korthikanti et al. 2022 (arXiv:2205.05198) vs weft memory's estimate, for the models of
// its table 5 in 16 bits, with tensor and sequence parallelism. Reads ../shared/published/korthikanti_2022.csv; the build skips
// these tests if it is missing.
//
// The paper's layer keeps (s tokens, b samples, width h, a heads, t ranks of tp) s b h (10 + 24/t + 5 a s/(h t)) bytes; with
// sequence parallelism s b h/t (34 + 5 a s/h); without the terms of a s, the attention core, if that is recomputed
// ("selective"). Recomputed as a whole, a layer keeps its input, 2 s b h. In weft:
// - The core is flash attention, whose backward always recomputes its scores: nothing of 5 a s/h is kept. So the paper's
//   selective form is weft's recompute = "none", which keeps the rest except what is recomputed, and adds 4 bytes per head and
//   token (log-sums), and each norm's two statistics.
// - Outputs of norms and GELU are recomputed from their inputs: of the 34, the inputs of the attention's and the MLP's first
//   layers (2 + 2), and that of the MLP's second (8), are not kept.
// - recompute = "attention" goes further than the paper's selective form: norm, projections and core of the attention are
//   recomputed from the layer's input. Queries, keys and values (6) and the output projection's input (2) are not kept either.
// - recompute = "blocks" is the paper's full form; with sequence parallelism the input too is a rank's part, which the paper
//   mentions as possible.
// - Blocks, including dropout, are the paper's except for the dropout of attention weights, part of the core.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "bench/published/table.h"
#include "weft/plan/forecast.h"
#include "weft/program/cost.h"
#include "weft/recipe/read/read_recipe.h"

namespace weft::korthikanti_test {
namespace {

constexpr double kTolerance = 0.05, kPoints = 0.03;

struct Row {
  std::string model;
  double layers, width, heads, vocabulary, tokens, samples, tp;
  bool full;   ///< recompute; else selective, with sequence parallelism
  double mfu;  ///< of the model's operations
  double hfu;  ///< of the computed operations; 0: not published
};

std::vector<Row> rows() {
  std::vector<Row> result;
  for (const published::TableRow& row : published::read_table(WEFT_SHARED "/published/korthikanti_2022.csv")) {
    const auto needed = [&row](const char* column) { return published::needed_number(row, column); };
    result.push_back({row.at("model"), needed("n_layers"), needed("d_model"), needed("n_heads"), needed("vocab"),
                      needed("seq_len"), needed("micro_batch"), needed("tp"), row.at("recompute") == "full", needed("mfu_pct"),
                      published::number(row, "hfu_pct").value_or(0.0)});
  }
  return result;
}

/// The model on its tp ranks, one pipeline stage, one micro-batch.
RecipeMemory memory_of(const Row& row, double layers, bool sequence_parallel, const std::string& recompute) {
  const std::string text = fmt::format(R"(
    model = {{ name = "gpt", layers = {}, heads = {}, width = {}, context = {}, vocabulary = {}, dropout = 0.1 }}
    data = {{ name = "text", path = "none.txt" }}
    batch = {{ global = {}, micro = {} }}
    layout = {{ tp = {}, sequence_parallel = {}, recompute = "{}", precision = "bf16" }}
    run = {{ steps = 1 }}
  )",
                                       layers, row.heads, row.width, row.tokens, row.vocabulary, row.samples, row.samples,
                                       row.tp, sequence_parallel, recompute);
  return recipe_memory(parse_recipe(text, "korthikanti_test.toml"), static_cast<int>(row.tp));
}

/// Bytes that one more layer adds.
double layer_bytes(const Row& row, bool sequence_parallel, const std::string& recompute) {
  const auto bytes = [&](double layers) {
    return static_cast<double>(memory_of(row, layers, sequence_parallel, recompute).estimate().of(MemoryCategory::activations));
  };
  return (bytes(row.layers) - bytes(row.layers / 2)) / (row.layers / 2);
}

/// Terms of the paper's formula that weft's layer keeps too.
double formula(const Row& row, bool sequence_parallel, const std::string& recompute) {
  const double sbh = row.tokens * row.samples * row.width, t = row.tp;
  const double t_whole = sequence_parallel ? t : 1.0;  // divided by sequence parallelism
  if (recompute == "blocks") return 2.0 * sbh / t_whole;
  const double between = 10.0 - 2.0 - 2.0, within = 24.0 - 8.0;
  if (recompute == "attention") return sbh * (between / t_whole + (within - 8.0) / t);
  return sbh * (between / t_whole + within / t);
}

TEST(Korthikanti, LayersKeepWhatThePaperSays) {
  int compared = 0;
  for (const Row& row : rows()) {
    if (row.full) continue;  // each model has a row of each kind
    for (const bool sequence_parallel : {false, true}) {
      for (const std::string recompute : {"none", "attention", "blocks"}) {
        const double expected = formula(row, sequence_parallel, recompute);
        EXPECT_NEAR(layer_bytes(row, sequence_parallel, recompute), expected, kTolerance * expected)
            << row.model << ", recompute " << recompute << (sequence_parallel ? ", sequence parallel" : "");
        ++compared;
      }
    }
  }
  EXPECT_EQ(compared, 12) << "two models, with and without sequence parallelism, three kinds of recompute";
}

/// Operations of one step on all ranks.
double operations(const Row& row, const std::string& recompute) {
  const RecipeMemory memory = memory_of(row, row.layers, true, recompute);
  return row.tp * step_cost(memory.plan.program->of(0)).flops();
}

/// Forward of the attention core in all layers: scores and their products with values, including masked ones.
double core(const Row& row) { return row.layers * 4.0 * row.samples * row.tokens * row.tokens * row.width; }

/// The paper's equation 7: 72 B L s h^2 (1 + s/6h + V/12hL).
double model_operations(const Row& row) {
  const double h = row.width, L = row.layers;
  return 72.0 * row.samples * L * row.tokens * h * h * (1.0 + row.tokens / (6.0 * h) + row.vocabulary / (12.0 * h * L));
}

// Flash attention's backward adds only the scores again, half a core.
TEST(Korthikanti, OperationsAreThoseOfEquationSeven) {
  for (const Row& row : rows()) {
    if (row.full) continue;
    const double expected = model_operations(row) + core(row) / 2.0;
    EXPECT_NEAR(operations(row, "none"), expected, 1e-9 * expected) << row.model;
  }
}

/// Rows with selective recompute, by model.
std::map<std::string, Row> selective_rows() {
  std::map<std::string, Row> result;
  for (const Row& row : rows()) {
    if (!row.full) result.emplace(row.model, row);
  }
  return result;
}

// Rows with full recompute have no HFU: it is taken from the same model's other row, as both run the same products.
TEST(Korthikanti, FullRecomputeAddsAForward) {
  int compared = 0;
  const std::map<std::string, Row> selective = selective_rows();
  for (const Row& row : rows()) {
    if (!row.full) continue;
    const double published = selective.at(row.model).hfu / row.mfu - 1.0;
    EXPECT_NEAR(operations(row, "blocks") / model_operations(row) - 1.0, published, kPoints) << row.model;
    ++compared;
  }
  EXPECT_EQ(compared, 2);
}

// The published overhead of selective recompute is equation 8 over equation 7, as the first lines check: 1 + s/3h for 1 + s/6h,
// 12 b s^2 h per layer. That is three forwards of the core, though one is recomputed; so a third of it is compared. weft's
// overhead is less than either: half a forward.
TEST(Korthikanti, SelectiveRecomputeIsTheBackwardOfFlashAttention) {
  for (const auto& [model, row] : selective_rows()) {
    const double published = row.hfu / row.mfu - 1.0, charged = 3.0 * core(row) / model_operations(row);
    EXPECT_NEAR(published, charged, 0.003) << model;
    const double overhead = operations(row, "none") / model_operations(row) - 1.0;
    EXPECT_NEAR(overhead, published / 3.0, kPoints) << model;
    EXPECT_LT(overhead, published) << model;
    EXPECT_NEAR(overhead, charged / 6.0, 1e-9) << model;
  }
}

// Besides the core, its projections, 8 b s h^2 of a layer's 24 forward: for memory the paper's selective form does not save.
TEST(Korthikanti, RecomputeOfAttentionCostsItsProjectionsToo) {
  for (const auto& [model, row] : selective_rows()) {
    const double projections = row.layers * 8.0 * row.samples * row.tokens * row.width * row.width;
    const double expected = model_operations(row) + projections + 1.5 * core(row);
    EXPECT_NEAR(operations(row, "attention"), expected, 1e-9 * expected) << model;
  }
}

}  // namespace
}  // namespace weft::korthikanti_test
