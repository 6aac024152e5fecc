// Lists made from schedules: every schedule on two ranks word for word, and properties that hold for any number.
#include "weft/program/build/stages.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <set>

#include "tests/program/pipeline/schedule_table.h"
#include "weft/base/error.h"
#include "weft/program/cost.h"
#include "weft/program/pipeline/task_times.h"
#include "weft/program/verify/verify.h"

namespace weft {
namespace {

struct Expected {
  const char* schedule;
  const char* ranks[2];
};

// One block per stage, two micro-batches.
const Expected kLists[] = {
    {"naive",
     {"load0 forward0.0 send_activation0.0>1 receive_gradient0.0<1 backward0.0 "
      "load1 forward0.1 send_activation0.1>1 receive_gradient0.1<1 backward0.1",
      "receive_activation0.0<0 forward1.0 load0 loss0 backward1.0 send_gradient0.0>0 "
      "receive_activation0.1<0 forward1.1 load1 loss1 backward1.1 send_gradient0.1>0"}},
    {"gpipe",
     {"load0 forward0.0 send_activation0.0>1 load1 forward0.1 send_activation0.1>1 "
      "receive_gradient0.0<1 backward0.0 receive_gradient0.1<1 backward0.1",
      "receive_activation0.0<0 forward1.0 receive_activation0.1<0 forward1.1 "
      "load0 loss0 backward1.0 send_gradient0.0>0 load1 loss1 backward1.1 send_gradient0.1>0"}},
    // The second activation arrives before the first backward: it is received by then, not only when needed.
    {"1f1b",
     {"load0 forward0.0 send_activation0.0>1 load1 forward0.1 send_activation0.1>1 "
      "receive_gradient0.0<1 backward0.0 receive_gradient0.1<1 backward0.1",
      "receive_activation0.0<0 forward1.0 receive_activation0.1<0 load0 loss0 backward1.0 send_gradient0.0>0 "
      "forward1.1 load1 loss1 backward1.1 send_gradient0.1>0"}},
    {"interleaved",
     {"load0 forward0.0 send_activation0.0>1 load1 forward0.1 send_activation0.1>1 receive_activation1.0<1 forward2.0 "
      "receive_activation1.1<1 send_activation2.0>1 forward2.1 send_activation2.1>1 receive_gradient2.0<1 backward2.0 "
      "send_gradient1.0>1 receive_gradient2.1<1 backward2.1 receive_gradient0.0<1 send_gradient1.1>1 backward0.0 "
      "receive_gradient0.1<1 backward0.1",
      "receive_activation0.0<0 forward1.0 receive_activation0.1<0 send_activation1.0>0 forward1.1 send_activation1.1>0 "
      "receive_activation2.0<0 forward3.0 receive_activation2.1<0 load0 loss0 backward3.0 send_gradient2.0>0 forward3.1 "
      "load1 loss1 backward3.1 receive_gradient1.0<0 send_gradient2.1>0 backward1.0 send_gradient0.0>0 "
      "receive_gradient1.1<0 backward1.1 send_gradient0.1>0"}},
    {"zb-h1",
     {"load0 forward0.0 send_activation0.0>1 load1 forward0.1 send_activation0.1>1 receive_gradient0.0<1 backward_input0.0 "
      "backward_weight0.0 receive_gradient0.1<1 backward_input0.1 backward_weight0.1",
      "receive_activation0.0<0 forward1.0 receive_activation0.1<0 load0 loss0 backward_input1.0 send_gradient0.0>0 "
      "forward1.1 load1 loss1 backward_input1.1 send_gradient0.1>0 backward_weight1.0 backward_weight1.1"}},
    {"zb-h2",
     {"load0 forward0.0 send_activation0.0>1 load1 forward0.1 send_activation0.1>1 receive_gradient0.0<1 backward_input0.0 "
      "backward_weight0.0 receive_gradient0.1<1 backward_input0.1 backward_weight0.1",
      "receive_activation0.0<0 forward1.0 receive_activation0.1<0 load0 loss0 backward_input1.0 send_gradient0.0>0 "
      "forward1.1 load1 loss1 backward_input1.1 send_gradient0.1>0 backward_weight1.0 backward_weight1.1"}},
    // Stages 1 and 2 are both on rank 1, so nothing is sent between them; rank 0 has the loss and loads once for both ends.
    {"zb-v",
     {"load0 forward0.0 send_activation0.0>1 load1 forward0.1 send_activation0.1>1 receive_activation2.0<1 forward3.0 loss0 "
      "backward_input3.0 receive_activation2.1<1 send_gradient2.0>1 backward_weight3.0 forward3.1 loss1 backward_input3.1 "
      "receive_gradient0.0<1 send_gradient2.1>1 backward_weight3.1 backward_input0.0 backward_weight0.0 "
      "receive_gradient0.1<1 backward_input0.1 backward_weight0.1",
      "receive_activation0.0<0 forward1.0 receive_activation0.1<0 forward2.0 send_activation2.0>0 forward1.1 forward2.1 "
      "send_activation2.1>0 receive_gradient2.0<0 backward_input2.0 backward_weight2.0 backward_input1.0 "
      "send_gradient0.0>0 receive_gradient2.1<0 backward_weight1.0 backward_input2.1 backward_weight2.1 backward_input1.1 "
      "send_gradient0.1>0 backward_weight1.1"}},
};

TEST(Stages, every_schedule_on_two_ranks) {
  for (const Expected& expected : kLists) {
    const Schedule schedule = schedule_named(expected.schedule).of(2, 2);
    const std::vector<InstructionList> lists = lists_of(splittable(toy_model(schedule.num_stages())), schedule);
    for (int rank : {0, 1}) EXPECT_EQ(text(lists[rank]), expected.ranks[rank]) << expected.schedule << ", rank " << rank;
  }
  for (const NamedSchedule& named : schedule_table()) {
    const auto is_it = [&](const Expected& expected) { return named.name == expected.schedule; };
    const bool has_row = std::any_of(std::begin(kLists), std::end(kLists), is_it);
    EXPECT_TRUE(has_row || named.chunks > 2) << named.name << ": write its lists into kLists";
  }
}

TEST(Stages, blocks_of_a_stage_run_one_after_another) {
  const ModelCost model = toy_model(5);
  const Schedule schedule = schedule_named("naive").of(2, 1);
  const std::vector<InstructionList> lists = stage_lists(model, schedule, stage_blocks(model, schedule, {0, 2}));
  EXPECT_EQ(text(lists[0]), "load0 forward0.0 forward1.0 send_activation1.0>1 receive_gradient1.0<1 backward1.0 backward0.0");
  EXPECT_EQ(text(lists[1]),
            "receive_activation1.0<0 forward2.0 forward3.0 forward4.0 load0 loss0 "
            "backward4.0 backward3.0 backward2.0 send_gradient1.0>0");
}

TEST(Stages, targets_are_loaded_before_a_head_that_takes_them) {
  ModelCost model = toy_model(2);
  model.head_takes_targets = true;
  EXPECT_EQ(text(lists_of(model, schedule_named("gpipe").of(2, 2))[1]),
            "receive_activation0.0<0 load0 forward1.0 receive_activation0.1<0 load1 forward1.1 "
            "loss0 backward1.0 send_gradient0.0>0 loss1 backward1.1 send_gradient0.1>0");
}

TEST(Stages, a_block_that_cannot_be_split_runs_its_whole_backward_with_the_first_part) {
  ModelCost model = splittable(toy_model(4));
  model.blocks[1].splits = false;
  const std::vector<InstructionList> lists = lists_of(model, schedule_named("zb-h1").of(2, 2));
  EXPECT_EQ(text(lists[0]),
            "load0 forward0.0 forward1.0 send_activation1.0>1 load1 forward0.1 forward1.1 send_activation1.1>1 "
            "receive_gradient1.0<1 backward1.0 backward_input0.0 backward_weight0.0 "
            "receive_gradient1.1<1 backward1.1 backward_input0.1 backward_weight0.1");
}

// Every schedule in many sizes, two blocks per stage.
struct Pipeline {
  const NamedSchedule& named;
  int pp, micro_batches;
  Schedule schedule;
  ModelCost model;
  std::vector<InstructionList> lists;
};

void for_each(const std::function<void(const Pipeline&)>& check) {
  for (const NamedSchedule& named : schedule_table()) {
    for (const int pp : {1, 2, 3, 4, 8}) {
      for (const int micro_batches : {pp, 2 * pp, 3 * pp + (named.multiple_of_ranks ? 0 : 1)}) {
        SCOPED_TRACE(fmt::format("{}, {} ranks, {} micro-batches", named.name, pp, micro_batches));
        const Schedule schedule = named.of(pp, micro_batches);
        const ModelCost model = splittable(toy_model(2 * schedule.num_stages()));
        check({named, pp, micro_batches, schedule, model, lists_of(model, schedule)});
      }
    }
  }
}

TEST(Stages, only_the_ranks_of_the_first_and_the_last_stage_load) {
  for_each([](const Pipeline& x) {
    const int first = x.schedule.rank_of_stage.front(), last = x.schedule.rank_of_stage.back();
    for (int rank = 0; rank < x.pp; ++rank) {
      const InstructionList& list = x.lists[rank];
      EXPECT_EQ(count(list, Op::load), rank == first || rank == last ? x.micro_batches : 0) << "rank " << rank;
      EXPECT_EQ(count(list, Op::loss), rank == last ? x.micro_batches : 0) << "rank " << rank;
      for (const Instruction& one : list) {
        if (one.op != Op::load) continue;
        EXPECT_EQ(one.allocates, rank == first ? x.model.input_bytes : 0) << "targets count as nothing";
      }
    }
  });
}

// Input gradients may be made in any order; the loader hands targets out in its own.
TEST(Stages, targets_are_loaded_in_order_in_every_schedule) {
  const auto tasks = [](int stage) {
    std::vector<Task> all;
    for (int m : {0, 1, 2}) all.push_back({TaskKind::forward, stage, m});
    for (int m : {1, 2, 0}) all.push_back({TaskKind::backward_input, stage, m});
    for (int m : {0, 1, 2}) all.push_back({TaskKind::backward_weight, stage, m});
    return all;
  };
  const Schedule schedule{.name = "mixed", .micro_batches = 3, .rank_of_stage = {0, 1}, .tasks = {tasks(0), tasks(1)}};
  const std::vector<InstructionList> lists = lists_of(splittable(toy_model(2)), schedule);
  EXPECT_EQ(text(lists[1]),
            "receive_activation0.0<0 forward1.0 receive_activation0.1<0 forward1.1 receive_activation0.2<0 forward1.2 "
            "load0 load1 loss1 backward_input1.1 send_gradient0.1>0 load2 loss2 backward_input1.2 send_gradient0.2>0 "
            "loss0 backward_input1.0 send_gradient0.0>0 backward_weight1.0 backward_weight1.1 backward_weight1.2");
  EXPECT_NO_THROW(verify(build_program(splittable(toy_model(2)), {.pp = 2, .schedule = schedule, .micro_batches = 3})));
}

TEST(Stages, all_work_is_done_once) {
  for_each([](const Pipeline& x) {
    StepCost all;
    for (const InstructionList& list : x.lists) {
      all.forward_flops += step_cost(list).forward_flops;
      all.backward_flops += step_cost(list).backward_flops;
    }
    const StepCost one = step_cost(one_stage(x.model));
    EXPECT_DOUBLE_EQ(all.forward_flops, x.micro_batches * one.forward_flops);
    EXPECT_DOUBLE_EQ(all.backward_flops, x.micro_batches * one.backward_flops);
  });
}

std::string message(const Instruction& x) { return fmt::format("{}{}.{}", name(x.what), x.first, x.micro); }

std::vector<std::string> messages(const InstructionList& list, Op op, int peer) {
  std::vector<std::string> result;
  for (const Instruction& x : list) {
    if (x.op == op && x.peer == peer) result.push_back(message(x));
  }
  return result;
}

TEST(Stages, every_message_is_received_in_the_order_in_which_it_was_sent) {
  for_each([](const Pipeline& x) {
    size_t all = 0;
    for (int from = 0; from < x.pp; ++from) {
      for (int to = 0; to < x.pp; ++to) {
        const std::vector<std::string> sent = messages(x.lists[from], Op::send, to);
        EXPECT_EQ(sent, messages(x.lists[to], Op::receive, from)) << "from " << from << " to " << to;
        EXPECT_TRUE(from != to || sent.empty());
        all += sent.size();
      }
    }
    size_t crossings = 0;  // boundaries between stages of different ranks
    for (int s = 1; s < x.schedule.num_stages(); ++s) {
      crossings += x.schedule.rank_of_stage[s] != x.schedule.rank_of_stage[s - 1] ? 1 : 0;
    }
    EXPECT_EQ(all, 2 * crossings * static_cast<size_t>(x.micro_batches));
  });
}

// Messages can be numbered so that every rank issues its own in ascending order: no cyclic waits, even if a send waits for its
// receive.
TEST(Stages, messages_have_one_order_over_all_ranks) {
  for_each([](const Pipeline& x) {
    std::vector<std::vector<std::string>> left(x.pp);  // by rank, last one first
    for (int rank = 0; rank < x.pp; ++rank) {
      for (auto one = x.lists[rank].rbegin(); one != x.lists[rank].rend(); ++one) {
        if (is_transfer(one->op)) left[rank].push_back(message(*one));
      }
    }
    for (bool moved = true; moved;) {
      moved = false;
      std::map<std::string, std::vector<int>> ready;
      for (int rank = 0; rank < x.pp; ++rank) {
        if (!left[rank].empty()) ready[left[rank].back()].push_back(rank);
      }
      for (const auto& [what, ranks] : ready) {
        if (ranks.size() < 2) continue;
        for (const int rank : ranks) left[rank].pop_back();
        moved = true;
      }
    }
    for (int rank = 0; rank < x.pp; ++rank) EXPECT_TRUE(left[rank].empty()) << "rank " << rank << " never gets to the end";
  });
}

TEST(Stages, messages_cost_the_output_of_a_stage_once_each_way) {
  for_each([](const Pipeline& x) {
    for (const InstructionList& list : x.lists) {
      int64_t bytes = 0;
      for (const Instruction& one : list) {
        if (!is_transfer(one.op)) continue;
        const int64_t output = x.model.blocks[one.first].output_bytes;
        EXPECT_EQ(one.lane, Lane::comm);
        EXPECT_EQ(one.wire_bytes, one.op == Op::send ? output : 0);
        EXPECT_EQ(one.first % 2, 1) << "the last block of a stage";
        bytes += one.wire_bytes;
      }
      EXPECT_EQ(step_cost(list).transfer_wire_bytes, bytes);
      EXPECT_EQ(step_cost(list).wire_bytes(), bytes);
    }
  });
}

TEST(Stages, passed_on_tensors_are_sent_forward_and_only_take_memory_where_they_arrive) {
  for_each([](const Pipeline& x) {
    constexpr int64_t kPassed = 7;
    ModelCost model = x.model;
    for (BlockCost& block : model.blocks) block.passed_bytes = &block == &model.blocks.back() ? 0 : kPassed;
    const std::vector<InstructionList> lists = lists_of(model, x.schedule);
    for (int rank = 0; rank < x.pp; ++rank) {
      int64_t live = 0;
      for (size_t i = 0; i < lists[rank].size(); ++i) {
        const Instruction &one = lists[rank][i], &before = x.lists[rank][i];
        live += one.allocates - one.frees;
        if (one.op == Op::send) {
          EXPECT_EQ(one.wire_bytes, before.wire_bytes - (one.what == Payload::gradient ? kPassed : 0));
        }
        if (one.op == Op::receive) {
          EXPECT_EQ(one.allocates, before.allocates - (one.what == Payload::gradient ? kPassed : 0));
        }
      }
      EXPECT_EQ(live, 0) << "rank " << rank;
    }
  });
}

TEST(Stages, all_allocations_are_freed) {
  for_each([](const Pipeline& x) {
    for (int rank = 0; rank < x.pp; ++rank) {
      int64_t live = 0;
      for (const Instruction& one : x.lists[rank]) {
        live += one.allocates - one.frees;
        EXPECT_GE(live, 0) << "rank " << rank << ", " << text(one);
      }
      EXPECT_EQ(live, 0) << "rank " << rank;
    }
  });
}

// With only the activations kept for backward, a rank holds as much as the schedule says.
TEST(Stages, kept_activations_match_the_schedule) {
  for_each([](const Pipeline& x) {
    ModelCost model = x.model;
    model.input_bytes = 0;
    for (BlockCost& block : model.blocks) {
      block.saved_bytes = block.deferred_bytes = 100;
      block.output_bytes = 0;
    }
    const std::vector<InstructionList> lists = lists_of(model, x.schedule);
    for (int rank = 0; rank < x.pp; ++rank) {
      const int blocks = 2 * x.named.chunks;
      const double held = peak_activations(x.schedule, rank) * blocks * 100;
      // A backward's input part allocates the data for its weight part before it frees anything: briefly one block's worth.
      const bool splits = count(lists[rank], Op::backward_input) > 0;
      const auto peak = static_cast<double>(step_cost(lists[rank]).peak_activation_bytes);
      EXPECT_GE(peak, held) << "rank " << rank;
      EXPECT_LE(peak, held + (splits ? 100 : 0)) << "rank " << rank;
    }
  });
}

TEST(Stages, cuts_that_do_not_fit_are_refused) {
  struct Case {
    std::vector<int> first_block;
    const char* says;
  };
  const Case cases[] = {
      {{0}, "cut into 1 stages, but schedule gpipe has 2"},
      {{0, 1, 2}, "cut into 3 stages, but schedule gpipe has 2"},
      {{0, 0}, "stage 0 has blocks [0, 0) of 4; every stage needs at least one"},
      {{0, 4}, "stage 1 has blocks [4, 4) of 4"},
      {{0, 7}, "stage 1 has blocks [7, 4) of 4"},
      {{2, 1}, "stage 0 has blocks [2, 1) of 4"},
      {{1, 2}, "the first begins at block 0"},
      {{-1, 2}, "the first begins at block 0"},
  };
  const ModelCost model = toy_model(4);
  for (const Case& c : cases) {
    try {
      stage_blocks(model, schedule_named("gpipe").of(2, 2), c.first_block);
      ADD_FAILURE() << "passes, but should say: " << c.says;
    } catch (const InputError& error) {
      EXPECT_NE(std::string(error.what()).find(c.says), std::string::npos) << error.what() << "\nshould say: " << c.says;
    }
  }
}

TEST(Stages, even_cuts) {
  EXPECT_EQ(even_stages(8, 4), (std::vector<int>{0, 2, 4, 6}));
  EXPECT_EQ(even_stages(7, 4), (std::vector<int>{0, 2, 4, 6}));
  EXPECT_EQ(even_stages(5, 3), (std::vector<int>{0, 2, 4}));
  EXPECT_EQ(even_stages(3, 3), (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(even_stages(6, 1), (std::vector<int>{0}));
}

}  // namespace
}  // namespace weft
