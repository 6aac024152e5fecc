// Comparisons of layouts whose head makes the losses in chunks (layout.loss_chunk): rounding is told from mistakes, and the
// rest of the layout keeps its bits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/run_ranks.h"
#include "tests/train/jobs.h"
#include "weft/train/compare/compare_layouts.h"
#include "weft/train/compare/comparison_text.h"
#include "weft/train/compare/rounding_noise.h"

namespace weft::chunked_loss_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kChunk = 3;
const std::vector<AxisSize> kAlone = {}, kDp = {{"dp", 2}};

/// A head of a user's own that makes wrong losses of chunks, by `factor`.
class Scaled : public Block {
 public:
  Scaled(std::shared_ptr<Block> head, double factor) : head_(std::move(head)), factor_(factor) {}
  Tensors forward(const Tensors& inputs, const Context& context) override {
    Tensors outputs = head_->forward(inputs, context);
    if (context.target.defined()) outputs[0] = outputs[0].mul(factor_);
    return outputs;
  }
  std::vector<ParamSpec> parameters() override { return head_->parameters(); }
  bool can_chunk_loss() const override { return true; }
  bool always_uses_all() const override { return true; }

 private:
  std::shared_ptr<Block> head_;
  double factor_;
};

Model with_head_by(double factor) {
  Model model = job("split_gpt").model();
  if (factor != 1.0) model.blocks.back().block = std::make_shared<Scaled>(model.blocks.back().block, factor);
  return model;
}

struct Case {
  std::string name;
  std::vector<AxisSize> axes;
  LayoutOptions layout = {};
  int slots = 0;
  double factor = 1.0;
};

LayoutComparison compare(const Case& c) {
  const LayoutsToCompare compared{
      .layout = {.axes = c.axes,
                 .options = {.global_batch = 16, .micro_batch = 4, .reproducible_slots = c.slots, .layout = c.layout}},
      .trained = {.model = [factor = c.factor] { return with_head_by(factor); },
                  .optimizer = AdamW{},
                  .batches = whole_batches(job("split_gpt").batch_of),
                  .steps = 2}};
  LayoutComparison result;
  test::run_ranks(compared.layout.ranks(), [&](World world) {
    LayoutComparison mine = compare_layouts(world, compared);
    if (world.rank() == 0) result = std::move(mine);
  });
  return result;
}

TEST(ChunkedLoss, RoundsAndTheRestKeepsItsBits) {
  struct Row {
    Case compared;
    std::string rest_as;
  };
  const Row rows[] = {
      {{.name = "alone", .axes = kAlone, .layout = {.loss_chunk = kChunk}}, ""},
      {{.name = "alone in slots", .axes = kAlone, .layout = {.loss_chunk = kChunk}, .slots = 4}, ""},
      {{.name = "bf16", .axes = kDp, .layout = {.loss_chunk = kChunk, .precision = Precision::bf16}}, ""},
      {{.name = "dp in slots", .axes = kDp, .layout = {.recompute_every = 1, .loss_chunk = kChunk}, .slots = 4},
       "one device with layout.loss_chunk"},
      {{.name = "tp in slots", .axes = {{"dp", 2}, {"tp", 2}}, .layout = {.loss_chunk = kChunk}, .slots = 4},
       "tp 2 with layout.loss_chunk"},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.compared.name);
    const LayoutComparison result = compare(row.compared);
    EXPECT_EQ(result.match, LayoutMatch::within_rounding) << difference_line(result);
    EXPECT_THAT(result.layout, HasSubstr("layout.loss_chunk"));
    EXPECT_FALSE(result.may_promise) << "slots do not give the bits of whole logits";
    EXPECT_EQ(result.rest_as, row.rest_as);
  }
}

TEST(ChunkedLoss, AHeadWhoseChunksAreWrongIsFound) {
  for (const Case& c : {Case{.name = "alone", .axes = kAlone, .slots = 4}, Case{.name = "dp", .axes = kDp}}) {
    SCOPED_TRACE(c.name);
    Case wrong = c;
    wrong.layout.loss_chunk = kChunk;
    wrong.factor = 1.01;
    const LayoutComparison result = compare(wrong);
    EXPECT_EQ(result.match, LayoutMatch::different);
    EXPECT_THAT(result.causes, ElementsAre("layout.loss_chunk"));
    ASSERT_NE(result.first(), nullptr);
    EXPECT_EQ(result.first()->what, kLoss);
    EXPECT_EQ(result.not_repeated.what, "") << "other outputs of the same inputs, as the targets come with them";
  }
}

}  // namespace
}  // namespace weft::chunked_loss_test
