#include "weft/train/trainer/rank_batch.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include "weft/models/vision.h"
#include "weft/train/trainer/trainer.h"

namespace weft::rank_batch_test {
namespace {

TEST(ToDevice, IsTheIdentityOnTheCpu) {
  const Batch batch{.inputs = {at::ones({4, 3})}, .target = at::arange(4)};
  const MicroBatch moved = to_device(batch, at::kCPU);
  EXPECT_TRUE(moved.inputs[0].is_same(batch.inputs[0]));
  EXPECT_TRUE(moved.target.is_same(batch.target));
}

TEST(ToDevice, MovesEachTensor) {
  const Batch batch{.inputs = {at::ones({4, 3}), at::arange(4)}, .target = at::arange(4)};
  const MicroBatch moved = to_device(batch, at::kMeta);
  for (const at::Tensor& x : {moved.inputs[0], moved.inputs[1], moved.target}) EXPECT_TRUE(x.is_meta());
  EXPECT_EQ(moved.inputs[0].scalar_type(), at::kFloat);
  EXPECT_EQ(moved.inputs[1].scalar_type(), at::kLong);
}

TEST(ToDevice, ALoaderPinsNothingForOtherDevices) {
  for (const at::Device device : {at::Device(at::kCPU), at::Device(at::kMeta), at::Device(at::kCUDA, 0)}) {
    const Trainer trainer(Mesh(World(), {{"dp", 1}}), mlp({}), Sgd{}, {.global_batch = 2, .communication = {.device = device}});
    EXPECT_EQ(trainer.loader_options().pinned, device.is_cuda()) << device;
  }
}

}  // namespace
}  // namespace weft::rank_batch_test
