// Curves in block characters: where dots go, what axes say, that no extreme is lost and no line is too wide.
#include "weft/report/terminal/plot.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace weft::plot_test {
namespace {

std::string joined(const std::vector<std::string>& lines) {
  std::string all;
  for (std::string line : lines) {
    line.erase(line.find_last_not_of(' ') + 1);
    all += line + "\n";
  }
  return all;
}

PlotCurve rising(int count) {
  PlotCurve curve;
  for (int i = 0; i < count; ++i) {
    curve.x.push_back(i);
    curve.y.push_back(i);
  }
  return curve;
}

TEST(Plot, DrawsALine) {
  EXPECT_EQ(joined(plot({rising(16)}, {.width = 25, .height = 6, .title = "loss", .x_name = "step"})),
            "loss\n"
            "     15 ┤            ▗▄▟▀\n"
            "        │        ▄▄▟▀▀\n"
            "        │    ▄▄▛▀▘\n"
            "      0 ┤▄▄▛▀▘\n"
            "         0    step     15\n");
}

TEST(Plot, ShowsEveryExtreme) {
  PlotCurve curve;
  for (int i = 0; i < 100'000; ++i) {
    curve.x.push_back(i);
    curve.y.push_back(i == 50'000 ? 9.0 : i == 70'000 ? -9.0 : 0.0);
  }
  const std::vector<std::string> lines = plot({curve}, {.width = 80, .height = 11});
  EXPECT_NE(lines[1].find("░"), std::string::npos) << joined(lines);
  EXPECT_NE(lines[9].find("░"), std::string::npos) << joined(lines);
}

TEST(Plot, IsAsWideAndHighAsAsked) {
  const PlotCurve none;
  PlotCurve one, bad = rising(10);
  one.x = {1e300, 2e300};
  one.y = {-1.7e308, 1.7e308};
  bad.y[3] = NAN;
  bad.x[4] = INFINITY;
  for (const auto& curves : {std::vector<PlotCurve>{}, {none}, {one}, {bad}, {rising(3), bad, one}}) {
    for (const bool colors : {false, true}) {
      for (const int width : {24, 80, 200}) {
        const auto lines = plot(curves, {.width = width, .height = 9, .title = "title", .x_name = "samples", .colors = colors});
        ASSERT_EQ(lines.size(), 9U);
        for (const std::string& line : lines) EXPECT_EQ(columns_of_text(line), static_cast<size_t>(width)) << line;
      }
    }
  }
}

TEST(Plot, TellsCurvesApart) {
  PlotCurve low = rising(10), high = rising(10);
  low.name = "a";
  high.name = "b";
  for (double& y : high.y) y += 20.0;
  const std::string text = joined(plot({low, high}, {.width = 40, .height = 10, .title = "loss"}));
  EXPECT_EQ(text.substr(0, text.find('\n')), "loss  1 a  2 b");
  EXPECT_GT(std::count(text.begin(), text.end(), '1'), 10);
  EXPECT_GT(std::count(text.begin(), text.end(), '2'), 10);
}

TEST(Plot, NumbersAreShort) {
  EXPECT_EQ(plot_number(0.0), "0");
  EXPECT_EQ(plot_number(1234.4), "1234");
  EXPECT_EQ(plot_number(-0.00123456), "-0.00123");
  EXPECT_EQ(plot_number(123456.0), "123k");
  EXPECT_EQ(plot_number(2.5e9), "2.5G");
  EXPECT_EQ(plot_number(999.9), "1000");
  EXPECT_EQ(plot_number(1e300), "1e+300");
}

TEST(Plot, NumbersOfAnAxisTellValuesApart) {
  using Texts = std::vector<std::string>;
  EXPECT_EQ(plot_numbers({3.0, 1.5, 0.0}), (Texts{"3", "1.5", "0"}));
  EXPECT_EQ(plot_numbers({2.302591, 2.302588, 2.302585}), (Texts{"2.302591", "2.302588", "2.302585"}));
  EXPECT_EQ(plot_numbers({100020.0, 100010.0, 100000.0}), (Texts{"100.020k", "100.010k", "100.000k"}));
  EXPECT_EQ(plot_numbers({1.0, 1.0}), (Texts{"1", "1"}));
  EXPECT_EQ(plot_numbers({1.0, 1.0 + 1e-14}), (Texts{"1", "1"}));  // no room
}

TEST(Plot, LabelsNearlyConstantCurvesAndTheOneValueOfAFlatOne) {
  PlotCurve curve = rising(16);
  for (double& y : curve.y) y = 2.302585 + 1e-7 * y;
  const std::string text = joined(plot({curve}, {.width = 40, .height = 7, .title = "loss"}));
  for (const char* label : {"2.3025865 ┤", "2.3025858 ┤", "2.302585 ┤"}) EXPECT_NE(text.find(label), std::string::npos) << text;
  for (double& y : curve.y) y = 0.001;
  EXPECT_EQ(joined(plot({curve}, {.width = 25, .height = 6, .title = "lr"})),
            "lr\n"
            "        │\n"
            "  0.001 ┤▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄\n"
            "        │\n"
            "        │\n"
            "         0             15\n");
}

}  // namespace
}  // namespace weft::plot_test
