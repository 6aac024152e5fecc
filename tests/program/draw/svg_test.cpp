#include "weft/program/draw/svg.h"

#include <gtest/gtest.h>

#include <regex>
#include <set>

#include "tests/program/pipelines.h"
#include "weft/base/error.h"
#include "weft/program/simulate/simulate.h"
#include "weft/program/simulate/simulation.h"

namespace weft::svg_test {
namespace {

// Reason why it is not valid XML, or empty: tags that do not close, bare < or &.
std::string malformed(const std::string& text) {
  std::vector<std::string> open;
  for (size_t at = 0; (at = text.find_first_of("<&", at)) != std::string::npos;) {
    if (text[at] == '&') {
      const std::string rest = text.substr(at, 5);
      if (rest.rfind("&amp;", 0) != 0 && rest.rfind("&lt;", 0) != 0 && rest.rfind("&gt;", 0) != 0) return "& at " + rest;
      ++at;
      continue;
    }
    const size_t end = text.find('>', at);
    if (end == std::string::npos) return "open tag";
    const std::string tag = text.substr(at + 1, end - at - 1);
    const std::string name = tag.substr(0, tag.find_first_of(" /", 1));
    if (tag[0] == '/') {
      if (open.empty() || "/" + open.back() != tag) return "closes " + tag;
      open.pop_back();
    } else if (tag.back() != '/') {
      open.push_back(name);
    }
    at = end + 1;
  }
  return open.empty() ? "" : "left open: " + open.back();
}

// Bars in the groups of a class.
int bars(const std::string& svg, const std::string& kind) {
  int count = 0;
  const std::string head = "<g class=\"" + kind + "\"";
  for (size_t at = 0; (at = svg.find(head, at)) != std::string::npos; ++at) {
    const size_t end = svg.find("</g>", at);
    for (size_t bar = svg.find("<rect", at); bar < end; bar = svg.find("<rect", bar + 1)) ++count;
  }
  return count;
}

std::vector<std::string> groups_of(const std::string& svg, const std::string& kind) {
  const std::regex head("<g class=\"" + kind + "\" fill=\"([^\"]*)\"");
  std::vector<std::string> fills;
  for (std::sregex_iterator at(svg.begin(), svg.end(), head), end; at != end; ++at) fills.push_back((*at)[1]);
  return fills;
}

double width_of(const std::string& svg) {
  std::smatch found;
  std::regex_search(svg, found, std::regex("width=\"([0-9]+)\""));
  return std::stod(found[1]);
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::string drawn(const Program& program, const SvgOptions& options = {}, const Hardware& hardware = slow_device()) {
  return draw_svg(program, timed_instructions(program, simulate(program, hardware)), options);
}

TEST(DrawSvg, a_bar_for_every_task) {
  const Program program =
      pipeline_program(one_f_one_b_schedule({.ranks = 4, .micro_batches = 8}), {.blocks = 2, .message_bytes = 1}, {.dp = 8});
  const std::string svg =
      drawn(program, {.title = "1F1B", .subtitle = "bubble < 28 % & more"}, slow_device({.bytes_per_s = 10}));
  EXPECT_EQ(malformed(svg), "");
  EXPECT_EQ(bars(svg, "forward"), 32);
  EXPECT_EQ(bars(svg, "backward"), 32);
  EXPECT_GT(bars(svg, "transfer"), 2 * 3 * 8) << "sends, and receives that wait for their message";
  EXPECT_EQ(bars(svg, "track"), 4);
  EXPECT_TRUE(contains(svg, ">1F1B</text>"));
  EXPECT_TRUE(contains(svg, "bubble &lt; 28 % &amp; more</text>"));
  EXPECT_TRUE(contains(svg, ">pp 3, rank 24 and 7 like it</text>"));
  EXPECT_TRUE(contains(svg, ">7</text>")) << "the last micro-batch";
  EXPECT_TRUE(contains(svg, " s</text>")) << "the unit of time";
  for (const char* kind : {"forward", "backward", "transfer", "idle"})
    EXPECT_TRUE(contains(svg, fmt::format(">{}</text>", kind)));
  EXPECT_FALSE(contains(svg, ">gather</text>")) << "the legend explains only what appears";
}

TEST(DrawSvg, a_row_names_the_number_of_its_ranks) {
  const Schedule schedule = gpipe_schedule({.ranks = 2, .micro_batches = 2});
  EXPECT_TRUE(contains(drawn(pipeline_program(schedule)), ">pp 1, rank 1</text>"));
  EXPECT_TRUE(contains(drawn(pipeline_program(schedule, {}, {.dp = 2})), ">pp 1, rank 2 and 1 like it</text>"));
  EXPECT_TRUE(contains(drawn(build_program(equal_blocks(2, {}), {.dp = 4})), ">rank 0 and 3 like it</text>"));
}

TEST(DrawSvg, backward_in_parts_and_several_stages) {
  const std::string split = drawn(pipeline_program(zb_h1_schedule({.ranks = 4, .micro_batches = 8})));
  EXPECT_EQ(malformed(split), "");
  EXPECT_EQ(bars(split, "backward-input"), 32);
  EXPECT_EQ(bars(split, "backward-weights"), 32);
  EXPECT_EQ(bars(split, "backward"), 0);
  const std::string chunks = drawn(pipeline_program(interleaved_schedule({.ranks = 4, .chunks = 3, .micro_batches = 8})));
  EXPECT_EQ(bars(chunks, "forward"), 96);
  const std::vector<std::string> shades = groups_of(chunks, "forward");
  EXPECT_EQ(shades.size(), 3u) << "one per stage of a rank";
  EXPECT_EQ(std::set<std::string>(shades.begin(), shades.end()).size(), 3u);
  EXPECT_TRUE(contains(chunks, "later stages are lighter"));
  EXPECT_FALSE(contains(split, "later stages are lighter"));
}

TEST(DrawSvg, stays_a_sensible_size) {
  const std::string small = drawn(pipeline_program(gpipe_schedule({.ranks = 2, .micro_batches = 2})));
  EXPECT_GE(width_of(small), 850);
  const std::string large = drawn(pipeline_program(one_f_one_b_schedule({.ranks = 16, .micro_batches = 128}), {.blocks = 6}));
  EXPECT_EQ(malformed(large), "");
  EXPECT_EQ(bars(large, "forward"), 16 * 128);
  EXPECT_LE(width_of(large), 2900);
  EXPECT_LT(large.size(), 2u << 20);
  EXPECT_FALSE(contains(large, ">127</text>")) << "its bars are too narrow for numbers";
}

TEST(DrawSvg, is_as_wide_as_its_heading) {
  const std::string heading(200, 'm');
  EXPECT_GE(width_of(drawn(pipeline_program(gpipe_schedule({.ranks = 2, .micro_batches = 2})), {.subtitle = heading})), 1400);
}

TEST(DrawSvg, ranks_beyond_the_limit_are_counted) {
  SvgOptions options;
  options.max_rows = 5;
  const std::string svg = drawn(pipeline_program(gpipe_schedule({.ranks = 8, .micro_batches = 8})), options);
  EXPECT_EQ(bars(svg, "track"), 5);
  EXPECT_EQ(bars(svg, "forward"), 40);
  EXPECT_TRUE(contains(svg, "... and 3 more rows")) << svg.substr(0, 500);
}

TEST(DrawSvg, narrow_bars_are_joined) {
  const Program program = pipeline_program(one_f_one_b_schedule({.ranks = 4, .micro_batches = 512}), {.blocks = 2});
  const auto count = [](const std::string& svg) { return bars(svg, "forward") + bars(svg, "backward"); };
  EXPECT_EQ(count(drawn(program)), 4 * 2 * 512);
  for (const size_t most : {400U, 40U}) {
    const std::string svg = drawn(program, {.max_bars = most});
    EXPECT_LE(count(svg), static_cast<int>(most));
    EXPECT_GE(count(svg), static_cast<int>(most / 5));
    EXPECT_TRUE(contains(svg, " pieces, most of it backward")) << "which takes twice as long";
    EXPECT_LT(svg.size(), 20'000 + 300 * most);
  }
}

TEST(DrawSvg, panels_share_an_axis) {
  const Program program = pipeline_program(gpipe_schedule({.ranks = 2, .micro_batches = 2}));
  std::vector<TimedInstruction> timed = timed_instructions(program, simulate(program, slow_device())), slower = timed;
  for (TimedInstruction& x : slower) {
    x.start_s *= 2.0;
    x.end_s *= 2.0;
  }
  const std::string both = draw_svg({{"predicted", &program, timed}, {"measured <", &program, slower}});
  EXPECT_EQ(malformed(both), "");
  EXPECT_EQ(bars(both, "track"), 4);
  EXPECT_EQ(bars(both, "forward"), 8);
  EXPECT_TRUE(contains(both, ">predicted</text>") && contains(both, ">measured &lt;</text>"));
  const std::string twice = draw_svg({{"", &program, timed}, {"", &program, timed}});
  EXPECT_EQ(bars(twice, "forward"), 8);
  std::smatch first;
  ASSERT_TRUE(std::regex_search(
      both, first, std::regex("class=\"backward\"[^>]*>\n<rect x=\"([0-9.]+)\" y=\"[0-9.]+\" width=\"([0-9.]+)\"")));
  const std::string alone = draw_svg({{"measured", &program, slower}});
  std::smatch wide;
  ASSERT_TRUE(std::regex_search(alone, wide,
                                std::regex("class=\"backward\"[^>]*>\n<rect x=\"[0-9.]+\" y=\"[0-9.]+\" width=\"([0-9.]+)\"")));
  EXPECT_NEAR(2.0 * std::stod(first[2]), std::stod(wide[1]), 2.0) << "the faster step takes half of the axis";
  EXPECT_THROW(draw_svg(std::vector<SvgPanel>()), InputError);
}

TEST(DrawSvg, a_step_that_takes_no_time) {
  EXPECT_EQ(malformed(drawn(build_program(equal_blocks(2, {.forward_flops = 0, .input_flops = 0, .weight_flops = 0}), {}))),
            "");
}

TEST(DrawSvg, block_names_are_only_text) {
  Program program = build_program(equal_blocks(2, {}), {});
  program.block_names = {"a<b>&\"c\"", "d\x01"};
  const std::string svg = drawn(program);
  EXPECT_EQ(malformed(svg), "");
  EXPECT_TRUE(contains(svg, "a&lt;b&gt;&amp;\"c\" to d, micro-batch 0"));
}

}  // namespace
}  // namespace weft::svg_test
