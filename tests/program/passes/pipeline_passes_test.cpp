// Passes on the lists of a pipeline: ties, losses, recompute and offload of several micro-batches in flight; whole steps word
// for word.
#include <gtest/gtest.h>

#include "tests/program/pipeline/schedule_table.h"
#include "weft/base/error.h"
#include "weft/program/buckets.h"
#include "weft/program/cost.h"
#include "weft/program/edit.h"
#include "weft/program/passes/norms.h"
#include "weft/program/passes/offload.h"
#include "weft/program/passes/recompute.h"
#include "weft/program/passes/slots.h"
#include "weft/program/passes/sum_losses.h"
#include "weft/program/passes/tie_weights.h"
#include "weft/program/stage_ranks.h"
#include "weft/program/verify/verify.h"

namespace weft {
namespace {

using enum ShardLevel;

std::string ties(const InstructionList& list, const Program& program) {
  const InstructionList tied = tie_weights(list, program);
  EXPECT_EQ(text({tied.begin(), tied.begin() + static_cast<std::ptrdiff_t>(list.size())}), text(list));
  return text({tied.begin() + static_cast<std::ptrdiff_t>(list.size()), tied.end()});
}

TEST(TieWeights, each_holder_sums_the_blocks_that_others_hold_too) {
  struct Case {
    const char* what;
    std::vector<std::vector<int>> holders;
    std::vector<int64_t> numel;
    const char* ranks[2];
  };
  const Case cases[] = {
      {"nothing is shared", {{0}, {0}, {1}, {1}}, {256, 256, 256, 256}, {"", ""}},
      {"the first block", {{0, 1}, {0}, {1}, {1}}, {256, 256, 256, 256}, {"reduce0-0@tied", "reduce0-0@tied"}},
      {"two blocks, in one order",
       {{0, 1}, {0, 1}, {1}, {1}},
       {256, 256, 256, 256},
       {"reduce0-0@tied reduce1-1@tied", "reduce0-0@tied reduce1-1@tied"}},
      {"without parameters", {{0, 1}, {0}, {1}, {1}}, {0, 256, 256, 256}, {"", ""}},
  };
  for (const Case& c : cases) {
    ModelCost model = toy_model(4);
    for (int b : {0, 1}) {
      if (c.holders[b].size() > 1) model.blocks[3].uses.push_back(b);
    }
    Program program = toy_program(model, {.micro_batches = 2, .mesh = {.pp = 2}, .holders = c.holders});
    program.block_numel = c.numel;
    const std::vector<InstructionList> lists = lists_of(model, schedule_named("1f1b").of(2, 2));
    for (int rank : {0, 1}) EXPECT_EQ(ties(lists[rank], program), c.ranks[rank]) << c.what << ", rank " << rank;
  }
}

TEST(TieWeights, costs_match_the_header) {
  const int64_t bytes = 256 * 4;
  for (const int holders : {1, 2, 3, 4}) {
    for (const int shards : {1, 2, 4}) {
      std::vector<std::vector<int>> all(4, std::vector<int>{0});
      for (int place = 1; place < holders; ++place) all[0].push_back(place);
      const ModelCost model = toy_model(4);
      const Program program = toy_program(model, {.shards = shards, .mesh = {.pp = 4}, .holders = all});
      const InstructionList before = one_stage(model);
      const StepCost cost = step_cost(tie_weights(before, program));
      EXPECT_EQ(cost.gradient_wire_bytes, holders == 1 ? 0 : 2 * (holders - 1) * (bytes / shards) / holders);
      EXPECT_EQ(cost.peak_activation_bytes, step_cost(before).peak_activation_bytes);
      EXPECT_EQ(cost.flops(), step_cost(before).flops());
    }
  }
}

TEST(SumLosses, the_ranks_of_a_pipeline_do_it_once_it_is_empty) {
  const ModelCost model = toy_model(4);
  for (const int dp : {1, 3}) {
    const std::vector<InstructionList> lists = lists_of(model, schedule_named("1f1b").of(2, 5));
    for (const InstructionList& list : lists) {
      const InstructionList summed = sum_losses(list, toy_program(model, {.micro_batches = 5, .mesh = {.pp = 2, .dp = dp}}));
      EXPECT_EQ(text(summed), text(list) + " reduce_loss@pp+dp+shard");
      EXPECT_EQ(summed.back().lane, Lane::comm);
      const int64_t table_bytes = 24 * 5 * dp;
      EXPECT_EQ(step_cost(summed).loss_wire_bytes, 2 * (2 * dp - 1) * table_bytes / (2 * dp));
    }
  }
}

TEST(Clip, pipeline_ranks_sum_their_parts) {
  for (const int shard : {1, 2}) {
    const Program program = build_program(
        toy_model(4),
        pipelined({.dp = 2, .shard = shard, .shard_level = optimizer, .clip = true}, schedule_named("1f1b"), 2, 2));
    for (const InstructionList& list : program.lists) {
      const Instruction& norm = list[find(list, Op::norm)];
      EXPECT_EQ(norm.axes, shard == 1 ? kPipelineAxis : kPipelineAxis | kShardAxis);
      EXPECT_EQ(norm.wire_bytes, 2 * (2 * shard - 1) * 21 * 8 / (2 * shard)) << "21 words of base/exact_sum.h";
    }
  }
}

struct Step {
  const char* what;
  ModelCost model;
  const char* schedule;
  StepLayout layout;
  int micro_batches;
  const char* ranks[2];
};

// Two pipeline ranks, four blocks.
std::vector<Step> steps() {
  return {
      {"two replicas, tied weights, clipping: ties, losses and norm once the pipeline is empty",
       tied_model(4),
       "1f1b",
       {.dp = 2, .clip = true},
       2,
       {"load0 forward0.0 forward1.0 send_activation1.0>1 load1 forward0.1 forward1.1 send_activation1.1>1 "
        "receive_gradient1.0<1 backward1.0 backward0.0 receive_gradient1.1<1 backward1.1 backward0.1 "
        "reduce0-1 reduce0-0@tied reduce_loss@pp+dp+shard norm0-1@pp update0-1",
        "receive_activation1.0<0 forward2.0 forward3.0 receive_activation1.1<0 load0 loss0 backward3.0 backward2.0 "
        "send_gradient1.0>0 forward2.1 forward3.1 load1 loss1 backward3.1 reduce0-0 backward2.1 reduce2-3 "
        "send_gradient1.1>0 reduce0-0@tied reduce_loss@pp+dp+shard norm0-3@pp update2-3 update0-0"}},
      {"ZeRO-1 with tied weights: both holders sum their shards, and gather what they updated",
       tied_model(4),
       "1f1b",
       {.dp = 2, .shard = 2, .shard_level = optimizer},
       2,
       {"load0 forward0.0 forward1.0 send_activation1.0>1 load1 forward0.1 forward1.1 send_activation1.1>1 "
        "receive_gradient1.0<1 backward1.0 backward0.0 receive_gradient1.1<1 backward1.1 reduce_scatter1.1 reduce1-1@dp "
        "backward0.1 reduce_scatter0.1 reduce0-0@dp reduce0-0@tied reduce_loss@pp+dp+shard update1-1 update0-0 gather1 gather0",
        "receive_activation1.0<0 forward2.0 forward3.0 receive_activation1.1<0 load0 loss0 backward3.0 backward2.0 "
        "send_gradient1.0>0 forward2.1 forward3.1 load1 loss1 backward3.1 reduce_scatter3.1 reduce3-3@dp reduce_scatter0.1 "
        "reduce0-0@dp backward2.1 reduce_scatter2.1 reduce2-2@dp send_gradient1.1>0 reduce0-0@tied reduce_loss@pp+dp+shard "
        "update3-3 update2-2 update0-0 gather3 gather2 gather0"}},
      {"ZeRO-3: a block that is used again at once stays",
       toy_model(4),
       "1f1b",
       {.shard = 2, .shard_level = parameters, .prefetch = 0},
       2,
       {"load0 gather0 forward0.0 release0 gather1 forward1.0 release1 send_activation1.0>1 "
        "load1 gather0 forward0.1 release0 gather1 forward1.1 send_activation1.1>1 receive_gradient1.0<1 "
        "backward1.0 release1 reduce_scatter1.0 gather0 backward0.0 release0 reduce_scatter0.0 receive_gradient1.1<1 "
        "gather1 backward1.1 release1 reduce_scatter1.1 gather0 backward0.1 release0 reduce_scatter0.1 reduce_loss@pp+dp+shard "
        "update1-1 update0-0",
        "receive_activation1.0<0 gather2 forward2.0 release2 gather3 forward3.0 receive_activation1.1<0 load0 loss0 "
        "backward3.0 release3 reduce_scatter3.0 gather2 backward2.0 reduce_scatter2.0 send_gradient1.0>0 forward2.1 release2 "
        "gather3 forward3.1 load1 loss1 backward3.1 release3 reduce_scatter3.1 gather2 backward2.1 release2 "
        "reduce_scatter2.1 send_gradient1.1>0 reduce_loss@pp+dp+shard update3-3 update2-2"}},
      {"ZeRO-2, two stages of one rank that share weights: reduced once, since their micro-batches mix",
       tied_model(4),
       "zb-v",
       {.shard = 2, .shard_level = gradients},
       2,
       {"load0 forward0.0 send_activation0.0>1 load1 forward0.1 send_activation0.1>1 receive_activation2.0<1 forward3.0 loss0 "
        "backward3.0 reduce_scatter3.0 receive_activation2.1<1 send_gradient2.0>1 forward3.1 loss1 backward3.1 "
        "reduce_scatter3.1 receive_gradient0.0<1 send_gradient2.1>1 backward0.0 receive_gradient0.1<1 backward0.1 "
        "reduce_scatter0.1 reduce_loss@pp+dp+shard update3-3 update0-0 gather3 gather0",
        "receive_activation0.0<0 forward1.0 receive_activation0.1<0 forward2.0 send_activation2.0>0 forward1.1 forward2.1 "
        "send_activation2.1>0 receive_gradient2.0<0 backward2.0 reduce_scatter2.0 backward1.0 reduce_scatter1.0 "
        "send_gradient0.0>0 receive_gradient2.1<0 backward2.1 reduce_scatter2.1 backward1.1 reduce_scatter1.1 "
        "send_gradient0.1>0 reduce_loss@pp+dp+shard update2-2 update1-1 gather2 gather1"}},
      {"slots are closed stage by stage, the last one bucket by bucket",
       toy_model(4),
       "1f1b",
       {.dp = 2, .slots = 2, .bucket_bytes = 1},
       4,
       {"load0 forward0.0 forward1.0 send_activation1.0>1 load1 forward0.1 forward1.1 send_activation1.1>1 "
        "receive_gradient1.0<1 backward1.0 backward0.0 load2 forward0.2 forward1.2 send_activation1.2>1 "
        "receive_gradient1.1<1 backward1.1 backward0.1 combine0-1s0 load3 forward0.3 forward1.3 send_activation1.3>1 "
        "receive_gradient1.2<1 backward1.2 backward0.2 receive_gradient1.3<1 backward1.3 combine1-1s1 reduce1-1 "
        "backward0.3 combine0-0s1 reduce0-0 reduce_loss@pp+dp+shard update1-1 update0-0",
        "receive_activation1.0<0 forward2.0 forward3.0 receive_activation1.1<0 load0 loss0 backward3.0 backward2.0 "
        "send_gradient1.0>0 forward2.1 forward3.1 load1 loss1 backward3.1 backward2.1 combine2-3s0 receive_activation1.2<0 "
        "send_gradient1.1>0 forward2.2 forward3.2 load2 loss2 backward3.2 backward2.2 receive_activation1.3<0 "
        "send_gradient1.2>0 forward2.3 forward3.3 load3 loss3 backward3.3 combine3-3s1 reduce3-3 backward2.3 combine2-2s1 "
        "reduce2-2 send_gradient1.3>0 reduce_loss@pp+dp+shard update3-3 update2-2"}},
  };
}

TEST(PipelineSteps, word_for_word) {
  for (const Step& step : steps()) {
    const Program program =
        build_program(step.model, pipelined(step.layout, schedule_named(step.schedule), 2, step.micro_batches));
    for (int place : {0, 1}) EXPECT_EQ(text(program.lists[place]), step.ranks[place]) << step.what << ", rank " << place;
    EXPECT_NO_THROW(verify(program)) << step.what;
  }
}

TEST(PipelineSteps, holders_of_blocks) {
  struct Case {
    const char* schedule;
    std::vector<std::vector<int>> holders;
  };
  // The last block uses the first one's weights. zb-v has both on one rank.
  const Case cases[] = {
      {"1f1b", {{0, 1}, {0}, {1}, {1}}}, {"interleaved", {{0, 1}, {1}, {0}, {1}}}, {"zb-v", {{0}, {1}, {1}, {0}}}};
  for (const Case& c : cases) {
    const Program program = build_program(tied_model(4), pipelined({.dp = 3}, schedule_named(c.schedule), 2, 4));
    EXPECT_EQ(program.holders, c.holders) << c.schedule;
    EXPECT_EQ(program.list_of_rank, (std::vector<int>{0, 0, 0, 1, 1, 1})) << "copies share a list";
    for (int block = 0; block < 4; ++block) {
      const int runner = stage_rank_of_block(program)[block];
      EXPECT_EQ(std::count(c.holders[block].begin(), c.holders[block].end(), runner), 1) << "its runner holds it";
    }
  }
}

// Blocks of one stage of which some can be split: micro-batch 1 has reached the others before micro-batch 0 has reached the
// weights of the split ones.
TEST(PipelineSlots, blocks_that_cannot_be_split_close_theirs_earlier) {
  ModelCost model = splittable(toy_model(6));
  model.blocks[4].splits = false;
  const Schedule schedule = schedule_named("zb-h1").of(2, 2);
  const Program program = toy_program(model, {.micro_batches = 2, .slots = 2});
  const InstructionList list = lists_of(model, schedule)[1];
  const std::vector<Bucket> buckets = gradient_buckets(program, {3, 4, 5}, 1 << 20);
  EXPECT_EQ(
      text(close_slots(list, program, {.buckets = buckets}).take()),
      "receive_activation2.0<0 forward3.0 forward4.0 forward5.0 receive_activation2.1<0 load0 loss0 "
      "backward_input5.0 backward4.0 combine4-4s0 backward_input3.0 send_gradient2.0>0 "
      "forward3.1 forward4.1 forward5.1 load1 loss1 backward_input5.1 backward4.1 backward_input3.1 send_gradient2.1>0 "
      "backward_weight5.0 combine5-5s0 backward_weight3.0 combine3-3s0 backward_weight5.1 backward_weight3.1 combine3-5s1");
  EXPECT_NO_THROW(verify(build_program(model, pipelined({.slots = 2}, schedule_named("zb-h1"), 2, 2))));
}

TEST(PipelineSlots, ties_that_mix_slots_are_refused) {
  ModelCost mixed = splittable(toy_model(4));
  mixed.blocks[2].splits = false;  // and its weights are those of block 3, which can
  mixed.blocks[3].uses = {2};
  struct Case {
    const char* what;
    ModelCost model;
    const char* schedule;
    const char* block;
  };
  const Case cases[] = {{"two stages of one rank", tied_model(4), "zb-v", "block 'layer0'"},
                        {"one of two that splits", mixed, "zb-h1", "block 'layer2'"}};
  for (const Case& c : cases) {
    const StepLayout layout = pipelined({.slots = 2}, schedule_named(c.schedule), 2, 4);
    try {
      build_program(c.model, layout);
      ADD_FAILURE() << c.what;
    } catch (const InputError& error) {
      const std::string says = error.what();
      EXPECT_NE(says.find(c.block), std::string::npos) << says;
      EXPECT_NE(says.find("use a schedule with one stage per rank and whole backwards"), std::string::npos) << says;
    }
    EXPECT_NO_THROW(build_program(c.model, pipelined({}, schedule_named(c.schedule), 2, 4))) << "one slot: " << c.what;
  }
}

TEST(PipelineRecompute, of_the_micro_batches_in_flight) {
  const ModelCost model = toy_model(6);
  const std::vector<InstructionList> lists = lists_of(model, schedule_named("1f1b").of(2, 2));
  // A stage's last output is freed once sent; the model's last block runs backward at once.
  EXPECT_EQ(text(recompute(lists[0], model, {.every = 1})),
            "load0 forward0.0 forward1.0 drop0.0 forward2.0 drop1.0 send_activation2.0>1 drop2.0 "
            "load1 forward0.1 forward1.1 drop0.1 forward2.1 drop1.1 send_activation2.1>1 drop2.1 "
            "receive_gradient2.0<1 forward2.0 backward2.0 forward1.0 backward1.0 forward0.0 backward0.0 "
            "receive_gradient2.1<1 forward2.1 backward2.1 forward1.1 backward1.1 forward0.1 backward0.1");
  EXPECT_EQ(text(recompute(lists[1], model, {.every = 2})),
            "receive_activation2.0<0 forward3.0 forward4.0 forward5.0 drop4.0 receive_activation2.1<0 "
            "load0 loss0 backward5.0 forward4.0 backward4.0 backward3.0 send_gradient2.0>0 "
            "forward3.1 forward4.1 forward5.1 drop4.1 load1 loss1 backward5.1 forward4.1 backward4.1 backward3.1 "
            "send_gradient2.1>0");
}

TEST(PipelineRecompute, before_the_inputs_part_of_a_split_backward) {
  const ModelCost model = splittable(toy_model(4));
  const std::vector<InstructionList> lists = lists_of(model, schedule_named("zb-v").of(2, 2));
  EXPECT_EQ(text(recompute(lists[1], model, {.every = 1})),
            "receive_activation0.0<0 forward1.0 receive_activation0.1<0 forward2.0 drop1.0 send_activation2.0>0 drop2.0 "
            "forward1.1 forward2.1 drop1.1 send_activation2.1>0 drop2.1 receive_gradient2.0<0 "
            "forward2.0 backward_input2.0 backward_weight2.0 forward1.0 backward_input1.0 send_gradient0.0>0 "
            "receive_gradient2.1<0 backward_weight1.0 forward2.1 backward_input2.1 backward_weight2.1 "
            "forward1.1 backward_input1.1 send_gradient0.1>0 backward_weight1.1");
}

TEST(PipelineOffload, inputs_leave_once_their_block_is_dropped) {
  const ModelCost model = toy_model(6);
  const std::vector<InstructionList> lists = lists_of(model, schedule_named("1f1b").of(2, 2));
  const auto offloaded = [&](int rank) {
    return text(offload_activations(recompute(lists[rank], model, {.every = 1}), model, {.activations = true}));
  };
  EXPECT_EQ(offloaded(0),
            "load0 forward0.0 forward1.0 drop0.0 forward2.0 drop1.0 offload_input1.0 send_activation2.0>1 drop2.0 "
            "offload_input2.0 load1 forward0.1 forward1.1 drop0.1 forward2.1 drop1.1 offload_input1.1 "
            "send_activation2.1>1 drop2.1 offload_input2.1 receive_gradient2.0<1 reload_input2.0 forward2.0 backward2.0 "
            "reload_input1.0 forward1.0 backward1.0 forward0.0 backward0.0 receive_gradient2.1<1 reload_input2.1 "
            "forward2.1 backward2.1 reload_input1.1 forward1.1 backward1.1 forward0.1 backward0.1");
  // A received tensor is an input like any other.
  EXPECT_EQ(offloaded(1),
            "receive_activation2.0<0 forward3.0 forward4.0 drop3.0 offload_input3.0 forward5.0 drop4.0 "
            "offload_input4.0 receive_activation2.1<0 load0 loss0 backward5.0 reload_input4.0 forward4.0 backward4.0 "
            "reload_input3.0 forward3.0 backward3.0 send_gradient2.0>0 forward3.1 forward4.1 drop3.1 offload_input3.1 "
            "forward5.1 drop4.1 offload_input4.1 load1 loss1 backward5.1 reload_input4.1 forward4.1 backward4.1 "
            "reload_input3.1 forward3.1 backward3.1 send_gradient2.1>0");
}

// For any schedule, share of recomputed blocks and store of inputs.
TEST(PipelineRecompute, frees_what_it_allocates_and_repeats_each_forward_at_most_once) {
  for (const NamedSchedule& named : schedule_table()) {
    for (const int pp : {1, 2, 4}) {
      const Schedule schedule = named.of(pp, 2 * pp);
      for (const ModelCost& model : {toy_model(3 * schedule.num_stages()), splittable(toy_model(3 * schedule.num_stages()))}) {
        for (const InstructionList& plain : lists_of(model, schedule)) {
          for (const int every : {1, 2, 3}) {
            for (const bool offload : {false, true}) {
              SCOPED_TRACE(fmt::format("{}, {} ranks, every {}, {}", named.name, pp, every, offload ? "offload" : ""));
              const InstructionList list =
                  offload_activations(recompute(plain, model, {.every = every}), model, {.activations = offload});
              int64_t live = 0;
              for (const Instruction& x : list) {
                live += x.allocates - x.frees;
                ASSERT_GE(live, 0) << text(x);
              }
              EXPECT_EQ(live, 0);
              EXPECT_EQ(count(list, Op::forward), count(plain, Op::forward) + count(list, Op::drop));
              EXPECT_EQ(step_cost(list).backward_flops, step_cost(plain).backward_flops);
              EXPECT_EQ(count(list, Op::offload), count(list, Op::reload));
              EXPECT_EQ(step_cost(list).transfer_wire_bytes, step_cost(plain).transfer_wire_bytes);
            }
          }
        }
      }
    }
  }
}

// GPipe holds every micro-batch at its turn: recompute leaves a stage's inputs, and offload only those of its first block.
TEST(PipelineRecompute, leaves_the_inputs_of_the_micro_batches_in_flight) {
  ModelCost model = toy_model(8);
  for (BlockCost& block : model.blocks) {
    block.saved_bytes = 10000;
    block.output_bytes = 10;
  }
  const int micro_batches = 16;
  const InstructionList plain = lists_of(model, schedule_named("gpipe").of(2, micro_batches))[0];
  const InstructionList again = recompute(plain, model, {.every = 1});
  const InstructionList out = offload_activations(again, model, {.activations = true});
  const int64_t one_stage = 4 * 10000;
  EXPECT_GE(step_cost(plain).peak_activation_bytes, micro_batches * one_stage);
  EXPECT_LE(step_cost(again).peak_activation_bytes, 2 * 10000 + micro_batches * (model.input_bytes + 4 * 10) + 100);
  EXPECT_LE(step_cost(out).peak_activation_bytes, 2 * 10000 + micro_batches * model.input_bytes + 100);
}

}  // namespace
}  // namespace weft
