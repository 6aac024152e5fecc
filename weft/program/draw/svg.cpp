#include "weft/program/draw/svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

#include "weft/base/error.h"
#include "weft/base/median.h"
#include "weft/base/units.h"
#include "weft/program/draw/bars.h"
#include "weft/program/draw/palette.h"
#include "weft/program/draw/svg_text.h"
#include "weft/program/draw/time_scale.h"

namespace weft {
namespace {

constexpr double kMinLength = 780.0;    // of the axis
constexpr double kForwardWidth = 22.0;  // fits a number
constexpr double kTop = 64.0, kTopWithoutHeading = 16.0, kMargin = 24.0;
constexpr double kRowGap = 6.0;
constexpr double kPanelTitle = 26.0;
constexpr double kDigitWidth = 6.4;
constexpr const char* kTrackColour = "#eeeef1";
constexpr double kLeastBlockWidth = 4.0;
constexpr double kLeastWidth = 0.15;  // of a drawn bar: thinner ones are invisible

class Svg {
 public:
  Svg(const std::vector<SvgPanel>& panels, const SvgOptions& options)
      : program_(*panels.front().program), options_(options), scale_(0.0, 0.0) {
    double end_s = 0.0;
    for (const SvgPanel& panel : panels) {
      add_panel(panel);
      end_s = std::max(end_s, end_of(panel.timed));
    }
    join_narrow(end_s);
    for (const BarRow& row : rows_) {
      side_rows_.push_back(side_rows(row));
      for (int side : side_rows_.back()) num_side_ = std::max(num_side_, side + 1);
      num_chunks_ = std::max(num_chunks_, row.num_chunks);
    }
    left_ = kMargin + 7.0 * static_cast<double>(longest_label()) + 10.0;
    scale_ =
        TimeScale(end_s, std::max(axis_length(end_s), kMargin + svg_heading_width(options_.title, options_.subtitle) - left_));
    height_of_row_ = rows_.size() > 16 ? 18.0 : rows_.size() > 2 ? 24.0 : 34.0;
    side_height_ = rows_.size() > 8 ? 5.0 : rows_.size() > 2 ? 8.0 : 11.0;
  }

  std::string draw() {
    const double bottom = row_top(rows_.size());
    const double width = left_ + scale_.length() + kMargin;
    const double height = bottom + 66.0 + (num_left_out_ > 0 ? 18.0 : 0.0);
    out_ = svg_opening(width, height) + svg_heading(kMargin, options_.title, options_.subtitle);
    tracks();
    axis(bottom);
    for (size_t row = 0; row < rows_.size(); ++row) collect(row);
    for (const auto& [style, bars] : bars_) {
      const auto& [kind, chunk, num_chunks] = style;
      put("<g class=\"{}\" fill=\"{}\">\n{}</g>\n", class_of(kind), text_of(shade(colour_of(kind), chunk, num_chunks)), bars);
    }
    put("<g class=\"notch\" stroke=\"#fff\" stroke-opacity=\"0.7\" stroke-width=\"0.8\">\n{}</g>\n", notches_);
    put("<g class=\"number\" text-anchor=\"middle\" font-size=\"{:.0f}\">\n{}</g>\n", numbers_size(), numbers_);
    legend(bottom + 34.0 + (num_left_out_ > 0 ? 18.0 : 0.0));
    return out_ + "</svg>\n";
  }

 private:
  using Style = std::tuple<BarKind, int, int>;  // kind, stage of the rank, number of stages

  template <typename... Args>
  void put(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
  }
  void text(double x, double y, const std::string& words, const char* attributes) { out_ += svg_text(x, y, words, attributes); }

  void add_panel(const SvgPanel& panel) {
    std::vector<BarRow> rows = bar_rows(*panel.program, panel.timed);
    const int left_out = std::max<int>(0, static_cast<int>(rows.size()) - options_.max_rows);
    rows.resize(rows.size() - left_out);
    num_left_out_ += left_out;
    if (!panel.title.empty()) titles_.emplace_back(rows_.size(), panel.title);
    std::move(rows.begin(), rows.end(), std::back_inserter(rows_));
  }

  size_t num_bars() const {
    return std::accumulate(rows_.begin(), rows_.end(), size_t{0},
                           [](size_t sum, const BarRow& row) { return sum + row.compute.size() + row.side.size(); });
  }

  void join_narrow(double end_s) {
    if (options_.max_bars == 0) return;
    for (double least_s = end_s / options_.max_length; num_bars() > options_.max_bars && least_s < end_s; least_s *= 2.0) {
      for (BarRow& row : rows_) {
        row.compute = joined_bars(std::move(row.compute), least_s);
        row.side = joined_bars(std::move(row.side), least_s);
      }
    }
  }

  static std::vector<int> side_rows(const BarRow& row) {
    std::vector<Interval> intervals;
    intervals.reserve(row.side.size());
    for (const Bar& bar : row.side) intervals.push_back({bar.start_s, bar.end_s});
    return stack(intervals);
  }

  // Axis length at which half of all forwards are wide enough for their number.
  double axis_length(double end_s) const {
    std::vector<double> forwards;
    for (const BarRow& row : rows_) {
      for (const Bar& bar : row.compute) {
        if (bar.kind == BarKind::forward) forwards.push_back(bar.end_s - bar.start_s);
      }
    }
    if (forwards.empty()) return kMinLength;
    return std::clamp(kForwardWidth * end_s / median(std::move(forwards)), kMinLength,
                      std::max(kMinLength, options_.max_length));
  }

  std::string label_of(const BarRow& row) const {
    const std::string pp = program_.mesh.pp > 1 ? fmt::format("pp {}, ", row.pp) : "";
    return fmt::format("{}rank {}{}", pp, row.rank, row.alike > 1 ? fmt::format(" and {} like it", row.alike - 1) : "");
  }
  size_t longest_label() const {
    size_t longest = 0;
    for (const BarRow& row : rows_) longest = std::max(longest, label_of(row).size());
    return longest;
  }

  double top() const { return options_.title.empty() && options_.subtitle.empty() ? kTopWithoutHeading : kTop; }
  double row_pitch() const { return height_of_row_ + num_side_ * side_height_ + kRowGap; }
  double row_top(size_t row) const {
    const auto above = std::count_if(titles_.begin(), titles_.end(), [row](const auto& title) { return title.first <= row; });
    return top() + static_cast<double>(row) * row_pitch() + static_cast<double>(above) * kPanelTitle;
  }
  double numbers_size() const { return rows_.size() > 16 ? kSvgFontSize - 1.0 : kSvgFontSize; }

  void tracks() {
    put("<g class=\"track\" fill=\"{}\">\n", kTrackColour);
    for (size_t row = 0; row < rows_.size(); ++row) {
      put("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\"/>\n", left_, row_top(row), scale_.length(),
          height_of_row_ + num_side_ * side_height_);
    }
    put("</g>\n<g class=\"panel\">\n");
    for (const auto& [row, title] : titles_) text(kMargin, row_top(row) - 8.0, title, "font-weight=\"bold\"");
    put("</g>\n<g class=\"label\" text-anchor=\"end\">\n");
    for (size_t row = 0; row < rows_.size(); ++row) {
      put("<text x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", left_ - 8.0, row_top(row) + height_of_row_ / 2 + 4.0,
          label_of(rows_[row]));
    }
    put("</g>\n");
  }

  void axis(double bottom) {
    put("<g class=\"axis\" text-anchor=\"middle\" fill=\"#555\">\n");
    const std::string unit = fmt::format(" {}", scale_.unit());
    for (const TimeScale::Mark& mark : scale_.marks(70.0)) {
      const double x = left_ + mark.position;
      put("<path d=\"M{0:.1f} {1:.1f}V{2:.1f}\" stroke=\"#ccc\" stroke-width=\"0.7\"/>\n", x, top() - 4.0, bottom + 2.0);
      put("<text x=\"{:.1f}\" y=\"{:.1f}\">{}{}</text>\n", x, bottom + 15.0, mark.label, mark.position > 0.0 ? unit : "");
    }
    put("</g>\n");
    if (num_left_out_ > 0) {
      text(left_, bottom + 33.0, fmt::format("... and {} more rows", num_left_out_), "fill=\"#555\"");
    }
  }

  void collect(size_t row) {
    const BarRow& bars = rows_[row];
    for (const Bar& bar : bars.compute) {
      add(bars, bar, row_top(row), height_of_row_);
      edges(bar, row_top(row));
      number(bars, bar, row_top(row));
    }
    for (size_t i = 0; i < bars.side.size(); ++i) {
      add(bars, bars.side[i], row_top(row) + height_of_row_ + side_rows_[row][i] * side_height_ + 0.5, side_height_ - 0.5);
    }
  }

  // Leaves a thin gap between bars that are wide enough.
  void add(const BarRow& row, const Bar& bar, double top, double height) {
    const double width = scale_.at(bar.end_s) - scale_.at(bar.start_s);
    if (width < kLeastWidth) return;
    const double hair = width > 4.0 ? 0.6 : 0.0;
    used_[static_cast<size_t>(bar.kind)] = true;
    fmt::format_to(std::back_inserter(bars_[{bar.kind, bar.chunk, row.num_chunks}]),
                   "<rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{:.1f}\"><title>{}</title></rect>\n",
                   left_ + scale_.at(bar.start_s), top, width - hair, height, svg_escaped(hint(bar)));
  }

  // Notches at the foot of a bar at its block boundaries.
  void edges(const Bar& bar, double top) {
    const double width = scale_.at(bar.end_s) - scale_.at(bar.start_s);
    if (width < kLeastBlockWidth * static_cast<double>(bar.edges_s.size() + 1)) return;
    for (const double edge_s : bar.edges_s) {
      fmt::format_to(std::back_inserter(notches_), "<path d=\"M{:.1f} {:.1f}v-5\"/>\n", left_ + scale_.at(edge_s),
                     top + height_of_row_);
    }
  }

  // Tooltip of the bar.
  std::string hint(const Bar& bar) const {
    std::string result(name(bar.kind));
    if (bar.joined > 1) result = fmt::format("{} pieces, most of it {}", bar.joined, result);
    if (bar.first < bar.last) {
      result += fmt::format(", {}", program_.block_names[bar.first]);
      if (bar.last > bar.first + 1) result += fmt::format(" to {}", program_.block_names[bar.last - 1]);
    }
    if (bar.micro >= 0) result += fmt::format(", micro-batch {}", bar.micro);
    return result + fmt::format(": {}, from {}", format_duration(bar.end_s - bar.start_s), format_duration(bar.start_s));
  }

  void number(const BarRow& row, const Bar& bar, double top) {
    if (bar.micro < 0 || bar.kind == BarKind::other) return;
    const double width = scale_.at(bar.end_s) - scale_.at(bar.start_s);
    // Numbers are shown on all bars of a width or on no bar.
    const size_t most_digits = fmt::to_string(program_.micro_batches - 1).size();
    if (width < kDigitWidth * static_cast<double>(most_digits) + 2.0) return;
    const bool dark = is_dark(shade(colour_of(bar.kind), bar.chunk, row.num_chunks));
    fmt::format_to(std::back_inserter(numbers_), "<text x=\"{:.1f}\" y=\"{:.1f}\"{}>{}</text>\n",
                   left_ + scale_.at(bar.start_s) + width / 2, top + height_of_row_ / 2 + 4.0, dark ? " fill=\"#fff\"" : "",
                   bar.micro);
  }

  void legend(double top) {
    put("<g class=\"legend\">\n");
    double x = left_;
    const auto entry = [&](const std::string& words, const std::string& colour) {
      put("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"14\" height=\"11\" fill=\"{}\"/>\n", x, top, colour);
      text(x + 19.0, top + 10.0, words, "");
      x += 19.0 + 6.6 * static_cast<double>(words.size()) + 22.0;
    };
    for (size_t i = 0; i < kBarKinds.size(); ++i) {
      const auto kind = static_cast<BarKind>(i);
      if (used_[i]) entry(std::string(name(kind)), text_of(colour_of(kind)));
    }
    entry("idle", kTrackColour);
    if (num_chunks_ > 1) text(x, top + 10.0, "a rank's later stages are lighter", "fill=\"#555\"");
    put("</g>\n");
  }

  // "backward-input"
  static std::string class_of(BarKind kind) {
    const std::string_view words = name(kind);
    const size_t comma = words.find(", ");
    if (comma == std::string_view::npos) return std::string(words);
    return fmt::format("{}-{}", words.substr(0, comma), words.substr(comma + 2));
  }

  const Program& program_;
  const SvgOptions& options_;
  std::vector<BarRow> rows_;
  std::vector<std::pair<size_t, std::string>> titles_;  // of panels, by their first row
  std::vector<std::vector<int>> side_rows_;             // by row, of its side bars
  TimeScale scale_;
  int num_left_out_ = 0, num_side_ = 0, num_chunks_ = 1;
  double height_of_row_ = 0.0, side_height_ = 0.0, left_ = 0.0;
  std::string out_, numbers_, notches_;
  std::map<Style, std::string> bars_;
  std::array<bool, kBarKinds.size()> used_{};
};

}  // namespace

std::string draw_svg(const Program& program, const std::vector<TimedInstruction>& timed, const SvgOptions& options) {
  return draw_svg({{.program = &program, .timed = timed}}, options);
}

std::string draw_svg(const std::vector<SvgPanel>& panels, const SvgOptions& options) {
  if (panels.empty()) throw InputError("a picture of steps: there is none");
  return Svg(panels, options).draw();
}

}  // namespace weft
