// Recordings: what a device was given, given again on the same memory; what a graph cannot hold is said.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "tests/checked_device/nccl_ranks.h"

namespace weft::checked_device {
namespace {

using Rules = Recording::Rules;

/// Runs `work` on a stream of its own, recorded as a graph.
std::optional<Recording>& record(std::optional<Recording>& recording, const std::function<void()>& work, int index = 0) {
  const c10::Stream own = new_stream_of(index);
  follow(own, stream_of(index));
  const c10::StreamGuard guard(own);
  recording.emplace(index, Rules::graph);
  work();
  recording->end();
  return recording;
}

TEST(Recordings, AreTheSameForTheSameWork) {
  const at::Tensor x = ones(), y = ones();
  const auto entries = [&](const at::Tensor& of, double by) {
    const Recording recording(0);
    at::Tensor t = of.mul(by);
    x.copy_(t);
    x.sum().item<float>();
    return recording.entries();
  };
  const std::vector<std::string> once = entries(y, 2);
  ASSERT_EQ(once.size(), 5u);
  EXPECT_EQ(once[0].find("aten::mul.Tensor"), 0u) << once[0];
  EXPECT_EQ(once[4], "the host waits: aten::_local_scalar_dense");
  EXPECT_EQ(entries(y, 2), once) << "new memory has the names of its use";
  EXPECT_NE(entries(y, 3), once) << "a number of the host";
  EXPECT_NE(entries(ones(), 2), once) << "other memory";
}

TEST(Recordings, OfAGraphAreGivenAgainInOneLaunch) {
  const at::Tensor x = ones(), sum = at::zeros({}, on());
  std::optional<Recording> graph;
  record(graph, [&] {
    const at::Tensor doubled = x * 2;
    const c10::Stream side = new_stream_of(), main = stream_of();
    follow(side, main);
    at::Tensor added;
    {
      const c10::StreamGuard guard(side);
      added = doubled + 1;
    }
    follow(main, side);
    sum.add_(added.sum());
    added.record_stream(main);
  });
  graph->replay();
  EXPECT_EQ(sum.item<float>(), 48) << "the device has computed it while it was recorded";
  x.fill_(2);
  reset_counts();
  graph->replay();
  EXPECT_EQ(counts().at("").launches, 1u);
  EXPECT_EQ(counts().at("").stream_waits, 0u);
  EXPECT_EQ(sum.item<float>(), 48 + 80);
  EXPECT_TRUE(take_violations().empty());
}

TEST(Recordings, OfGraphsHoldCallsOfNccl) {
  const std::string said = run(2, [](const Rank& rank) {
    const Engine engine = rank.group("graph");
    Tensors x{at::full({4}, rank.rank + 1.0, rank.on())};
    std::optional<Recording> graph;
    record(
        graph,
        [&] {
          x[0].mul_(2);
          engine->allreduce(x, {})->wait();
          x[0].add_(1);
        },
        rank.rank);
    for (int i = 0; i < 2; ++i) graph->replay();
    // (1 + 2) 2 + 1 = 7 on both; then (7 + 7) 2 + 1.
    EXPECT_TRUE(same_bits(x[0].cpu(), at::full({4}, 29.0)));
    graph.reset();
    engine->shutdown();
  });
  EXPECT_EQ(said, "");
  EXPECT_TRUE(take_violations().empty());
}

struct Refused {
  const char* name;
  std::function<void()> work;
  const char* said;
};
void PrintTo(const Refused& row, std::ostream* out) { *out << row.name; }

const Refused kRefused[] = {
    {"AWaitOfTheHost", [] { ones().sum().item<float>(); }, "the host waits: aten::_local_scalar_dense"},
    {"ACopyFromTheHost", [] { pinned_ones().to(device(), at::kFloat, true); }, "is not within the device"},
    {"AGenerator", [] { ones().bernoulli_(); }, "draws the same numbers each time"},
    {"AStreamThatDoesNotWait",
     [] {
       const c10::StreamGuard guard(new_stream_of());
       ones();
     },
     "which has not waited for it"},
    {"AStreamThatIsNotWaitedFor",
     [] {
       const c10::Stream side = new_stream_of();
       follow(side, stream_of());
       const c10::StreamGuard guard(side);
       ones();
     },
     "its end does not wait for stream"},
    {"AQuestionAboutAnEvent",
     [] {
       c10::Event event(kType);
       event.record(stream_of());
       event.query();
     },
     "the host asks about an event of it"},
};

class RecordedGraphs : public testing::TestWithParam<Refused> {};

TEST_P(RecordedGraphs, SayWhatTheyCannotHold) {
  device();
  std::optional<Recording> recording;
  const std::string error = error_of([&] { record(recording, GetParam().work); });
  EXPECT_NE(error.find(GetParam().said), std::string::npos) << error;
  recording.reset();
  settle();
  take_violations();
}

INSTANTIATE_TEST_SUITE_P(Table, RecordedGraphs, testing::ValuesIn(kRefused), [](const auto& info) { return info.param.name; });

TEST(Recordings, OfAGraphDoNotWaitForWorkFromBefore) {
  Written before;
  std::optional<Recording> recording;
  const std::string error = error_of([&] { record(recording, [&] { follow(stream_of(), before.stream); }); });
  EXPECT_NE(error.find("waits for work from before"), std::string::npos) << error;
  recording.reset();
  settle();
  take_violations();
}

}  // namespace
}  // namespace weft::checked_device
