// A group's last calls, as its log has them: numbered equally on all ranks, with what has ended.
#include "weft/comm/call/call_log.h"

#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include "tests/support/run_ranks.h"
#include "weft/comm/mesh.h"

namespace weft::call_log_test {
namespace {

TEST(CallLog, KeepsTheLastCallsOfAGroup) {
  for (const BackendKind backend : {BackendKind::shm, BackendKind::gloo}) {
    test::run_ranks(2, [&](const World& world) {
      const Mesh mesh(world, {{"dp", 2}});
      const Group group = mesh.group(mesh.axis("dp"), {.backend = backend});
      for (int i = 0; i < 70; ++i) group.all_reduce(at::ones({8}), ReduceOp::max, "sums " + std::to_string(i)).wait();
      const at::Tensor message = at::ones({3});
      for (int i = 0; i < 2; ++i) {
        (world.rank() == 0 ? group.send(message, 1, "message") : group.receive(message, 0, "message")).wait();
      }
      group.broadcast(message, 1, std::string(200, 'x')).wait();
      const std::vector<CallLog::Content> logs = world.call_logs()->content();
      ASSERT_EQ(logs.size(), 1u);
      const CallLog::Content& log = logs.front();
      EXPECT_EQ(log.axis.name, "dp");
      EXPECT_EQ(log.backend, backend == BackendKind::shm ? "shm" : "gloo");
      EXPECT_EQ(log.collectives, 71u);
      ASSERT_EQ(log.calls.size(), CallLog::kKept);
      const LoggedCall &first = log.calls.front(), &last = log.calls.back(), &second_message = log.calls[CallLog::kKept - 2];
      EXPECT_EQ(first.number, 10u);
      EXPECT_STREQ(first.what.data(), "sums 9");
      EXPECT_EQ(first.reduce, ReduceOp::max);
      EXPECT_EQ(first.numel, 8);
      EXPECT_EQ(last.number, 71u);
      EXPECT_EQ(last.operation, Operation::broadcast);
      EXPECT_EQ(last.root, 1);
      EXPECT_EQ(std::string(last.what.data()), std::string(LoggedCall::kNameBytes - 1, 'x'));
      EXPECT_EQ(second_message.number, 2u);
      EXPECT_EQ(second_message.order, 72u);
      for (const LoggedCall& call : log.calls) EXPECT_GE(call.ended, call.begun);
    });
  }
}

TEST(CallLog, ACallThatFailsHasNotEnded) {
  test::run_ranks(2, [](const World& world) {
    const Mesh mesh(world, {{"dp", 2}});
    const Group group = mesh.group(mesh.axis("dp"));
    EXPECT_ANY_THROW(group.all_reduce(at::ones({8 + world.rank()}), ReduceOp::sum, "sums").wait());
    const LoggedCall call = world.call_logs()->content().front().calls.back();
    EXPECT_EQ(call.number, 1u);
    EXPECT_EQ(call.ended, LoggedCall::Time());
    EXPECT_FALSE(call.is_in_background);
  });
}

TEST(CallLog, ForgetsGroupsThatAreGone) {
  test::run_ranks(2, [](const World& world) {
    const Mesh mesh(world, {{"dp", 2}});
    { const Group group = mesh.group(mesh.axis("dp")); }
    EXPECT_TRUE(world.call_logs()->content().empty());
  });
}

}  // namespace
}  // namespace weft::call_log_test
