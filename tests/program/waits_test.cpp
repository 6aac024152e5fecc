// Who waits for whom, and what that says about the order of instructions on lanes that run side by side.
#include "weft/program/passes/waits.h"

#include <gtest/gtest.h>

#include "tests/program/toy.h"
#include "weft/program/build.h"
#include "weft/program/order.h"

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

TEST(Waits, a_list_without_producers_gets_none) {
  const InstructionList list =
      link_waits({{.op = Op::backward, .first = 0, .last = 1, .micro = 0}, {.op = Op::update, .first = 1, .last = 2}});
  EXPECT_TRUE(list[0].waits.empty());
  EXPECT_TRUE(list[1].waits.empty());
}

TEST(Order, compute_runs_in_order_and_the_rest_beside_it) {
  InstructionList list(5);
  list[1].lane = Lane::comm;
  list[1].waits = {0};
  list[3].lane = Lane::comm;
  list[4].waits = {3};
  const Order order(list);
  EXPECT_TRUE(order.before(0, 1));
  EXPECT_TRUE(order.before(0, 2));   // same lane
  EXPECT_FALSE(order.before(1, 2));  // nobody waited for it
  EXPECT_FALSE(order.before(0, 3));  // starts after 0 has started, no more
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
