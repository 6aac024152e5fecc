// The net is tight: where one wait of a training is left out, the checked device says so.
#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <vector>

#include "tests/device/on_device.h"
#include "weft/checked_device.h"

namespace weft::device_mutation_test {
namespace {

using checked_device::Ordering;

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
  return all;
}

/// One step on two ranks; what was said, and thrown.
std::string train(const Layout& layout) {
  std::string said;
  try {
    train_ranks(job(layout.job), on_device(layout.strategy), 2, AdamW{}, 1);
  } catch (const std::exception& error) {
    said = error.what();
  }
  return said + said_of_device();
}

class Mutations : public testing::TestWithParam<Layout> {};

/// A wait may be covered by the next ones: those of later calls of the same group, before anything uses its memory. Then it is
/// left out with them.
TEST_P(Mutations, EachWaitThatIsLeftOutIsFound) {
  const Layout& layout = GetParam();
  on_device({});
  const auto waits = [] { return checked_device::orderings(Ordering::wait, 0); };
  const uint64_t before = waits();
  ASSERT_EQ(train(layout), "");
  const uint64_t count = waits() - before;
  ASSERT_GT(count, 0U);
  checked_device::set_throws(false);  // values are right, so the step goes on
  uint64_t alone = 0;
  for (uint64_t first = 0; first < count; ++first) {
    std::string said;
    for (uint64_t with = 1; said.empty() && first + with <= count; ++with) {
      checked_device::drop_orderings(Ordering::wait, 0, first, with);
      said = train(layout);
      alone += with == 1 && !said.empty();
    }
    EXPECT_NE(said, "") << "wait " << first << " of " << count;
  }
  checked_device::drop_orderings(Ordering::wait, 0, 0, 0);
  checked_device::set_throws(true);
  RecordProperty("waits", static_cast<int>(count));
  RecordProperty("found alone", static_cast<int>(alone));
}

INSTANTIATE_TEST_SUITE_P(Table, Mutations, testing::ValuesIn(layouts()), [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace weft::device_mutation_test
