// Programs that act differently have another fingerprint; programs that only cost something else do not.
#include "weft/program/fingerprint.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>

#include "tests/program/random_program.h"
#include "tests/program/verify/damage.h"

namespace weft {
namespace {

Program good_program() {
  return build_program(tied_model(4), pipelined({.dp = 2, .shard = 2, .shard_level = ShardLevel::parameters, .clip = true},
                                                schedule_named("1f1b"), 2, 4));
}

TEST(Fingerprint, is_that_of_any_build_of_the_same_program) {
  EXPECT_EQ(fingerprint(good_program()), fingerprint(good_program()));
  Program dearer = good_program();
  for (InstructionList& list : dearer.lists) {
    for (Instruction& x : list)
      x.flops += 1.0, x.wire_bytes += 1, x.copy_bytes += 1, x.peak += 1, x.allocates += 1, x.frees += 1;
  }
  EXPECT_EQ(fingerprint(dearer), fingerprint(good_program())) << "costs are estimates";
}

TEST(Fingerprint, covers_everything_in_the_program) {
  const std::vector<std::function<void(Program&)>> changes = {
      [](Program& x) { x.block_names[1] += "x"; },
      [](Program& x) { x.block_numel[1] += 64; },
      [](Program& x) { x.block_uses[3].clear(); },
      [](Program& x) { x.shard_level = ShardLevel::gradients; },
      [](Program& x) { std::swap(x.mesh.dp, x.mesh.pp), ++x.mesh.dp; },
      [](Program& x) { x.inner_shards = 2; },
      [](Program& x) { x.weight_bytes = 2; },
      [](Program& x) { x.gradient_bytes = 2; },
      [](Program& x) {
        x.gathered_gradient_bytes = {2, 2, 2, 2};
      },
      [](Program& x) { x.micro_batches = 8; },
      [](Program& x) { x.slots = 2; },
      [](Program& x) { x.copies = 2; },
      [](Program& x) { x.replicas = 1; },
      [](Program& x) { x.needs_norm = false; },
      [](Program& x) { x.noise_scale = true; },
      [](Program& x) { x.partial_gradients = true; },
      [](Program& x) { x.head_takes_targets = true; },
      [](Program& x) { x.votes = 1; },
      [](Program& x) { x.keep_order = true; },
      [](Program& x) { x.offload.optimizer = true; },
      [](Program& x) { x.holders[0] = {0}; },
      [](Program& x) { x.buffers[0].weight[0] = 1; },
      [](Program& x) { x.buffers[1].gradient.clear(); },
      [](Program& x) { x.list_of_rank[3] = 1; },
      [](Program& x) { std::swap(x.lists[0], x.lists[1]); },
      [](Program& x) { x.lists[0][5].lane = Lane::copy; },
      [](Program& x) { x.lists[0][5].waits.push_back(0); },
      [](Program& x) { x.lists[0][find(x.lists[0], Op::release)].keeps_inner_shard = true; },
  };
  std::map<uint64_t, size_t> seen = {{fingerprint(good_program()), changes.size()}};
  for (size_t i = 0; i < changes.size(); ++i) {
    Program program = good_program();
    changes[i](program);
    EXPECT_TRUE(seen.emplace(fingerprint(program), i).second) << "change " << i << " is not seen";
  }
}

TEST(Fingerprint, sees_random_damage) {
  for (const unsigned seed : test::seeds(100)) {
    test::Random random(seed);
    const RandomLayout layout = random_layout(random);
    const Program program = build_random(layout);
    for (const DamageKind kind : kDamageKinds) {
      if (kind == DamageKind::wrong_free) continue;  // costs do not count
      const std::optional<Damage> damaged = damage(program, kind, random);
      if (!damaged) continue;
      EXPECT_NE(fingerprint(damaged->program), fingerprint(program)) << test::replay(seed) << ", " << damaged->what;
    }
  }
}

}  // namespace
}  // namespace weft
