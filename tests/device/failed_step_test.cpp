// The engine on a device after a step that failed, with state on its way between device and host: the next call finds it, and
// nothing is freed or used before its copy is done, even if the engine goes.
#include "tests/engine/failed_step.h"

#include <c10/core/DeviceGuard.h>

#include "tests/device/on_device.h"
#include "weft/engine/pinned_store.h"

namespace weft::device_failed_step_test {
namespace {

class DeviceFailedStep : public testing::TestWithParam<FailsAt> {
 protected:
  template <class Use>
  static void after(const Use& use) {
    const at::Device device = on_device({}).device(0);
    const c10::DeviceGuard current(device);
    said_of_device();
    {
      AfterAFailedStep failed(device, GetParam(), [device] { return pinned_offload(CopyStreams(device)); });
      use(failed);
    }
    EXPECT_EQ(said_of_device(), "");
  }
};

TEST_P(DeviceFailedStep, LeavesTheNewestState) {
  after([](AfterAFailedStep& failed) { failed.expect_newest(); });
}
TEST_P(DeviceFailedStep, IsForgottenWhereStateIsFilled) {
  after([](AfterAFailedStep& failed) { failed.expect_filled(); });
}
TEST_P(DeviceFailedStep, MayBeTheLast) {
  after([](AfterAFailedStep&) {});
}

INSTANTIATE_TEST_SUITE_P(Table, DeviceFailedStep, testing::Values(FailsAt::load, FailsAt::load_after_the_update));

}  // namespace
}  // namespace weft::device_failed_step_test
