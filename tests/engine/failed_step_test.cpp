// The engine after a step that failed: offloaded state, wherever the step has left it.
#include "tests/engine/failed_step.h"

#include "weft/engine/host_store.h"

namespace weft::failed_step_test {
namespace {

class FailedStep : public testing::TestWithParam<FailsAt> {
 protected:
  AfterAFailedStep after{at::kCPU, GetParam(), [] { return host_offload(); }};
};

TEST_P(FailedStep, LeavesTheNewestState) { after.expect_newest(); }
TEST_P(FailedStep, IsForgottenWhereStateIsFilled) { after.expect_filled(); }

INSTANTIATE_TEST_SUITE_P(Table, FailedStep, testing::Values(FailsAt::load, FailsAt::load_after_the_update));

}  // namespace
}  // namespace weft::failed_step_test
