// Measured against forecast memory on the checked device: what its allocator saw during training, category by category and in
// total, with the rounding of the caching allocator.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <c10/core/DeviceGuard.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <ostream>
#include <string>
#include <vector>

#include "tests/device/on_device.h"
#include "tests/support/run_ranks.h"
#include "weft/plan/forecast.h"
#include "weft/recipe/read/read_recipe.h"
#include "weft/train/measure/step_memory.h"

namespace weft::device_memory_test {
namespace {

constexpr double kTolerance = 0.05, kOfSum = 0.01, kLeastAtOnce = 0.75;

struct Row {
  std::string name;
  int ranks = 1;
  std::string layout = {};  ///< keys of [layout]
  std::string optimizer = R"(name = "adamw")";
  std::string model = "gpt";
  int slots = 0;
  int micro = 1;
  int layers = 2;
  int words = 256;
  int width = 256;  ///< of an mlp
  std::string pack = "stream";
  bool takes_tensors = false;  ///< its optimizer takes whole tensors, or norms of tensors
};
void PrintTo(const Row& row, std::ostream* out) { *out << row.name; }

std::vector<Row> rows() {
  std::vector<Row> all;
  const auto add = [&](const std::string& name, int ranks, const std::string& layout) -> Row& {
    all.push_back({fmt::format("{}_{}", name, ranks), ranks, layout});
    return all.back();
  };
  for (const int ranks : {1, 2, 4}) add("dp", ranks, "");
  for (const char* level : {"optimizer", "gradients", "parameters"}) {
    add(level, 2, fmt::format(R"(shard_level = "{}")", level));
    add(fmt::format("hybrid_{}", level), 4, fmt::format(R"(dp = 2, shard = 2, shard_level = "{}")", level));
  }
  for (const char* schedule : {"gpipe", "1f1b", "interleaved", "zb-h1", "zb-v"}) {
    for (const int pp : {2, 4}) {
      const bool has_chunks = schedule == std::string("interleaved") || schedule == std::string("zb-v");
      if (pp == 4 && has_chunks) continue;  // more stages than blocks
      add(schedule, pp, fmt::format(R"(pp = {}, schedule = "{}")", pp, schedule)).layers = 3;
    }
  }
  for (const char* model : {"gpt", "llama"}) {
    const bool is_gpt = model == std::string("gpt");
    const int tp = is_gpt ? 2 : 4, with_sequence = is_gpt ? 4 : 2;
    const char* method = is_gpt ? "ring" : "all_to_all";
    const auto add_inner = [&](const std::string& name, int ranks, const std::string& layout) {
      Row& row = add(fmt::format("{}_{}", model, name), ranks, layout);
      row.model = model;
      row.micro = 4;
      row.layers = 1;
    };
    add_inner("tp", tp, fmt::format("tp = {}", tp));
    add_inner("tp_sequence", with_sequence, fmt::format("tp = {}, sequence_parallel = true", with_sequence));
    add_inner(fmt::format("cp_{}", method), 2, fmt::format(R"(cp = 2, context_attention = "{}")", method));
    if (!is_gpt) continue;
    add_inner("tp_chunks", 2, "tp = 2, sequence_parallel = true, tp_chunks = 2");
    add_inner("cp_tp", 4, "cp = 2, tp = 2, sequence_parallel = true");
    add_inner("pp_tp", 4, R"(pp = 2, tp = 2, schedule = "1f1b")");
  }
  add("recompute", 2, R"(recompute = "blocks")");
  add("recompute_attention", 2, R"(recompute = "attention")");
  add("bf16_shard", 2, R"(precision = "bf16", shard_level = "gradients")");
  add("fp16", 2, R"(precision = "fp16")");
  const char* everything =
      R"(shard_level = "parameters", recompute = "blocks", offload_optimizer = "{0}", offload_parameters = "{0}", )"
      R"(offload_activations = "{0}")";
  for (const int ranks : {1, 2, 4}) add("offload_host", ranks, fmt::format(fmt::runtime(everything), "host")).layers = 3;
  add("offload_optimizer", 2, R"(shard_level = "optimizer", offload_optimizer = "host")");
  add("offload_bf16", 2, fmt::format(fmt::runtime(everything), "host") + R"(, precision = "bf16")").micro = 4;
  add("offload_disk", 2, fmt::format(fmt::runtime(everything), "disk")).layers = 3;
  add("offload_mixed", 1,
      R"(shard_level = "parameters", offload_optimizer = "host", offload_parameters = "disk", offload_activations = "disk", )"
      R"(recompute = "blocks")")
      .layers = 3;
  add("pp_shard", 4, R"(pp = 2, schedule = "1f1b", shard_level = "gradients")");
  add("master", 2, R"(style = "master")");
  add("mixture", 4, R"(pp = 2, schedule = "1f1b", shard_level = "parameters", recompute = "blocks", precision = "bf16")")
      .model = "llama";
  for (const char* optimizer : {"sgd", "lars", "lamb", "lion", "rmsprop", "adafactor", "muon"}) {
    Row& row = add(optimizer, 2, R"(shard_level = "optimizer")");
    row.optimizer = fmt::format(R"(name = "{}")", optimizer);
    row.takes_tensors =
        optimizer == std::string("lars") || optimizer == std::string("adafactor") || optimizer == std::string("muon");
  }
  add("average_clip", 2, "").optimizer = R"(name = "adamw", ema = 0.9, clip = 0.1)";
  add("slots", 2, "").slots = 4;
  add("documents", 2, "").pack = "documents";
  for (const int chunk : {0, 16}) {
    for (const char* model : {"gpt", "llama"}) {
      Row& row = add(fmt::format("words_{}_in_chunks_of_{}", model, chunk), 2,
                     fmt::format(R"(loss_chunk = {}, precision = "bf16", shard_level = "parameters")", chunk));
      row.model = model;
      row.words = 8192;
      row.micro = 4;
    }
  }
  add("loss_chunk_tp", 2, "tp = 2, loss_chunk = 16").micro = 4;
  add("loss_chunk_zb", 2, R"(pp = 2, schedule = "zb-h1", loss_chunk = 16)").slots = 4;
  for (const char* model : {"llama", "mlp", "cnn"}) add(model, 2, "").model = model;
  const auto add_wide = [&](const std::string& name, const std::string& layout) {
    Row& row = add(name, 1, layout);
    row.model = "mlp";
    row.micro = 8;
    row.width = 64;  // a micro-batch is not small beside the model
  };
  add_wide("wide_inputs", R"(precision = "bf16")");
  add_wide("wide_inputs_fp32", "");
  add("documents_pp", 2, R"(pp = 2, schedule = "1f1b")").pack = "documents";
  return all;
}

std::string model_of(const Row& row) {
  if (row.model == "mlp") return fmt::format(R"({{ name = "mlp", width = {}, layers = 3 }})", row.width);
  if (row.model == "cnn") return R"({ name = "cnn", width = 16 })";
  return fmt::format(
      R"({{ name = "{}", layers = {}, heads = 4, width = 64, context = 64, vocabulary = {}, tied_embeddings = {} }})",
      row.model, row.layers, row.words, row.slots > 0);
}

bool reads_tokens(const Row& row) { return row.model == "gpt" || row.model == "llama"; }

Recipe recipe_of(const Row& row) {
  const std::string data = reads_tokens(row) ? fmt::format(R"({{ name = "text", path = "none.txt", pack = "{}" }})", row.pack)
                                             : std::string(R"({ name = "fashion-mnist", path = "none" })");
  return parse_recipe(fmt::format(R"(
    model = {}
    data = {}
    batch = {{ global = 8, micro = {} }}
    layout = {{ {} }}
    optimizer = {{ {} }}
    run = {{ steps = 3, threads = 1, reproducible_slots = {} }}
  )",
                                  model_of(row), data, row.micro, row.layout, row.optimizer, row.slots),
                      "memory_test.toml");
}

/// With positions of two documents per sample if packed.
Batch batch_of(const Row& row, int64_t samples) {
  const at::Generator generator = at::detail::createCPUGenerator(5);
  if (!reads_tokens(row)) {
    return {{at::randn({samples, 1, 28, 28}, generator, at::kFloat)}, at::randint(10, {samples}, generator, at::kLong), 0};
  }
  const at::Tensor tokens = at::randint(256, {samples, 65}, generator, at::kLong);
  Batch batch{{tokens.narrow(1, 0, 64).contiguous()}, tokens.narrow(1, 1, 64).contiguous(), 0};
  if (row.pack == "documents") {
    batch.inputs.push_back(at::arange(64, at::kLong).remainder(40).expand({samples, 64}).contiguous());
  }
  return batch;
}

class DeviceMemory : public testing::TestWithParam<Row> {};

TEST_P(DeviceMemory, IsAsForecast) {
  const Row& row = GetParam();
  const auto device = on_device({}).device;
  said_of_device();
  const Recipe recipe = recipe_of(row);
  const RecipeMemory forecast = recipe_memory(recipe, row.ranks);
  const ResolvedLayout& layout = forecast.plan.layout;
  std::vector<StepMemory> measured(static_cast<size_t>(row.ranks));
  test::run_ranks(row.ranks, [&](World world) {
    const at::Device own = device(world.rank());
    const c10::DeviceGuard current(own);
    Batch batch = batch_of(row, layout.global_batch / layout.data_ranks());
    for (at::Tensor& input : batch.inputs) input = input.pin_memory();
    batch.target = batch.target.pin_memory();
    measured[static_cast<size_t>(world.rank())] = step_memory(recipe, layout, world, batch, {.device = own});
  });
  EXPECT_EQ(said_of_device(), "");
  for (int rank = 0; rank < row.ranks; ++rank) {
    const MemoryEstimate& expected = forecast.by_stage_rank[static_cast<size_t>(rank * layout.pp / row.ranks)];
    const StepMemory& actual = measured[static_cast<size_t>(rank)];
    ASSERT_TRUE(actual.peak);
    const std::string what = fmt::format("rank {}: ", rank);
    int64_t sum = 0;
    for (size_t i = 0; i < kMemoryCategories.size(); ++i) {
      const auto category = static_cast<MemoryCategory>(i);
      const int64_t bytes = expected.of(category), found = (*actual.peak)[i];
      sum += found;
      const double slack = std::max(kTolerance * static_cast<double>(bytes), kOfSum * static_cast<double>(expected.total()));
      // Forecast for the rank that owns all of the largest tensor.
      const bool is_bound = category == MemoryCategory::optimizer && row.takes_tensors;
      EXPECT_LE(static_cast<double>(found - bytes), slack) << what << name(category) << " take " << found << ", not " << bytes;
      EXPECT_LE(static_cast<double>(bytes - found), is_bound ? 0.5 * static_cast<double>(bytes) : slack)
          << what << name(category) << " take " << found << ", not " << bytes;
    }
    // Categories need not peak at once. A step's numbers (losses, counts, the gate of its updates) are in none.
    constexpr int64_t kNumbers = 4 * 512;
    EXPECT_LE(actual.peak_total, sum + kNumbers) << what << "all";
    EXPECT_LE(static_cast<double>(actual.peak_total), (1.0 + kTolerance) * static_cast<double>(expected.total()))
        << what << "all";
    EXPECT_GE(static_cast<double>(actual.peak_total), kLeastAtOnce * static_cast<double>(expected.total())) << what << "all";
  }
}

INSTANTIATE_TEST_SUITE_P(Table, DeviceMemory, testing::ValuesIn(rows()), [](const auto& info) {
  std::string name = info.param.name;
  for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  return name;
});

}  // namespace
}  // namespace weft::device_memory_test
