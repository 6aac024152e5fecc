// compare_layouts() on split layers, correct ones and ones with a mistake: the first visible difference, its step, and the part
// of the layout that causes it.
#include "tests/train/compare/broken_splits.h"

#include <ATen/ops/randint.h>
#include <gtest/gtest.h>

#include <memory>
#include <ostream>
#include <utility>

#include "tests/support/run_ranks.h"
#include "tests/train/compare/broken_programs.h"
#include "weft/train/compare/compare_layouts.h"

namespace weft::broken_splits_test {
namespace {

constexpr int64_t kGlobal = 4;
const Sgd kSgd{.lr = 0.1};

/// Targets of three neighbouring tokens do not count: with two ranks of cp, the second has one counted target, the first four.
Batch batch_of(int64_t step) {
  const at::Generator generator = at::detail::createCPUGenerator(static_cast<uint64_t>(step) + 100);
  const at::Tensor tokens = at::randint(kSplitVocabulary, {kGlobal, kSplitTokens + 1}, generator, at::kLong);
  at::Tensor target = tokens.narrow(1, 1, kSplitTokens).clone();
  target.narrow(1, 2, kSplitTokens - kSplitTargets).fill_(kIgnore);
  return {{tokens.narrow(1, 0, kSplitTokens).contiguous()}, target, step * kGlobal};
}

/// A layout of the model, and the mistake in it.
struct Case {
  std::string name;
  std::vector<AxisSize> axes;
  LayoutOptions layout = {};
  Fault fault = Fault::none;
  Breakage breakage = {};
  double clip = 0.0;
  int slots = 0;
  std::vector<std::string> causes = {};
  std::string first = {};
  int64_t step = 1;
  bool frozen = false;       ///< every second parameter
  std::string rest_as = {};  ///< LayoutComparison::rest_as
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }
std::string name_of(const ::testing::TestParamInfo<Case>& info) { return info.param.name; }

/// Ranks that share the layers of the model that this thread is about to make.
thread_local int this_tp = 1;

/// A block of which every second parameter is frozen.
class HalfFrozen : public Block {
 public:
  explicit HalfFrozen(std::shared_ptr<Block> block) : block_(std::move(block)) {}
  Tensors forward(const Tensors& inputs, const Context& context) override { return block_->forward(inputs, context); }
  std::vector<ParamSpec> parameters() override {
    std::vector<ParamSpec> specs = block_->parameters();
    for (size_t i = 0; i < specs.size(); i += 2) specs[i].frozen = true;
    return specs;
  }

 private:
  std::shared_ptr<Block> block_;
};

LayoutComparison compare(const Case& c) {
  const auto model = [fault = c.fault, frozen = c.frozen] {
    Model model = split_model(fault, this_tp);
    for (NamedBlock& named : model.blocks) {
      if (frozen) named.block = std::make_shared<HalfFrozen>(named.block);
    }
    return model;
  };
  const auto prepare = [model, breakage = c.breakage](const Mesh& mesh, TrainerOptions& options) {
    this_tp = mesh.size("tp");
    if (breakage) broken(model, kSgd, breakage)(mesh, options);
  };
  const LayoutsToCompare compared{
      .layout = {.axes = c.axes,
                 .options = {.global_batch = kGlobal,
                             .micro_batch = 1,
                             .clip = c.clip,
                             .reproducible_slots = c.slots,
                             .bucket_bytes = 1,
                             .layout = c.layout}},
      .trained = {.model = model, .optimizer = kSgd, .batches = whole_batches(batch_of), .steps = 2, .prepare = prepare}};
  LayoutComparison result;
  test::run_ranks(compared.layout.ranks(), [&](World world) {
    LayoutComparison mine = compare_layouts(world, compared);
    if (world.rank() == 0) result = std::move(mine);
  });
  return result;
}

const std::vector<AxisSize> kTp = {{"tp", 2}}, kTp4 = {{"tp", 4}}, kCp = {{"cp", 2}};
const std::vector<AxisSize> kDpTp = {{"dp", 2}, {"tp", 2}}, kCpTp = {{"cp", 2}, {"tp", 2}}, kDpCp = {{"dp", 2}, {"cp", 2}};
const std::vector<AxisSize> kPpTp = {{"pp", 2}, {"tp", 2}}, kShardTp = {{"shard", 2}, {"tp", 2}};
const LayoutOptions kPlain = {}, kSequence = {.sequence_parallel = true};

class RightSplits : public ::testing::TestWithParam<Case> {};

TEST_P(RightSplits, AreWithinRoundingAndTheRestIsExact) {
  const LayoutComparison result = compare(GetParam());
  EXPECT_EQ(result.match, LayoutMatch::within_rounding) << result.against << ": " << result.first()->what;
  EXPECT_FALSE(result.may_promise) << "slots do not help";
  EXPECT_EQ(result.rest_as, GetParam().rest_as);
}

INSTANTIATE_TEST_SUITE_P(
    Splits, RightSplits,
    ::testing::Values(Case{"tp2", kTp}, Case{"tp4_sequence", kTp4, kSequence, {}, {}, 0.05, 4},
                      Case{"cp2_ring", kCp, {.attention_over = ContextMethod::ring}, {}, {}, 0.05},
                      Case{.name = "dp2_tp2_slots", .axes = kDpTp, .clip = 0.05, .slots = 4, .rest_as = "tp 2"},
                      Case{.name = "pp2_tp2_sequence_slots",
                           .axes = kPpTp,
                           .layout = {.recompute_every = 1, .sequence_parallel = true},
                           .clip = 0.05,
                           .slots = 4,
                           .rest_as = "tp 2 with layout.sequence_parallel"},
                      Case{.name = "shard2_tp2_slots",
                           .axes = kShardTp,
                           .layout = {.shard_level = ShardLevel::parameters},
                           .clip = 0.05,
                           .slots = 4,
                           .rest_as = "tp 2"},
                      Case{.name = "tp2_sequence_frozen", .axes = kTp, .layout = kSequence, .clip = 0.05, .frozen = true},
                      Case{.name = "cp2_tp2_frozen", .axes = kCpTp, .clip = 0.05, .frozen = true},
                      Case{.name = "dp2_cp2_slots", .axes = kDpCp, .clip = 0.05, .slots = 4, .rest_as = "cp 2"},
                      Case{.name = "cp2_tp2_recompute_slots",
                           .axes = kCpTp,
                           .layout = {.recompute_every = 1, .attention_over = ContextMethod::all_to_all},
                           .clip = 0.05,
                           .slots = 4,
                           .rest_as = "cp 2 x tp 2 with layout.context_attention"}),
    name_of);

class BrokenSplits : public ::testing::TestWithParam<Case> {};

TEST_P(BrokenSplits, AreFound) {
  const Case& c = GetParam();
  const LayoutComparison result = compare(c);
  ASSERT_EQ(result.match, LayoutMatch::different);
  EXPECT_TRUE(result.repeats);
  EXPECT_EQ(result.causes, c.causes);
  ASSERT_NE(result.first(), nullptr);
  EXPECT_EQ(result.first()->what, c.first);
  EXPECT_EQ(result.first()->step, c.step);
}

Case model_case(Fault fault, const std::string& name, std::vector<AxisSize> axes, const LayoutOptions& layout,
                std::vector<std::string> causes, const std::string& first, int64_t step = 1, double clip = 0.0) {
  return {.name = name,
          .axes = std::move(axes),
          .layout = layout,
          .fault = fault,
          .clip = clip,
          .causes = std::move(causes),
          .first = first,
          .step = step};
}

const std::vector<std::string> kIsTp = {"tp"}, kIsCp = {"cp"}, kIsSequence = {"tp", "layout.sequence_parallel"};

INSTANTIATE_TEST_SUITE_P(
    Model, BrokenSplits,
    ::testing::Values(
        model_case(Fault::tokens_not_summed, "tokens_not_summed", kTp, kPlain, kIsTp, "loss"),
        model_case(Fault::local_positions, "local_positions", kCp, kPlain, kIsCp, "loss"),
        model_case(Fault::local_keys, "local_keys", kCp, kPlain, kIsCp, "loss"),
        model_case(Fault::local_keys, "local_keys_beside_tp", kCpTp, kPlain, kIsCp, "loss"),
        model_case(Fault::rows_not_summed, "rows_not_summed", kTp, kPlain, kIsTp, "loss"),
        model_case(Fault::rows_not_summed, "rows_not_summed_beside_dp", kDpTp, kPlain, kIsTp, "loss"),
        model_case(Fault::bias_in_every_part, "bias_in_every_part", kTp, kPlain, kIsTp, "loss"),
        model_case(Fault::columns_not_summed, "columns_not_summed", kTp, kPlain, kIsTp, "embedding.positions.weight"),
        model_case(Fault::columns_summed_twice, "columns_summed_twice", kTp, kPlain, kIsTp, "embedding.positions.weight"),
        model_case(Fault::norm_not_summed, "norm_not_summed", kTp, kSequence, kIsSequence, "layer.1.norm2.bias"),
        model_case(Fault::gathered_as_if_alike, "gathered_as_if_alike", kTp, kSequence, kIsSequence,
                   "embedding.positions.weight"),
        model_case(Fault::dropped_by_rank, "dropped_by_rank", kTp, kSequence, kIsSequence, "loss"),
        model_case(Fault::counted_on_every_rank, "counted_on_every_rank", kTp, kPlain, kIsTp, "gradient norm", 1, 0.05),
        model_case(Fault::parts_alike, "parts_alike", kTp, kPlain, kIsTp, "layer.1.up.weight", 0),
        model_case(Fault::mean_of_local_means, "mean_of_local_means", kCp, kPlain, kIsCp, "loss"),
        model_case(Fault::loss_of_own_classes, "loss_of_own_classes", kTp, kPlain, kIsTp, "loss"),
        model_case(Fault::padding_in_the_loss, "padding_in_the_loss", kTp, kPlain, kIsTp, "loss")),
    name_of);

Case program_case(const std::string& name, std::vector<AxisSize> axes, const Breakage& breakage,
                  std::vector<std::string> causes, const std::string& first, double clip = 0.0) {
  return {
      .name = name, .axes = std::move(axes), .breakage = breakage, .clip = clip, .causes = std::move(causes), .first = first};
}

INSTANTIATE_TEST_SUITE_P(
    Program, BrokenSplits,
    ::testing::Values(program_case("norm_of_a_part", kTp, over_axes(Op::norm, kNoAxes), kIsTp, "gradient norm", 0.05),
                      program_case("norm_of_a_part_of_a_stage", kPpTp, over_axes(Op::norm, kPipelineAxis), kIsTp,
                                   "gradient norm", 0.05),
                      program_case("losses_not_summed_over_cp", kDpCp, over_axes(Op::reduce_loss, kDataAxes), kIsCp, "loss"),
                      program_case("gradients_not_reduced_over_cp", kDpCp, over_axes(Op::reduce, kDataAxes), kIsCp,
                                   "embedding.positions.weight"),
                      program_case("bucket_not_reduced_over_cp", kCpTp, without_op(Op::reduce, 2), kIsCp, "layer.1.down.bias")),
    name_of);

/// Multiplies by a bit more than 1 on the second rank of dp: less than rounding explains, but no rounding of tp's.
class Leans : public Block {
 public:
  explicit Leans(std::shared_ptr<Block> block, bool leans) : block_(std::move(block)), leans_(leans) {}
  Tensors forward(const Tensors& inputs, const Context& context) override {
    Tensors outputs = block_->forward(inputs, context);
    if (leans_) outputs[0] = outputs[0].mul(1.0 + 0x1p-22);
    return outputs;
  }
  std::vector<ParamSpec> parameters() override { return block_->parameters(); }

 private:
  std::shared_ptr<Block> block_;
  bool leans_;
};

// Against one device this is rounding, as tp rounds; against tp alone it is not.
TEST(Splits, AMistakeBelowTheRoundingOfTpIsFound) {
  static thread_local int replica = 0;
  const auto model = [] {
    Model model = split_model(Fault::none, this_tp);
    model.blocks[1].block = std::make_shared<Leans>(model.blocks[1].block, replica == 1);
    return model;
  };
  const LayoutsToCompare compared{
      .layout = {.axes = kDpTp, .options = {.global_batch = kGlobal, .micro_batch = 1, .reproducible_slots = 4}},
      .trained = {.model = model,
                  .optimizer = kSgd,
                  .batches = whole_batches(batch_of),
                  .steps = 2,
                  .prepare = [](const Mesh& mesh, TrainerOptions&) { replica = mesh.coordinate("dp"); }}};
  test::run_ranks(4, [&](World world) {
    const LayoutComparison result = compare_layouts(world, compared);
    EXPECT_EQ(result.match, LayoutMatch::different);
    if (world.rank() > 0) return;
    EXPECT_EQ(result.against, "tp 2");
    EXPECT_TRUE(result.exact);
    EXPECT_EQ(result.causes, std::vector<std::string>{"dp"});
  });
}

}  // namespace
}  // namespace weft::broken_splits_test
