// Waits, and the resulting order of instructions on overlapping lanes.
#include "weft/program/passes/waits.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/program/toy.h"
#include "weft/program/build/build.h"
#include "weft/program/verify/order.h"

namespace weft {
namespace {

std::string waits_text(const InstructionList& list) {
  std::string result;
  for (size_t i = 0; i < list.size(); ++i) {
    result += fmt::format("{}{}:", i == 0 ? "" : " ", name(list[i].op));
    for (size_t k = 0; k < list[i].waits.size(); ++k) result += fmt::format("{}{}", k == 0 ? "" : ",", list[i].waits[k]);
  }
  return result;
}

TEST(Waits, of_a_whole_step) {
  const Program program = build_program(toy_model(2), {.dp = 2, .bucket_bytes = 1, .clip = true});
  EXPECT_EQ(waits_text(program.of(0)),
            "load: forward:0 forward:1 loss:2 reduce_loss:3 backward:3 reduce:5 backward:5 reduce:7 "
            "norm:4,6,8 update:4,6,9 update:4,8,9");
}

TEST(Waits, of_slots) {
  const Program program = build_program(toy_model(1), {.micro_batches = 2, .slots = 2});
  // The second backward waits for the combine that zeroed the gradients, the second combine for the stash as well.
  EXPECT_EQ(
      waits_text(program.of(0)),
      "load: forward:0 loss:1 backward:2 combine:3 load: forward:5 loss:6 reduce_loss:7 backward:7 combine:9 update:8,10");
}

TEST(Waits, of_sharded_gradients) {
  const Program program = build_program(toy_model(2), {.shard = 2, .shard_level = ShardLevel::gradients, .prefetch = 0});
  // The first block's backward waits until the second one's gradients have left the buffer they share.
  EXPECT_EQ(waits_text(program.of(0)),
            "load: forward:0 forward:1 loss:2 reduce_loss:3 backward:3 reduce_scatter:5 backward:5,6 reduce_scatter:7 "
            "update:4,6 update:4,8 gather:9 gather:10");
}

TEST(Waits, of_sharded_parameters) {
  const Program program = build_program(toy_model(2), {.shard = 2, .shard_level = ShardLevel::parameters, .prefetch = 0});
  EXPECT_EQ(waits_text(program.of(0)),
            "load: gather: forward:0,1 release:1 gather:3 forward:2,4 loss:5 reduce_loss:6 backward:4,6 release:4 "
            "reduce_scatter:8 gather:9 backward:8,10,11 release:11 reduce_scatter:12 update:7,10 update:7,14");
}

TEST(Waits, of_a_prefetched_gather) {
  const Program program = build_program(toy_model(3), {.shard = 2, .shard_level = ShardLevel::parameters});
  const InstructionList& list = program.of(0);
  // It has its own buffer besides the running block's, and waits for nothing; the next one waits for its buffer.
  EXPECT_TRUE(list[find(list, "gather1")].waits.empty());
  EXPECT_EQ(list[find(list, "gather2")].waits, std::vector<int>{find(list, "release0")});
  const Order order(list);
  EXPECT_FALSE(order.before(find(list, "gather1"), find(list, "forward0.0")));
  EXPECT_TRUE(order.before(find(list, "gather1"), find(list, "forward1.0")));
}

TEST(Waits, blocks_without_parameters_wait_for_no_buffer) {
  ModelCost model = toy_model(2);
  model.blocks[0].numel = 0;
  const Program program = build_program(model, {.shard = 2, .shard_level = ShardLevel::gradients, .prefetch = 0});
  const InstructionList& list = program.of(0);
  EXPECT_EQ(list[find(list, "backward0.0")].waits, std::vector<int>{find(list, "backward1.0")});
}

TEST(Waits, for_moves) {
  const Program program = build_program(
      toy_model(3), {.recompute = {.every = 1}, .offload = {.activations = true, .optimizer = true}, .bucket_bytes = 1});
  const InstructionList& list = program.of(0);
  const auto waits = [&](const std::string& who) { return list[find(list, who)].waits; };
  EXPECT_EQ(waits("offload_input1.0"), std::vector<int>{find(list, "drop1.0")});
  EXPECT_EQ(waits("reload_input1.0"), (std::vector<int>{find(list, "drop1.0"), find(list, "offload_input1.0")}));
  const std::vector<int> again = list[find(list, "forward1.0", 1)].waits;
  EXPECT_EQ(std::count(again.begin(), again.end(), find(list, "reload_input1.0")), 1);
  EXPECT_TRUE(waits("reload_optimizer1").empty()) << "it may come as early as there is room";
  EXPECT_EQ(waits("offload_optimizer1"), std::vector<int>{find(list, "update1-1")});
}

TEST(Waits, a_list_without_producers_gets_no_waits) {
  const InstructionList list =
      link_waits({{.op = Op::backward, .first = 0, .last = 1, .micro = 0}, {.op = Op::update, .first = 1, .last = 2}},
                 toy_program(toy_model(2)), {});
  EXPECT_TRUE(list[0].waits.empty());
  EXPECT_TRUE(list[1].waits.empty());
}

TEST(Order, compute_runs_in_order_and_other_lanes_overlap) {
  InstructionList list(5);
  list[1].lane = Lane::comm;
  list[1].waits = {0};
  list[3].lane = Lane::comm;
  list[4].waits = {3};
  const Order order(list);
  EXPECT_TRUE(order.before(0, 1));
  EXPECT_TRUE(order.before(0, 2));   // same lane
  EXPECT_FALSE(order.before(1, 2));  // nothing waited for it
  EXPECT_FALSE(order.before(0, 3));  // only starts after 0 has started
  EXPECT_FALSE(order.before(1, 3));  // collectives may finish in any order
  EXPECT_TRUE(order.before(3, 4));
  EXPECT_FALSE(order.before(1, 4));
  EXPECT_FALSE(order.before(4, 3));
  EXPECT_FALSE(order.before(2, 2));
  EXPECT_FALSE(order.before(-1, 2));
}

TEST(Order, waits_are_transitive) {
  InstructionList list(4);
  list[0].lane = Lane::comm;
  list[1].waits = {0};
  list[3].lane = Lane::copy;
  list[3].waits = {2};
  const Order order(list);
  EXPECT_TRUE(order.before(0, 2));  // through 1, which is on the same lane as 2
  EXPECT_TRUE(order.before(0, 3));
  EXPECT_TRUE(order.before(1, 3));
}

}  // namespace
}  // namespace weft
