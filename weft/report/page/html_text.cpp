#include "weft/report/page/html_text.h"

#include <algorithm>

#include "weft/base/printable.h"
#include "weft/program/draw/svg_text.h"

namespace weft {

std::string html_text(const std::string& text) {
  std::string safe;
  for (const char c : svg_escaped(printable(text))) safe += c == '"' ? std::string("&quot;") : std::string(1, c);
  return safe;
}

std::string html_lines(const std::string& text) {
  std::string lines;
  for (size_t first = 0, newline; first <= text.size(); first = newline + 1) {
    newline = std::min(text.find('\n', first), text.size());
    lines += (first > 0 ? "\n" : "") + html_text(text.substr(first, newline - first));
  }
  return lines;
}

}  // namespace weft
