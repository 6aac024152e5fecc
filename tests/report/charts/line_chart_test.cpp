// draw_line_chart: positions of points, dashed and hollow marks, and axis labels.
#include "weft/report/charts/line_chart.h"

#include <gtest/gtest.h>

#include <cmath>
#include <regex>

#include "weft/base/error.h"
#include "weft/report/charts/log_scale.h"

namespace weft::line_chart_test {
namespace {

LineChart halving() {
  return {.title = "Steps <to> target",
          .subtitle = "a & b",
          .x_title = "batch",
          .y_title = "steps",
          .open_name = "not reached",
          .lines = {{.name = "sgd", .points = {{32, 800, 701}, {64, 400}, {128, 300, 0, true}}},
                    {.name = "perfect", .points = {{32, 800}, {128, 200}}, .is_ideal = true}}};
}

size_t count_of(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

/// The points of the path with that class.
std::vector<std::pair<double, double>> path_of(const std::string& svg, const std::string& name) {
  std::smatch found;
  if (!std::regex_search(svg, found, std::regex("class=\"" + name + "\" d=\"([^\"]*)\""))) return {};
  std::vector<std::pair<double, double>> points;
  const std::string path = found[1];
  const std::regex point("[ML]([0-9.]+) ([0-9.]+)");
  for (auto it = std::sregex_iterator(path.begin(), path.end(), point); it != std::sregex_iterator(); ++it) {
    points.emplace_back(std::stod((*it)[1]), std::stod((*it)[2]));
  }
  return points;
}

TEST(LineChart, WhatHalvesIsAStraightLine) {
  const std::string svg = draw_line_chart(halving());
  const auto line = path_of(svg, "line"), ideal = path_of(svg, "ideal");
  ASSERT_EQ(line.size(), 2u) << "the hollow point is beside the line";
  ASSERT_EQ(ideal.size(), 2u);
  EXPECT_EQ(line[0], ideal[0]);
  // The second point lies half way along the ideal.
  EXPECT_NEAR(line[1].first, (ideal[0].first + ideal[1].first) / 2, 0.11);
  EXPECT_NEAR(line[1].second, (ideal[0].second + ideal[1].second) / 2, 0.11);
  EXPECT_GT(line[1].second, line[0].second) << "fewer is lower";
}

TEST(LineChart, ShowsMarksWhiskersWordsAndLegend) {
  const std::string svg = draw_line_chart(halving());
  EXPECT_EQ(count_of(svg, "class=\"point\""), 2u);
  EXPECT_EQ(count_of(svg, "class=\"open\""), 1u);
  EXPECT_EQ(count_of(svg, "class=\"whisker\""), 1u);
  EXPECT_EQ(count_of(svg, "stroke-dasharray"), 2u) << "the line and its legend";
  for (const char* words : {"Steps &lt;to&gt; target", "a &amp; b", ">batch<", ">steps<", ">sgd<", ">perfect<", ">not reached<",
                            ">32<", ">64<", ">128<", ">500<"}) {
    EXPECT_NE(svg.find(words), std::string::npos) << words;
  }
  EXPECT_TRUE(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
}

TEST(LineChart, OnePointIsEnoughAndNoneIsAnError) {
  EXPECT_NE(draw_line_chart({.lines = {{.name = "one", .points = {{1, 1}}}}}).find("class=\"point\""), std::string::npos);
  EXPECT_THROW(draw_line_chart({}), InputError);
  for (const double bad : {0.0, -1.0, std::nan(""), HUGE_VAL}) {
    EXPECT_THROW(draw_line_chart({.lines = {{.name = "bad", .points = {{1, 1}, {2, bad}}}}}), InputError) << bad;
    EXPECT_THROW(draw_line_chart({.lines = {{.name = "bad", .points = {{1, 1}, {bad, 2}}}}}), InputError) << bad;
  }
}

TEST(LogScale, MarksRoundNumbersAndThoseAskedFor) {
  const LogScale scale(8, 120, 100);
  std::vector<std::string> labels;
  for (const auto& mark : scale.marks()) labels.push_back(mark.label);
  EXPECT_EQ(labels, (std::vector<std::string>{"10", "20", "50", "100"}));
  EXPECT_DOUBLE_EQ(scale.at(8), 0.0);
  EXPECT_DOUBLE_EQ(scale.at(120), 100.0);
  labels.clear();
  for (const auto& mark : LogScale(1, 1e5, 100).marks_at({32, 16, 64, 32, 8192}, 20)) labels.push_back(mark.label);
  EXPECT_EQ(labels, (std::vector<std::string>{"16", "", "", "8192"}));
  EXPECT_EQ(axis_number(0.05), "0.05");
  EXPECT_EQ(axis_number(65536), "65536");
  EXPECT_EQ(axis_number(2.5e6), "2.5 M");
  EXPECT_NEAR(LogScale(5, 5, 100).at(5), 50.0, 1e-9);
}

}  // namespace
}  // namespace weft::line_chart_test
