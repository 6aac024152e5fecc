// The net is tight: where one wait, guard or synchronisation of a training is left out, the checked device says so. What weft
// has none of is counted too: one that is added must be covered here.
#include <ATen/DeviceAccelerator.h>
#include <gtest/gtest.h>

#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "tests/data/temp_folder.h"
#include "tests/device/on_device.h"
#include "tests/device/without_index.h"
#include "tests/support/run_ranks.h"
#include "weft/checked_device.h"

namespace weft::device_mutation_test {
namespace {

using checked_device::Ordering;

/// How many of a kind there are, and which were found.
struct Tally {
  uint64_t all = 0, alone = 0;
  std::vector<uint64_t> unseen;  ///< numbers of those that are not found, nor with all that follow
};

/// Leaves out one after another. One may be covered by the next: then it is left out with them.
Tally leave_out(Ordering kind, int device, const std::function<std::string()>& train) {
  on_device({});
  train();  // makes what a process makes once
  const uint64_t before = checked_device::orderings(kind, device);
  EXPECT_EQ(train(), "");
  Tally tally;
  tally.all = checked_device::orderings(kind, device) - before;
  checked_device::set_throws(false);  // values are right, so the training goes on
  for (uint64_t first = 0; first < tally.all; ++first) {
    std::string said;
    for (uint64_t count = 1; said.empty() && first + count <= tally.all; ++count) {
      checked_device::drop_orderings(kind, device, first, count);
      said = train();
      tally.alone += count == 1 && !said.empty();
    }
    if (said.empty()) tally.unseen.push_back(first);
    testing::Test::RecordProperty("without " + std::to_string(first), said.substr(0, said.find('\n')));
  }
  checked_device::drop_orderings(kind, device, 0, 0);
  checked_device::set_throws(true);
  testing::Test::RecordProperty("left out", static_cast<int>(tally.all));
  testing::Test::RecordProperty("found alone", static_cast<int>(tally.alone));
  return tally;
}

/// What is said of a training, and thrown.
std::string said_of(const std::function<void()>& train) {
  std::string said;
  try {
    train();
  } catch (const std::exception& error) {
    said = error.what();
  }
  return said + said_of_device();
}

struct Layout {
  const char* name;
  const char* job;
  Strategy strategy;
};
void PrintTo(const Layout& layout, std::ostream* out) { *out << layout.name; }

std::vector<Layout> layouts() {
  std::vector<Layout> all = {{"dp", "mlp", {.clip = 0.05}},
                             {"shard", "mlp", {.clip = 0.05, .spread = Spread::shard}},
                             {"pp", "deep_gpt", {.micro_batch = 4, .clip = 0.05, .pp = 2}},
                             {"tp", "split_gpt", {.clip = 0.05, .tp = 2}},
                             {"cp", "split_gpt", {.clip = 0.05, .cp = 2}}};
  all[1].strategy.layout.shard_level = ShardLevel::parameters;
  all.push_back({"batches", "mlp", {.micro_batch = 2, .clip = 0.05, .pinned = true}});
  all.push_back({"offload", "mlp", all[1].strategy});
  LayoutOptions& offloaded = all.back().strategy.layout;
  offloaded.recompute_every = 1;
  offloaded.offload_optimizer = offloaded.offload_parameters = offloaded.offload_activations = Offload::host;
  for (Layout& layout : all) layout.strategy.there = !layout.strategy.pinned;
  return all;
}

/// One step on two ranks. Without its numbers the host waits for nothing, and what ends with it has to be ordered too.
std::string train(const Layout& layout, bool reads = true) {
  Strategy strategy = on_device(layout.strategy);
  strategy.steps_only = !reads;
  return said_of([&] { train_ranks(job(layout.job), strategy, 2, AdamW{}, 1); });
}

class Mutations : public testing::TestWithParam<Layout> {};

/// Waits for later calls of the same group cover earlier ones, before anything uses their memory.
TEST_P(Mutations, EachWaitThatIsLeftOutIsFound) {
  const Tally waits = leave_out(Ordering::wait, 0, [&] { return train(GetParam(), /*reads=*/false); });
  EXPECT_GT(waits.all, 0U);
  EXPECT_EQ(waits.unseen, std::vector<uint64_t>());
}

/// All work is on one stream; the groups' calls and the copies, on their own ones, keep their tensors; host and device share no
/// memory in a step but its numbers, for which the host waits.
TEST_P(Mutations, AStepHasNoRecordedStreamsAndOneWaitOfTheHost) {
  on_device({});
  const auto orderings_of = [](Ordering kind) {
    const uint64_t before = checked_device::orderings(kind, 0);
    EXPECT_EQ(train(GetParam()), "");
    return checked_device::orderings(kind, 0) - before;
  };
  EXPECT_EQ(orderings_of(Ordering::record_stream), 0U) << "leave each out in a test of this file";
  EXPECT_EQ(orderings_of(Ordering::synchronise), 1U) << "leave each out in HostWaits";
}

INSTANTIATE_TEST_SUITE_P(Table, Mutations, testing::ValuesIn(layouts()), [](const auto& info) { return info.param.name; });

/// Ranks have the devices 2 and 3, and their threads begin with device 0, as all do. The blocks allocate without an index.
std::string train_elsewhere() {
  return said_of([] {
    test::run_ranks(2, [](const World& world) {
      const int64_t share = kGlobalBatch / 2;
      {
        Trainer trainer(Mesh(world, {{"dp", 2}}), job_without_index().model(), Sgd{},
                        {.global_batch = kGlobalBatch,
                         .micro_batch = share,
                         .communication = {.device = {at::kPrivateUse1, static_cast<at::DeviceIndex>(2 + world.rank())}}});
        trainer.step(slice(job_without_index().batch_of(0), world.rank() * share, share));
      }
      if (at::accelerator::getDeviceIndex() != 0) throw Error("the caller's device is not current any more");
    });
  });
}

/// The thread that watches calls only asks events, which shows together with the next guard.
class Guards : public testing::TestWithParam<int> {};

TEST_P(Guards, EachThatIsLeftOutIsFound) {
  const Tally guards = leave_out(Ordering::set_device, GetParam(), train_elsewhere);
  EXPECT_GT(guards.alone, 0U);
  EXPECT_EQ(guards.unseen, std::vector<uint64_t>());
}

INSTANTIATE_TEST_SUITE_P(Devices, Guards, testing::Values(3, 0));

/// A save in the background writes from pinned memory, to which the step's thread has copied the state.
void save(const std::string& folder) {
  test::run_ranks(1, [&](const World& world) {
    on_device({});
    Trainer trainer(
        Mesh(world, {{"dp", 1}}), job("mlp").model(), Sgd{},
        {.global_batch = kGlobalBatch, .micro_batch = kGlobalBatch, .communication = {.device = {at::kPrivateUse1, 0}}});
    trainer.step(job("mlp").batch_of(0));
    trainer.save_in_background(folder, {.replace = true});
    trainer.finish_save();
  });
}

class HostWaits : public testing::Test {
 protected:
  void SetUp() override { testing::FLAGS_gtest_death_test_style = "threadsafe"; }
};

TEST_F(HostWaits, TheOneOfAStepIsFound) {
  const Strategy strategy = on_device({.clip = 0.05});
  const auto train_without = [&strategy] {
    checked_device::drop_orderings(Ordering::synchronise, 0, 0, 1);
    train_ranks(job("mlp"), strategy, 1, AdamW{}, 1);
  };
  EXPECT_DEATH(train_without(), "pinned memory that copy to the host .* writes; the host has not waited for it");
}

TEST_F(HostWaits, EachThatASaveLeavesOutIsFound) {
  const test::TempFolder folder;
  on_device({});
  const uint64_t before = checked_device::orderings(Ordering::synchronise, 0);
  save(folder.file("step-1"));
  const uint64_t count = checked_device::orderings(Ordering::synchronise, 0) - before;
  EXPECT_GT(count, 0U);
  for (uint64_t one = 0; one < count; ++one) {
    EXPECT_DEATH(
        {
          checked_device::drop_orderings(Ordering::synchronise, 0, one, 1);
          save(folder.file("step-1"));
        },
        "pinned memory that copy to the host .* writes; the host has not waited for it");
  }
}

}  // namespace
}  // namespace weft::device_mutation_test
