// The first ranks of a world as a separate world.
#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include "tests/support/run_processes.h"
#include "tests/support/run_ranks.h"
#include "weft/base/error.h"
#include "weft/comm/mesh.h"

namespace weft::world_part_test {
namespace {

/// The sum of rank + 1 over all ranks of the world.
double sum_over(const World& world) {
  const Mesh mesh(world, {{"dp", world.size()}});
  const at::Tensor x = at::full({4}, world.rank() + 1.0);
  mesh.group(mesh.axis("dp")).all_reduce(x, ReduceOp::sum, "numbers").wait();
  return x[0].item<double>();
}

double expected(int size) { return size * (size + 1) / 2.0; }

void use_parts(const World& world) {
  EXPECT_EQ(sum_over(world), expected(world.size()));
  for (int size = 1; size <= world.size(); ++size) {
    const std::optional<World> part = world.part(size);
    ASSERT_EQ(part.has_value(), world.rank() < size);
    if (!part) continue;
    EXPECT_EQ(part->rank(), world.rank());
    EXPECT_EQ(part->size(), size);
    EXPECT_EQ(part->local_size(), size);
    EXPECT_EQ(sum_over(*part), expected(size));
    EXPECT_EQ(sum_over(*part), expected(size)) << "another group of it";
  }
  EXPECT_EQ(sum_over(world), expected(world.size())) << "the whole world continues";
}

TEST(WorldPart, MeetsSeparately) {
  for (const int size : {1, 2, 4}) test::run_ranks(size, use_parts);
}

TEST(WorldPart, MeetsSeparatelyAsProcesses) {
  const auto results = test::run_processes(3, [](const World& world) -> std::string {
    use_parts(world);
    return testing::Test::HasFailure() ? "failed" : "";
  });
  for (const test::ProcessResult& result : results) {
    EXPECT_TRUE(result.ended);
    EXPECT_EQ(result.error + result.output, "");
  }
}

// Ranks 0 and 1 create different groups of a part, which fails; rank 2 does not notice, and all continue.
TEST(WorldPart, ItsFailureStaysInside) {
  test::run_ranks(3, [](const World& world) {
    if (const std::optional<World> part = world.part(2)) {
      const Mesh mesh(*part, {{"dp", 2}, {"tp", 1}});
      EXPECT_THROW(mesh.group(part->rank() == 0 ? mesh.axis("dp") : mesh.join({"dp", "tp"})), CommError);
    }
    EXPECT_EQ(sum_over(world), expected(3));
  });
}

TEST(WorldPart, HasAtLeastOneRankAndAtMostAll) {
  EXPECT_THROW(World::threads(2)[0].part(3), InputError);
  EXPECT_THROW(World().part(0), InputError);
}

}  // namespace
}  // namespace weft::world_part_test
