// draw_line_chart: lines over two axes on which a factor has the same length everywhere, as steps against batch size and rates
// against ranks are shown: what halves as the other doubles is a straight line.
#pragma once

#include <string>
#include <vector>

namespace weft {

/// A point of a line.
struct ChartPoint {
  double x = 0.0;        ///< above 0
  double y = 0.0;        ///< above 0
  double least_y = 0.0;  ///< the value lies between this and `y` or `most_y`, and is drawn with a whisker; 0: it is `y`
  bool is_open = false;  ///< drawn hollow, and beside the line: no value, but a bound for one
  double most_y = 0.0;   ///< 0: `y`
};

/// A line.
struct ChartLine {
  std::string name = {};                ///< in the legend; empty: none there
  std::vector<ChartPoint> points = {};  ///< from left to right
  int colour = 0;                       ///< a number: lines of one have the same colour
  int mark = -1;          ///< a number: of one, the same marks, here and in the legend; below 0: that of the colour
  bool is_ideal = false;  ///< dashed, without marks
};

/// What a chart shows.
struct LineChart {
  std::string title = {};             ///< heads the picture
  std::string subtitle = {};          ///< stands below it
  std::string x_title = {};           ///< what the x axis counts; it is marked at the points
  std::string y_title = {};           ///< what the y axis counts
  std::string open_name = {};         ///< what a hollow mark says, in the legend where there is one
  std::vector<ChartLine> lines = {};  ///< drawn in this order
};

/// The chart as a whole SVG document. Throws InputError for one without points, or with a number that is not above 0.
std::string draw_line_chart(const LineChart& chart);

}  // namespace weft
