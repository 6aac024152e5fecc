// The recorder: sinks get every record in order, in a thread of their own; those that fail or hang are reported and harm
// nobody.
#include "weft/report/records/recorder.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <stdexcept>
#include <thread>

namespace weft::recorder_test {
namespace {

using namespace std::chrono_literals;

StepRecord step(int64_t number) { return {.step = number}; }

std::vector<std::unique_ptr<RecordSink>> sinks(std::vector<std::function<void(const Record&)>> functions) {
  std::vector<std::unique_ptr<RecordSink>> all;
  for (auto& function : functions) all.push_back(std::make_unique<FunctionSink>(std::move(function)));
  return all;
}

int64_t step_of(const Record& record) { return std::get<StepRecord>(record).step; }

TEST(Recorder, GivesEverySinkEveryRecordInOrder) {
  constexpr int64_t kSteps = 1000;
  std::vector<int64_t> first, second;
  Recorder recorder(sinks({[&](const Record& record) { first.push_back(step_of(record)); },
                           [&](const Record& record) { second.push_back(step_of(record)); }}));
  for (int64_t number = 1; number <= kSteps; ++number) recorder.add(step(number));
  EXPECT_TRUE(recorder.finish(10s));
  ASSERT_EQ(first.size(), static_cast<size_t>(kSteps));
  for (int64_t number = 1; number <= kSteps; ++number) EXPECT_EQ(first[static_cast<size_t>(number - 1)], number);
  EXPECT_EQ(second, first);
  EXPECT_TRUE(recorder.take_failures().empty());
}

TEST(Recorder, ReportsASinkThatFailsOnceAndGoesOn) {
  std::atomic<int> calls = 0, others = 0;
  Recorder recorder(sinks({[&](const Record&) {
                             ++calls;
                             throw std::runtime_error("no such thing");
                           },
                           [&](const Record&) { ++others; }}));
  for (int round = 0; round < 3; ++round) {
    recorder.add(step(1));
    EXPECT_TRUE(recorder.finish(10s));
  }
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(others, 3);
  EXPECT_EQ(recorder.take_failures(),
            std::vector<std::string>{"a sink of the program fails: no such thing; training goes on without it"});
  EXPECT_TRUE(recorder.take_failures().empty());
}

/// Fails to flush until it is told that there is room.
class FullSink : public RecordSink {
 public:
  FullSink(std::atomic<bool>& full, std::atomic<int>& flushed) : full_(full), flushed_(flushed) {}
  std::string name() const override { return "the disk"; }
  void add(const Record&) override {}
  void flush() override {
    if (full_) throw std::runtime_error("full");
    ++flushed_;
  }

 private:
  std::atomic<bool>& full_;
  std::atomic<int>& flushed_;
};

TEST(Recorder, FlushesAgainAfterAFailure) {
  std::atomic<bool> full = true;
  std::atomic<int> flushed = 0;
  std::vector<std::unique_ptr<RecordSink>> all;
  all.push_back(std::make_unique<FullSink>(full, flushed));
  Recorder recorder(std::move(all));
  for (int round = 0; round < 3; ++round) EXPECT_TRUE(recorder.finish(10s));
  EXPECT_EQ(recorder.take_failures(), std::vector<std::string>{"the disk fails: full; training goes on"});
  full = false;
  EXPECT_TRUE(recorder.finish(10s));
  EXPECT_GE(flushed, 1);
}

TEST(Recorder, LeavesASinkBehindThatHangs) {
  auto release = std::make_shared<std::promise<void>>();
  std::shared_future<void> released = release->get_future().share();
  const auto begin = std::chrono::steady_clock::now();
  {
    Recorder recorder(sinks({[released](const Record&) { released.wait(); }}));
    recorder.add(step(1));
    EXPECT_FALSE(recorder.finish(50ms));
    recorder.add(step(2));  // does not wait
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 20s);
  release->set_value();
}

TEST(Recorder, SaysThatStepsAreLostWhereASinkIsTooSlow) {
  auto release = std::make_shared<std::promise<void>>();
  std::shared_future<void> released = release->get_future().share();
  std::atomic<int64_t> last = 0;
  Recorder recorder(sinks({[released, &last](const Record& record) {
    released.wait();
    last = step_of(record);
  }}));
  recorder.add(step(1));
  EXPECT_FALSE(recorder.finish(50ms));  // the sink has the first
  constexpr int64_t kMany = 150'000;
  for (int64_t number = 2; number <= kMany; ++number) recorder.add(step(number));
  EXPECT_EQ(recorder.take_failures(),
            std::vector<std::string>{"records are written more slowly than steps are done: some of step 2 and later are lost"});
  release->set_value();
  EXPECT_TRUE(recorder.finish(30s));
  EXPECT_EQ(last, kMany);
}

}  // namespace
}  // namespace weft::recorder_test
