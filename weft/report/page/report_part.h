// ReportPart: a part of a report that its caller makes: a heading, a note, a picture or bars, a table behind it, a text.
#pragma once

#include <string>
#include <vector>

namespace weft {

/// Rows of as many cells as the head has; cells after the first are set to the right.
struct ReportTable {
  std::vector<std::string> head = {};
  std::vector<std::vector<std::string>> rows = {};
};

/// A group of bars: one per series.
struct ReportBars {
  std::string name = {};
  std::vector<double> values = {};      ///< at least 0; as many as there are series
  std::vector<std::string> texts = {};  ///< beside each bar: "predicted 12.1 MB"
};

struct ReportPart {
  std::string title = {};
  std::string note = {};              ///< a line below the title
  std::string svg = {};               ///< a picture; empty: none
  std::vector<ReportBars> bars = {};  ///< drawn to one scale; empty: none
  ReportTable table = {};             ///< of what is drawn; without rows: none
  std::string text_title = {};        ///< heads `text`
  std::string text = {};              ///< lines of fixed width, closed at first; empty: none
  bool in_section = false;            ///< under the title of the part before it
};

/// The part as HTML. `index`: among the page's parts.
std::string part_html(const ReportPart& part, size_t index);

}  // namespace weft
