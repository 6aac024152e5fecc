// draw_line_chart: lines over two logarithmic axes, for steps vs batch size and rates vs ranks: proportional and inverse
// relations are straight.
#pragma once

#include <string>
#include <vector>

namespace weft {

/// A point of a line.
struct ChartPoint {
  double x = 0.0;        ///< above 0
  double y = 0.0;        ///< above 0
  double least_y = 0.0;  ///< lower end of the whisker that shows the value's range; 0: `y`
  bool is_open = false;  ///< drawn hollow and beside the line: a bound, not a value
  double most_y = 0.0;   ///< upper end of the whisker; 0: `y`
};

/// A line.
struct ChartLine {
  std::string name = {};                ///< in the legend; empty: not listed
  std::vector<ChartPoint> points = {};  ///< from left to right
  int colour = 0;                       ///< index; equal indices share a colour
  int mark = -1;          ///< index; equal indices share a mark, here and in the legend; below 0: that of the colour
  bool is_ideal = false;  ///< dashed, without marks
};

/// Contents of a chart.
struct LineChart {
  std::string title = {};             ///< heading
  std::string subtitle = {};          ///< line below the title
  std::string x_title = {};           ///< label of the x axis, which is marked at the points
  std::string y_title = {};           ///< label of the y axis
  std::string open_name = {};         ///< meaning of a hollow mark, for the legend
  std::vector<ChartLine> lines = {};  ///< drawn in this order
};

/// Draws the chart as a whole SVG document. Throws InputError if there are no points, or a number is not above 0.
std::string draw_line_chart(const LineChart& chart);

}  // namespace weft
