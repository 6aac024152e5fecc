#include "weft/models/resnet.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include "tests/nn/shards.h"
#include "tests/support/refusal.h"

namespace weft::resnet_test {
namespace {

at::Tensor run(FlatModel& flat, const at::Tensor& images, const Context& context = {}) {
  Tensors x = {images};
  for (int b = 0; b < flat.num_blocks(); ++b) x = flat.block(b).forward(x, context);
  return x[0];
}

/// Parameter counts of the papers and torchvision.
TEST(Resnet, HasTheLayersOfItsDepth) {
  struct Row {
    int64_t depth, classes, blocks, parameters;
  };
  for (const Row& row : std::vector<Row>{{8, 10, 5, 75'290},
                                         {20, 10, 11, 269'722},
                                         {32, 10, 17, 464'154},
                                         {56, 10, 29, 853'018},
                                         {18, 1000, 10, 11'689'512},
                                         {34, 1000, 18, 21'797'672},
                                         {50, 1000, 18, 25'557'032},
                                         {101, 1000, 35, 44'549'160},
                                         {152, 1000, 52, 60'192'808}}) {
    const Model model = resnet({.depth = row.depth, .classes = row.classes});
    EXPECT_EQ(model.num_blocks(), row.blocks) << row.depth;
    int64_t parameters = 0;
    for (const NamedBlock& named : model.blocks) {
      for (const ParamSpec& spec : named.block->parameters()) parameters += spec.statistic ? 0 : spec.parameter->value.numel();
    }
    EXPECT_EQ(parameters, row.parameters) << row.depth;
    EXPECT_EQ(is_small_resnet(row.depth), row.classes == 10);
  }
}

TEST(Resnet, GivesLogitsOfImagesOfAnySize) {
  for (const ResnetNorm norm : {ResnetNorm::batch, ResnetNorm::group}) {
    for (const auto& [depth, size] : std::vector<std::pair<int64_t, int64_t>>{{8, 28}, {8, 33}, {18, 64}, {50, 40}}) {
      FlatModel flat(resnet({.depth = depth, .channels = 1, .classes = 6, .width = 8, .norm = norm}), {});
      initialise(flat, 1);
      const at::Tensor logits = run(flat, at::randn({2, 1, size, size}));
      EXPECT_EQ(logits.sizes(), (at::IntArrayRef{2, 6}));
      EXPECT_TRUE(logits.isfinite().all().item<bool>());
    }
  }
}

/// With a last norm of zero each residual block is its shortcut, so only blocks with a projection or fewer pixels change
/// anything.
TEST(Resnet, ResidualBlocksMayBeginAsTheIdentity) {
  FlatModel flat(resnet({.depth = 20, .zero_init_residual = true}), {});
  initialise(flat, 1);
  const at::Tensor x = at::randn({2, 16, 8, 8}).relu_();
  EXPECT_TRUE(at::equal(flat.block(1).forward({x}, {})[0], x));
  const at::Tensor halved = flat.block(4).forward({x}, {})[0];
  EXPECT_TRUE(at::equal(halved.narrow(1, 8, 16), x.slice(2, 0, 8, 2).slice(3, 0, 8, 2)));
  EXPECT_EQ(halved.narrow(1, 0, 8).abs().max().item<float>() + halved.narrow(1, 24, 8).abs().max().item<float>(), 0.0F);
}

TEST(Resnet, RefusesDepthsThatThereAreNone) {
  EXPECT_NE(test::refusal([] { resnet({.depth = 21}); }).find("depth 21; it must be one of 8, 20"), std::string::npos);
  EXPECT_NE(test::refusal([] { resnet({.classes = 0}); }).find("classes"), std::string::npos);
}

}  // namespace
}  // namespace weft::resnet_test
