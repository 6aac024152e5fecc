// plot: curves as lines of text, in block characters (U+2580 to U+259F), with axes.
//
// Each character has two by two dots. A column of dots shows the mean of the points in it as a line, and between their least
// and their greatest a light shade, so that no extreme is lost.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace weft {

/// A curve. Points that are not finite are left out.
struct PlotCurve {
  std::string name = {};  ///< for the legend
  std::vector<double> x = {}, y = {};
};

struct PlotOptions {
  int width = 80, height = 12;  ///< in characters, title and axes included; at least 24 by 5
  std::string title = {};
  std::string x_name = {};
  bool colors = false;  ///< ANSI colours, one per curve; without, several curves are drawn as digits
};

/// Lines of `width` columns, without newlines; as many as `height`.
std::vector<std::string> plot(const std::vector<PlotCurve>& curves, const PlotOptions& options);

/// "1.25M", "-3.5", "0.0012": with three digits in at most nine characters.
std::string plot_number(double value, int digits = 3);
/// The same for several, with as many digits as tell those apart that differ, as far as a label of an axis has room.
std::vector<std::string> plot_numbers(const std::vector<double>& values);

/// Number of columns that a UTF-8 text takes, without its colours.
size_t columns_of_text(const std::string& text);
/// The text with blanks up to that many columns, or cut after them.
std::string in_columns(const std::string& text, size_t columns);

}  // namespace weft
