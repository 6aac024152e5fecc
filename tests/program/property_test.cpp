// Random layouts verify; random damage to them is found.
#include <gtest/gtest.h>

#include <random>

#include "tests/program/toy.h"
#include "weft/base/error.h"
#include "weft/program/build.h"
#include "weft/program/order.h"
#include "weft/program/passes/waits.h"
#include "weft/program/verify.h"

namespace weft {
namespace {

constexpr int kPrograms = 150;
constexpr int kDamages = 12;  // of each kind, per program

class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}
  int below(int n) { return std::uniform_int_distribution<int>(0, n - 1)(engine_); }

 private:
  std::mt19937 engine_;
};

ModelCost random_model(Random& random) {
  const int num_blocks = 1 + random.below(7);
  ModelCost model = toy_model(num_blocks);
  for (BlockCost& block : model.blocks) block.numel = random.below(4) == 0 ? 0 : 64 * (1 + random.below(40));
  model.blocks[random.below(num_blocks)].numel = 640;  // of a model without parameters nothing would be missed
  if (num_blocks > 1 && random.below(3) == 0) {        // tied weights, at the ends or anywhere
    const int reader = random.below(2) == 0 ? num_blocks - 1 : 1 + random.below(num_blocks - 1);
    model.blocks[reader].uses = {random.below(reader)};
  }
  return model;
}

StepLayout random_layout(Random& random) {
  const int slots = 1 << random.below(4);
  const auto level = static_cast<ShardLevel>(random.below(4));
  return {.dp = 1 + random.below(5),
          .shard = 1 + random.below(4),
          .shard_level = level,
          .reshard_after_forward = random.below(3) > 0,
          .prefetch = random.below(4),
          .recompute = {.every = random.below(4)},
          .offload = {.activations = random.below(2) == 0,
                      .optimizer = random.below(2) == 0,
                      .weights = level == ShardLevel::parameters && random.below(2) == 0},
          .weight_bytes = 2 << random.below(2),
          .gradient_bytes = 2 << random.below(2),
          .keep_order = slots > 1 || random.below(3) == 0,
          .check_finite = random.below(4) == 0,
          .micro_batches = slots * (1 + random.below(3)),
          .slots = slots,
          .bucket_bytes = 1 + random.below(20000),
          .clip = random.below(2) == 0};
}

Program random_program(Random& random) {
  const ModelCost model = random_model(random);
  StepLayout layout = random_layout(random);
  if (random.below(3) == 0) layout.gathered_bytes = 1 + random.below(40000);
  try {
    return build_program(model, layout);
  } catch (const InputError&) {  // a limit that some block is above
    layout.gathered_bytes = 0;
    return build_program(model, layout);
  }
}

bool is_clean(const Program& program, std::string* why = nullptr) {
  try {
    verify(program);
    return true;
  } catch (const VerifyError& error) {
    if (why != nullptr) *why = error.what();
    return false;
  }
}

Program with(const Program& program, InstructionList list) {
  Program result = program;
  result.lists = {std::move(list)};
  return result;
}

void damage_by_dropping(const Program& program, Random& random) {
  InstructionList list = program.of(0);
  const int i = random.below(static_cast<int>(list.size()));
  if (list[i].op == Op::norm) return;  // a step without clipping is a good step
  // The next one takes in what this one would have.
  if (list[i].op == Op::reduce_scatter && list[i].micro < program.micro_batches - 1) return;
  list.erase(list.begin() + i);
  EXPECT_FALSE(is_clean(with(program, link_waits(list, program, program.buffers[0]))))
      << "dropped " << describe(program.of(0)[i], program.block_names);
}

void damage_by_doubling(const Program& program, Random& random) {
  InstructionList list = program.of(0);
  const int size = static_cast<int>(list.size());
  const int i = random.below(size);
  list.insert(list.begin() + random.below(size + 1), program.of(0)[i]);
  EXPECT_FALSE(is_clean(with(program, link_waits(list, program, program.buffers[0]))))
      << "doubled " << describe(program.of(0)[i], program.block_names);
}

// Swaps an instruction with one that waits for it.
void damage_by_swapping(const Program& program, Random& random) {
  InstructionList list = program.of(0);
  const int i = random.below(static_cast<int>(list.size()));
  if (list[i].waits.empty()) return;
  const int j = list[i].waits[random.below(static_cast<int>(list[i].waits.size()))];
  std::swap(list[i], list[j]);
  EXPECT_FALSE(is_clean(with(program, link_waits(list, program, program.buffers[0]))))
      << "swapped " << j << " and " << i << ", " << describe(program.of(0)[i], program.block_names);
}

void damage_by_not_waiting(const Program& program, Random& random) {
  InstructionList list = program.of(0);
  const int i = random.below(static_cast<int>(list.size()));
  if (list[i].waits.empty()) return;
  const int j = list[i].waits[random.below(static_cast<int>(list[i].waits.size()))];
  std::erase(list[i].waits, j);
  if (Order(list).before(j, i)) return;  // something else still makes sure of it
  EXPECT_FALSE(is_clean(with(program, list))) << i << " no longer waits for " << j;
}

TEST(Property, random_layouts_verify_and_random_damage_is_found) {
  for (unsigned seed = 0; seed < kPrograms; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Random random(seed);
    const Program program = random_program(random);
    std::string why;
    ASSERT_TRUE(is_clean(program, &why)) << why;
    for (int i = 0; i < kDamages; ++i) {
      damage_by_dropping(program, random);
      damage_by_doubling(program, random);
      damage_by_swapping(program, random);
      damage_by_not_waiting(program, random);
    }
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace weft
