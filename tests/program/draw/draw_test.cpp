#include "weft/program/draw/draw.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "tests/program/pipelines.h"
#include "weft/base/error.h"
#include "weft/program/build/build.h"
#include "weft/program/draw/timeline.h"

namespace weft {
namespace {

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> result;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) result.push_back(line);
  return result;
}

TEST(Timeline, one_micro_batch) {
  const Program program = build_program(toy_model(4), {.dp = 2, .bucket_bytes = 2048});
  EXPECT_EQ(timeline(program.of(0), 80),
            "micro-batch 0\n"
            "  compute | load F0 F1 F2 F3 loss\n"
            "  compute | B3 B2 B1 B0\n"
            "  comm    | R(loss) R2-3\n"
            "end of the step\n"
            "  compute | U2-3 U0-1\n"
            "  comm    | R0-1\n");
}

TEST(Timeline, a_label_is_right_of_its_waits) {
  const Program program = build_program(toy_model(8), {.dp = 2, .bucket_bytes = 4096, .clip = true});
  const std::vector<std::string> rows = lines(timeline(program.of(0), 80));
  ASSERT_EQ(rows.size(), 7u);
  EXPECT_EQ(rows[2], "  compute | B7 B6 B5 B4 B3 B2 B1 B0");
  EXPECT_EQ(rows[3], "  comm    | R(loss)     R4-7");
  EXPECT_EQ(rows[5], "  compute |      norm U4-7 U0-3");
  EXPECT_EQ(rows[6], "  comm    | R0-3");
}

TEST(Timeline, micro_batches_that_do_the_same_are_folded) {
  const Program program = build_program(toy_model(2), {.dp = 2, .micro_batches = 8, .slots = 4});
  const std::string text = timeline(program.of(0), 80);
  EXPECT_TRUE(contains(text, "micro-batch 1\n  compute | load F0 F1 loss\n  compute | B1 B0 C0-1\n")) << text;
  EXPECT_TRUE(contains(text, "micro-batches 2 to 6: like 0 and 1\nmicro-batch 7\n")) << text;
  EXPECT_FALSE(contains(text, "micro-batch 2\n")) << text;
}

TEST(Timeline, long_rows_show_both_ends) {
  const Program program = build_program(toy_model(200), {});
  const std::string text = timeline(program.of(0), 60);
  EXPECT_TRUE(contains(text, "load F0 F1 F2"));
  EXPECT_TRUE(contains(text, "F198 F199 loss\n"));
  EXPECT_TRUE(contains(text, "B2 B1 B0\n"));
  EXPECT_FALSE(contains(text, "F100 "));
  const size_t forward_shown = std::count(text.begin(), text.begin() + text.find("B199"), 'F');
  EXPECT_TRUE(contains(text, fmt::format("... {} more ...\n", 200 - forward_shown))) << text;
}

TEST(Timeline, sharded_parameters) {
  const Program program =
      build_program(toy_model(2), {.dp = 2, .shard = 2, .shard_level = ShardLevel::parameters, .recompute = {.every = 1}});
  const std::string text = timeline(program.of(0), 80);
  for (const char* label : {"G0 ", "x0 ", "F0 ", "d0 ", "B0 ", "S1", "R1", "U1 ", "U0"}) {
    EXPECT_TRUE(contains(text, label)) << label << "\n" << text;
  }
}

TEST(Timeline, moves_have_a_row) {
  const Program program = build_program(toy_model(3), {.shard = 2,
                                                       .shard_level = ShardLevel::parameters,
                                                       .recompute = {.every = 1},
                                                       .offload = {.activations = true, .optimizer = true, .weights = true}});
  const std::string text = timeline(program.of(0), 80);
  EXPECT_TRUE(contains(text, "  copy    | ")) << text;
  for (const char* label : {"r0w", "o0w", "o1i", "r1i", "r2o", "o2o"})
    EXPECT_TRUE(contains(text, label)) << label << "\n" << text;
}

TEST(Draw, stays_about_a_page_for_any_size) {
  struct Case {
    int blocks;
    StepLayout layout;
    size_t rows = 90;
  };
  const StepLayout all_lanes = {.dp = 512,
                                .shard = 8,
                                .shard_level = ShardLevel::parameters,
                                .recompute = {.every = 1},
                                .offload = {.activations = true, .optimizer = true, .weights = true},
                                .micro_batches = 8,
                                .clip = true};
  const Case cases[] = {{8, {.dp = 4}},
                        {8, {.dp = 4, .micro_batches = 8}},
                        {50, {.dp = 4096, .micro_batches = 64, .slots = 32, .bucket_bytes = 2048, .clip = true}},
                        {500, {.dp = 2, .micro_batches = 4, .bucket_bytes = 1}},
                        {50, {.dp = 4, .shard = 8, .shard_level = ShardLevel::optimizer, .micro_batches = 8, .clip = true}},
                        {50, all_lanes, 120},
                        {500, all_lanes, 120}};
  for (const Case& c : cases) {
    for (int width : {60, 100}) {
      const std::vector<std::string> rows = lines(draw(build_program(toy_model(c.blocks), c.layout), {.width = width}));
      EXPECT_LE(rows.size(), c.rows) << c.blocks;
      for (const std::string& row : rows) {
        const bool is_timeline = contains(row, " | ");
        EXPECT_LE(row.size(), is_timeline ? static_cast<size_t>(width) : 100u) << row;
        EXPECT_TRUE(row.empty() || row.back() != ' ') << "'" << row << "'";
      }
    }
  }
}

TEST(Draw, shows_actions_of_ranks_and_their_costs) {
  const std::string text =
      draw(build_program(toy_model(4, 1 << 18), {.dp = 4096, .micro_batches = 2, .bucket_bytes = 2 << 20}));
  EXPECT_TRUE(contains(text, "4 blocks, 2 micro-batches per rank in 1 slot, 4096 replicas\n")) << text;
  EXPECT_TRUE(contains(text, "ranks 0-4095: 25 instructions\n")) << text;
  EXPECT_TRUE(contains(text, "24.0 kFLOP  forward 8.01 kFLOP, backward 16.0 kFLOP\n")) << text;
  EXPECT_TRUE(contains(text, "gradients 8.00 MiB in 2 buckets, losses 384 KiB\n")) << text;
  EXPECT_TRUE(contains(text, "R2-3         2.00 MiB  sends   4.00 MiB\n")) << text;
  EXPECT_TRUE(contains(text, "a step of all 4096 ranks: 98.5 MFLOP, 33.5 GiB sent\n")) << text;
  EXPECT_FALSE(contains(text, "norm")) << "the legend explains only what appears";
}

TEST(Draw, shows_the_shard_level) {
  const StepLayout layout = {.dp = 2, .shard = 4, .shard_level = ShardLevel::parameters};
  const std::string text = draw(build_program(toy_model(4, 1 << 18), layout));
  EXPECT_TRUE(contains(text, "1 micro-batch per rank in 1 slot, 2 replicas, 4 shards of parameters\n")) << text;
  EXPECT_TRUE(contains(text, "  S3       reduce-scatter the gradients of block 3 over the shards\n")) << text;
  EXPECT_TRUE(contains(text, "  R3       sum this rank's shard of the gradients of block 3 over the replicas\n")) << text;
  EXPECT_TRUE(contains(text, "  G3       gather")) << text;
  // Four blocks of one mebibyte: 3/4 reduced-scattered and 1/4 all-reduced; 3/4 gathered seven times.
  EXPECT_TRUE(contains(text, "gradients 4.00 MiB in 8 reductions, losses ")) << text;
  EXPECT_TRUE(contains(text, "weights 5.25 MiB in 7 gathers\n")) << text;
  EXPECT_TRUE(contains(text, "S3           1.00 MiB  sends    768 KiB\n")) << text;
  EXPECT_FALSE(contains(text, "move it back")) << "the legend explains only what appears";
}

TEST(Draw, distinct_lists) {
  Program program = build_program(toy_model(1), {.dp = 6});
  program.lists.resize(4, program.lists[0]);
  program.buffers.resize(4);
  program.list_of_rank = {2, 2, 0, 2, 1, 3};
  const std::string text = draw(program, {.max_ranks = 2});
  EXPECT_TRUE(contains(text, "ranks 0-1, 3: ")) << text;
  EXPECT_TRUE(contains(text, "rank 2: ")) << text;
  EXPECT_FALSE(contains(text, "rank 4: ")) << text;
  EXPECT_TRUE(contains(text, "... and 2 more distinct lists\n")) << text;
}

// A hybrid layout sends a gradient twice: over the shards for every micro-batch, and then the shard over the replicas.
TEST(Draw, all_reductions_of_a_hybrid_layout_are_in_the_table) {
  const std::string text = draw(
      build_program(toy_model(2, 1 << 18), {.dp = 2, .shard = 4, .shard_level = ShardLevel::gradients, .micro_batches = 3}));
  EXPECT_TRUE(contains(text,
                       "gradient buckets, in the order they are first reduced\n"
                       "  S1           1.00 MiB  sends    768 KiB  3 times\n"
                       "  S0           1.00 MiB  sends    768 KiB  3 times\n"
                       "  R1            256 KiB  sends    256 KiB\n"
                       "  R0            256 KiB  sends    256 KiB\n"))
      << text;
  EXPECT_TRUE(contains(text, "gradients 5.00 MiB in 8 reductions")) << text << "2 x (3 x 768 + 256) KiB";
}

TEST(Draw, a_pipeline_has_a_chart_and_a_row_per_rank) {
  const Program program = pipeline_program(one_f_one_b_schedule({.ranks = 2, .micro_batches = 2}),
                                           {.blocks = 2, .numel = 256, .message_bytes = 100}, {.dp = 3});
  const std::string text = draw(program);
  EXPECT_TRUE(contains(text, ", 3 replicas, 2 pipeline ranks\n")) << text;
  EXPECT_TRUE(contains(text,
                       "pp 0 | F0 F1       B0 --    B1 --\n"
                       "pp 1 |    F0 B0 -- F1 B1 --\n"))
      << text;
  EXPECT_TRUE(contains(text, "  B3   backward\n  --   continues\na row represents 3 identical ranks\n")) << text;
  EXPECT_FALSE(contains(text, "W3")) << "the legend explains only what appears";
  EXPECT_TRUE(contains(text, "block0 .. block3  ")) << text;
  EXPECT_TRUE(contains(text, "    1        3-5  2-3         12 FLOP  ")) << text;
  EXPECT_TRUE(contains(text, "a step of all 6 ranks: 72 FLOP, ")) << text;
  Program stuck = program;
  stuck.lists[0].pop_back();
  std::erase_if(stuck.lists[1], [](const Instruction& x) { return x.op == Op::receive; });
  for (Instruction& x : stuck.lists[1]) x.waits.clear();
  EXPECT_TRUE(contains(draw(stuck), "pipeline over time: rank ")) << draw(stuck);
}

TEST(Draw, explains_split_backwards_and_stages_of_a_rank) {
  const std::string text = draw(pipeline_program(zb_v_schedule({.ranks = 2, .chunks = 2, .micro_batches = 4})));
  for (const char* line :
       {"  I3   backward, first part: ", "  W3   backward, second part: ", "  F3b  on the rank's second stage"}) {
    EXPECT_TRUE(contains(text, line)) << line << "\n" << text;
  }
}

TEST(Draw, a_large_pipeline_stays_about_a_page) {
  for (const Schedule& schedule : {one_f_one_b_schedule({.ranks = 64, .micro_batches = 256}),
                                   interleaved_schedule({.ranks = 16, .chunks = 5, .micro_batches = 32})}) {
    const std::vector<std::string> rows = lines(draw(pipeline_program(schedule, {.blocks = 2}, {.dp = 64})));
    EXPECT_LE(rows.size(), 75u);
    for (const std::string& row : rows) EXPECT_LE(row.size(), 100u) << row;
  }
}

TEST(List, one_instruction_a_line) {
  const Program program = build_program(toy_model(2), {.dp = 2, .bucket_bytes = 1});
  const std::vector<std::string> rows = lines(list(program, 1));
  ASSERT_EQ(rows.size(), program.of(1).size() + 1);
  EXPECT_TRUE(contains(rows[1], "   0  compute  load of micro-batch 0 ")) << rows[1];
  EXPECT_TRUE(contains(rows[7], "   6  comm     reduce of block 1 'layer1' ")) << rows[7];
  EXPECT_TRUE(contains(rows[7], " 1.00 KiB ")) << rows[7];
  EXPECT_TRUE(rows[10].ends_with("  4 6")) << rows[10];
  EXPECT_THROW(list(program, 2), InputError);
  EXPECT_THROW(list(program, -1), InputError);
}

}  // namespace
}  // namespace weft
