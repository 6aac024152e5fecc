#include "weft/report/terminal/plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace weft {
namespace {

constexpr size_t kLeastLabel = 8;  ///< columns left of the axis

/// By the bits of the four dots: 1 upper left, 2 upper right, 4 lower left, 8 lower right.
constexpr std::array<const char*, 16> kBlocks = {" ", "▘", "▝", "▀", "▖", "▌", "▞", "▛",
                                                 "▗", "▚", "▐", "▜", "▄", "▙", "▟", "█"};
constexpr std::array<int, 6> kColors = {34, 33, 32, 35, 36, 31};  // blue, yellow, green, magenta, cyan, red

struct Range {
  double low = std::numeric_limits<double>::infinity(), high = -std::numeric_limits<double>::infinity();
  void add(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  bool is_empty() const { return low > high; }
  /// Where the value lies, from 0 to 1.
  double share(double value) const {
    const double share = high > low ? (value / 2 - low / 2) / (high / 2 - low / 2) : 0.5;  // halves: no overflow
    return share >= 0.0 ? std::min(share, 1.0) : 0.0;
  }
};

/// A column of dots of one curve.
struct Dots {
  Range range;
  double sum = 0.0;
  int count = 0;
  double mean() const { return sum / count; }
};

struct Cell {
  unsigned line = 0;   ///< dots of the line
  bool shade = false;  ///< between extremes
  int curve = -1;      ///< whose line or shade it is
};

class Canvas {
 public:
  Canvas(int width, int height) : width_(width), height_(height), cells_(static_cast<size_t>(width * height)) {}
  int dots_wide() const { return 2 * width_; }
  int dots_high() const { return 2 * height_; }
  Cell& at_dot(int x, int y) { return cells_[static_cast<size_t>((y / 2) * width_ + x / 2)]; }
  void line(int x, int y, int curve) {
    Cell& cell = at_dot(x, y);
    if (cell.curve != curve) cell.line = 0;
    cell.line |= 1U << (2 * (y % 2) + x % 2);
    cell.curve = curve;
  }
  void shade(int x, int y, int curve) {
    Cell& cell = at_dot(x, y);
    if (cell.line != 0) return;
    cell.shade = true;
    cell.curve = curve;
  }
  const Cell& cell(int x, int y) const { return cells_[static_cast<size_t>(y * width_ + x)]; }

 private:
  int width_, height_;
  std::vector<Cell> cells_;
};

bool is_shown(double x, double y) { return std::isfinite(x) && std::isfinite(y); }

void draw(Canvas& canvas, const PlotCurve& curve, int number, const Range& xs, const Range& ys) {
  std::vector<Dots> columns(static_cast<size_t>(canvas.dots_wide()));
  const auto column_of = [&](double x) {
    return std::min(canvas.dots_wide() - 1, static_cast<int>(xs.share(x) * canvas.dots_wide()));
  };
  const auto row_of = [&](double y) {
    return canvas.dots_high() - 1 - static_cast<int>(std::lround(ys.share(y) * (canvas.dots_high() - 1)));
  };
  for (size_t i = 0; i < curve.x.size(); ++i) {
    if (!is_shown(curve.x[i], curve.y[i])) continue;
    Dots& dots = columns[static_cast<size_t>(column_of(curve.x[i]))];
    dots.range.add(curve.y[i]);
    dots.sum += curve.y[i];
    ++dots.count;
  }
  int last_x = -1, last_y = 0;
  for (int x = 0; x < canvas.dots_wide(); ++x) {
    const Dots& dots = columns[static_cast<size_t>(x)];
    if (dots.count == 0) continue;
    const int y = row_of(dots.mean());
    for (int between = last_x < 0 ? x : last_x; between <= x; ++between) {
      const double share = last_x < 0 || x == last_x ? 1.0 : static_cast<double>(between - last_x) / (x - last_x);
      const int here = static_cast<int>(std::lround(last_x < 0 ? y : last_y + share * (y - last_y)));
      const double earlier_share = std::max(0.0, share - (last_x < 0 ? 0.0 : 1.0 / std::max(1, x - last_x)));
      const int earlier = static_cast<int>(std::lround(last_x < 0 ? y : last_y + earlier_share * (y - last_y)));
      for (int dot = std::min(here, earlier); dot <= std::max(here, earlier); ++dot) canvas.line(between, dot, number);
    }
    last_x = x;
    last_y = y;
  }
  for (int x = 0; x < canvas.dots_wide(); ++x) {
    const Dots& dots = columns[static_cast<size_t>(x)];
    if (dots.count < 2) continue;
    for (int y = row_of(dots.range.high); y <= row_of(dots.range.low); ++y) canvas.shade(x, y, number);
  }
}

std::string colored(const std::string& text, int curve, bool colors) {
  if (!colors || curve < 0) return text;
  return fmt::format("\x1b[{}m{}\x1b[0m", kColors[static_cast<size_t>(curve) % kColors.size()], text);
}

std::string text_of(const Cell& cell, bool single, bool colors) {
  if (cell.curve < 0) return " ";
  if (cell.line == 0) return single || colors ? colored("░", cell.curve, colors) : " ";
  if (single || colors) return colored(kBlocks[cell.line], cell.curve, colors);
  return std::to_string((cell.curve + 1) % 10);
}

std::string heading(const std::vector<PlotCurve>& curves, const PlotOptions& options) {
  std::string text = options.title;
  if (curves.size() < 2) return text;
  for (size_t i = 0; i < curves.size(); ++i) {
    text += "  " + colored(fmt::format("{} {}", options.colors ? "━" : std::to_string((i + 1) % 10), curves[i].name),
                           static_cast<int>(i), options.colors);
  }
  return text;
}

std::string x_axis(const Range& xs, size_t label, const PlotOptions& options) {
  const auto columns = static_cast<size_t>(options.width);
  const auto ends = xs.is_empty() ? std::vector<std::string>(2) : plot_numbers({xs.low, xs.high});
  const std::string &first = ends[0], last = xs.low < xs.high ? ends[1] : "";
  std::string text = in_columns(std::string(label + 1, ' ') + first, columns);
  const size_t room = columns > last.size() ? columns - last.size() : 0;
  text = in_columns(text, room) + last;
  const size_t middle = (columns + label) / 2 - std::min((columns + label) / 2, columns_of_text(options.x_name) / 2);
  if (middle > label + 2 + first.size() && middle + options.x_name.size() + 2 < room) {
    text.replace(middle, options.x_name.size(), options.x_name);
  }
  return text;
}

/// The labels of the rows, from above: of the ends and, where there is room, of the middle; of the one value of a flat curve.
std::vector<std::string> y_labels(const Range& ys, int height) {
  std::vector<std::string> labels(static_cast<size_t>(height));
  if (ys.is_empty()) return labels;
  std::vector<int> rows = {0, height - 1};
  if (height >= 5) rows.insert(rows.begin() + 1, height / 2);
  if (ys.low == ys.high) rows = {(height - 1) / 2};
  std::vector<double> values;
  for (const int row : rows) {
    const double share = 1.0 - static_cast<double>(row) / std::max(1, height - 1);
    values.push_back((1.0 - share) * ys.low + share * ys.high);
  }
  if (ys.low == ys.high) values = {ys.low};
  const std::vector<std::string> texts = plot_numbers(values);
  for (size_t i = 0; i < rows.size(); ++i) labels[static_cast<size_t>(rows[i])] = texts[i];
  return labels;
}

}  // namespace

std::string plot_number(double value, int digits) {
  constexpr std::array<std::pair<double, const char*>, 4> kUnits = {{{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e4, "k"}}};
  constexpr double kLargest = 1e15;
  const auto text = [&](double number) {
    const double size = std::fabs(number);  // 999.9 is "1000", not "1e+03"
    return size >= 100.0 && size < 1e4 ? fmt::format("{:.{}f}", number, std::max(0, digits - (size < 1e3 ? 3 : 4)))
                                       : fmt::format("{:.{}g}", number, digits);
  };
  for (const auto& [size, unit] : kUnits) {
    if (std::fabs(value) >= size && std::fabs(value) < kLargest) return text(value / (size == 1e4 ? 1e3 : size)) + unit;
  }
  return text(value);
}

std::vector<std::string> plot_numbers(const std::vector<double>& values) {
  constexpr int kFewDigits = 3, kMostDigits = 15;
  constexpr size_t kLongest = 14;  // characters
  std::vector<std::string> best;
  bool was_clear = false;
  for (int digits = kFewDigits; digits <= kMostDigits; ++digits) {
    std::vector<std::string> texts;
    bool is_clear = true;
    for (size_t i = 0; i < values.size(); ++i) {
      texts.push_back(plot_number(values[i], digits));
      if (!best.empty() && texts[i].size() > kLongest) return best;
      is_clear &= i == 0 || values[i] == values[i - 1] || texts[i] != texts[i - 1];
    }
    best = std::move(texts);
    if (was_clear || (is_clear && digits == kFewDigits)) break;
    was_clear = is_clear;  // one digit more: rounding should not be as large as what tells them apart
  }
  return best;
}

size_t columns_of_text(const std::string& text) {
  size_t columns = 0;
  bool escape = false;
  for (const char c : text) {
    if (c == '\x1b') escape = true;
    if (!escape && (static_cast<unsigned char>(c) & 0xc0U) != 0x80U) ++columns;
    if (escape && c == 'm') escape = false;
  }
  return columns;
}

std::string in_columns(const std::string& text, size_t columns) {
  std::string cut;
  size_t used = 0;
  bool escape = false;
  for (const char c : text) {
    if (c == '\x1b') escape = true;
    const bool begins = !escape && (static_cast<unsigned char>(c) & 0xc0U) != 0x80U;
    if (begins && used == columns) break;
    used += begins ? 1 : 0;
    cut += c;
    if (escape && c == 'm') escape = false;
  }
  if (cut.size() < text.size() && text.find('\x1b') != std::string::npos) cut += "\x1b[0m";
  return cut + std::string(columns - used, ' ');
}

std::vector<std::string> plot(const std::vector<PlotCurve>& curves, const PlotOptions& options) {
  const int height = std::max(2, options.height - 2);
  Range xs, ys;
  for (const PlotCurve& curve : curves) {
    for (size_t i = 0; i < curve.x.size(); ++i) {
      if (!is_shown(curve.x[i], curve.y[i])) continue;
      xs.add(curve.x[i]);
      ys.add(curve.y[i]);
    }
  }
  const std::vector<std::string> labels = y_labels(ys, height);
  size_t label = kLeastLabel;
  for (const std::string& one : labels) label = std::max(label, one.size() + 1);
  const int width = std::max(8, options.width - static_cast<int>(label) - 1);
  Canvas canvas(width, height);
  for (size_t i = curves.size(); i-- > 0;) draw(canvas, curves[i], static_cast<int>(i), xs, ys);
  std::vector<std::string> lines = {in_columns(heading(curves, options), static_cast<size_t>(options.width))};
  for (int y = 0; y < height; ++y) {
    const std::string& text = labels[static_cast<size_t>(y)];
    std::string line = std::string(label - 1 - text.size(), ' ') + text + (text.empty() ? " │" : " ┤");
    for (int x = 0; x < width; ++x) line += text_of(canvas.cell(x, y), curves.size() == 1, options.colors);
    lines.push_back(line);
  }
  lines.push_back(x_axis(xs, label, options));
  if (ys.is_empty()) {
    const bool has_points = std::any_of(curves.begin(), curves.end(), [](const PlotCurve& curve) { return !curve.x.empty(); });
    lines[1 + static_cast<size_t>(height / 2)] = in_columns(
        std::string(label, ' ') + (has_points ? "│ no finite values" : "│ no values yet"), static_cast<size_t>(options.width));
  }
  return lines;
}

}  // namespace weft
