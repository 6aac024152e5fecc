#include "weft/report/charts/line_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "weft/base/error.h"
#include "weft/program/draw/palette.h"
#include "weft/program/draw/svg_text.h"
#include "weft/report/charts/log_scale.h"

namespace weft {
namespace {

struct ChartArea {
  double left = 84.0, top = 66.0, width = 640.0, height = 400.0, right = 30.0;
  double bottom() const { return top + height; }
  double end() const { return left + width; }
};

/// Range of each axis.
struct ChartRange {
  double least_x = INFINITY, most_x = 0.0, least_y = INFINITY, most_y = 0.0;
};

bool is_positive(double value) { return std::isfinite(value) && value > 0.0; }

ChartRange range_of(const LineChart& chart) {
  ChartRange range;
  for (const ChartLine& line : chart.lines) {
    for (const ChartPoint& point : line.points) {
      const double least_y = point.least_y > 0.0 ? point.least_y : point.y;
      if (!is_positive(point.x) || !is_positive(point.y) || !is_positive(least_y)) {
        throw InputError(
            fmt::format("chart: line '{}' has a point ({}, {}); both must be numbers above 0", line.name, point.x, point.y));
      }
      range.least_x = std::min(range.least_x, point.x);
      range.most_x = std::max(range.most_x, point.x);
      range.least_y = std::min(range.least_y, least_y);
      range.most_y = std::max({range.most_y, point.y, point.most_y});
    }
  }
  if (range.most_x == 0.0) throw InputError("chart: there are no points to draw");
  constexpr double kRoomX = 1.15, kRoomY = 1.3;  // margin around the outermost points
  return {range.least_x / kRoomX, range.most_x * kRoomX, range.least_y / kRoomY, range.most_y * kRoomY};
}

int mark_kind(const ChartLine& line) { return line.mark < 0 ? line.colour : line.mark; }

/// A circle, square, diamond or triangle: not all readers can tell hues apart.
std::string mark_of(int kind, double x, double y) {
  switch (kind % 4) {
    case 0:
      return fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\"/>\n", x, y);
    case 1:
      return fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"7.4\" height=\"7.4\"/>\n", x - 3.7, y - 3.7);
    case 2:
      return fmt::format("<path d=\"M{:.1f} {:.1f}l5 5l-5 5l-5 -5z\"/>\n", x, y - 5.0);
    default:
      return fmt::format("<path d=\"M{:.1f} {:.1f}l4.8 8.4h-9.6z\"/>\n", x, y - 5.4);
  }
}

class ChartDrawing {
 public:
  ChartDrawing(const LineChart& chart, const ChartRange& range)
      : chart_(chart), x_(range.least_x, range.most_x, area_.width), y_(range.least_y, range.most_y, area_.height) {}

  std::string draw() {
    axes();
    for (const bool ideal : {true, false}) {
      for (const ChartLine& line : chart_.lines) {
        if (line.is_ideal == ideal) draw_line(line);
      }
    }
    const double height = legend(area_.bottom() + 62.0) + 16.0;
    const double width = std::max(area_.end(), area_.left + svg_heading_width(chart_.title, chart_.subtitle)) + area_.right;
    return svg_opening(width, height) + svg_heading(area_.left, chart_.title, chart_.subtitle) + out_ + "</svg>\n";
  }

 private:
  template <typename... Args>
  void put(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
  }
  double at_x(double value) const { return area_.left + x_.at(value); }
  double at_y(double value) const { return area_.bottom() - y_.at(value); }

  std::vector<double> places() const {
    std::vector<double> xs;
    for (const ChartLine& line : chart_.lines) {
      for (const ChartPoint& point : line.points) xs.push_back(point.x);
    }
    return xs;
  }

  void axes() {
    put("<g class=\"axes\" stroke=\"#ddd\" stroke-width=\"0.8\" fill=\"none\">\n");
    const auto x_marks = x_.marks_at(places(), 34.0);
    const auto y_marks = y_.marks();
    for (const auto& mark : x_marks)
      put("<path d=\"M{:.1f} {:.1f}v{:.1f}\"/>\n", area_.left + mark.position, area_.top, area_.height);
    for (const auto& mark : y_marks)
      put("<path d=\"M{:.1f} {:.1f}h{:.1f}\"/>\n", area_.left, area_.bottom() - mark.position, area_.width);
    put("<path d=\"M{:.1f} {:.1f}V{:.1f}H{:.1f}\" stroke=\"#555\" stroke-width=\"1\"/>\n</g>\n", area_.left, area_.top,
        area_.bottom(), area_.end());
    put("<g class=\"labels\" fill=\"#555\">\n");
    for (const auto& mark : x_marks)
      out_ += svg_text(area_.left + mark.position, area_.bottom() + 16.0, mark.label, "text-anchor=\"middle\"");
    for (const auto& mark : y_marks)
      out_ += svg_text(area_.left - 8.0, area_.bottom() - mark.position + 4.0, mark.label, "text-anchor=\"end\"");
    out_ += svg_text(area_.left + area_.width / 2, area_.bottom() + 38.0, chart_.x_title,
                     "text-anchor=\"middle\" font-size=\"13\" fill=\"#222\"");
    const double middle = area_.top + area_.height / 2;
    out_ += svg_text(
        24.0, middle, chart_.y_title,
        fmt::format("text-anchor=\"middle\" font-size=\"13\" fill=\"#222\" transform=\"rotate(-90 24 {:.1f})\"", middle));
    put("</g>\n");
  }

  void draw_line(const ChartLine& line) {
    const std::string colour = text_of(line_colour(line.colour));
    std::string path;
    for (const ChartPoint& point : line.points) {
      if (!point.is_open) path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", at_x(point.x), at_y(point.y));
    }
    const char* dashes = line.is_ideal ? " stroke-dasharray=\"6 5\" stroke-opacity=\"0.75\"" : "";
    if (!path.empty())
      put("<path class=\"{}\" d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{}\"{}/>\n", line.is_ideal ? "ideal" : "line",
          path, colour, line.is_ideal ? 1.4 : 2.0, dashes);
    if (line.is_ideal) return;
    for (const ChartPoint& point : line.points) draw_point(point, mark_kind(line), colour);
  }

  void draw_point(const ChartPoint& point, int kind, const std::string& colour) {
    const double y = at_y(point.y), x = at_x(point.x) + (point.is_open ? beside(point) : 0.0);
    for (const double end : {point.least_y, point.most_y}) {
      if (end <= 0.0 || end == point.y) continue;
      put("<path class=\"whisker\" d=\"M{0:.1f} {1:.1f}V{2:.1f}M{3:.1f} {2:.1f}h6\" stroke=\"{4}\" stroke-width=\"1.2\" "
          "fill=\"none\"/>\n",
          x, y, at_y(end), x - 3.0, colour);
    }
    put("<g class=\"{}\" stroke=\"{}\" stroke-width=\"1.6\" fill=\"{}\">{}</g>\n", point.is_open ? "open" : "point", colour,
        point.is_open ? "#fff" : colour, mark_of(kind, x, y));
  }

  /// Horizontal offset of an open mark, so that it does not cover earlier ones at the same place.
  double beside(const ChartPoint& point) {
    constexpr double kMark = 12.0;
    open_.emplace_back(point.x, point.y);
    return kMark * static_cast<double>(std::count(open_.begin(), open_.end() - 1, open_.back()));
  }

  /// Draws the legend; returns where it ends.
  double legend(double y) {
    constexpr double kLetter = 6.6, kSample = 30.0, kGap = 24.0;
    double x = area_.left;
    const auto place = [&](const std::string& words) {
      const double length = kSample + 6.0 + kLetter * static_cast<double>(words.size());
      if (x > area_.left && x + length > area_.end()) {
        x = area_.left;
        y += 20.0;
      }
      out_ += svg_text(x + kSample + 6.0, y + 4.0, words, "");
      const double begin = x;
      x += length + kGap;
      return begin;
    };
    put("<g class=\"legend\">\n");
    for (const ChartLine& line : chart_.lines) {
      if (line.name.empty()) continue;
      const double begin = place(line.name);
      const std::string colour = text_of(line_colour(line.colour));
      put("<path d=\"M{:.1f} {:.1f}h{:.0f}\" stroke=\"{}\" stroke-width=\"2\"{}/>\n", begin, y, kSample, colour,
          line.is_ideal ? " stroke-dasharray=\"6 5\"" : "");
      if (!line.is_ideal)
        put("<g stroke=\"{0}\" fill=\"{0}\">{1}</g>\n", colour, mark_of(mark_kind(line), begin + kSample / 2, y));
    }
    if (has_open()) {
      const double begin = place(chart_.open_name);
      put("<g stroke=\"#555\" stroke-width=\"1.6\" fill=\"#fff\">{}</g>\n", mark_of(0, begin + kSample / 2, y));
    }
    put("</g>\n");
    return y;
  }

  bool has_open() const {
    return std::any_of(chart_.lines.begin(), chart_.lines.end(), [](const ChartLine& line) {
      return std::any_of(line.points.begin(), line.points.end(), [](const ChartPoint& point) { return point.is_open; });
    });
  }

  const LineChart& chart_;
  const ChartArea area_;
  LogScale x_, y_;
  std::vector<std::pair<double, double>> open_;  ///< positions of open marks drawn so far
  std::string out_;
};

}  // namespace

std::string draw_line_chart(const LineChart& chart) { return ChartDrawing(chart, range_of(chart)).draw(); }

}  // namespace weft
