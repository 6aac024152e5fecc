#include "weft/program/draw/svg_text.h"

#include <fmt/format.h>

#include <algorithm>

namespace weft {

std::string svg_escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '&') {
      result += "&amp;";
    } else if (c == '<') {
      result += "&lt;";
    } else if (c == '>') {
      result += "&gt;";
    } else if (static_cast<unsigned char>(c) >= 0x20) {
      result += c;
    }
  }
  return result;
}

std::string svg_opening(double width, double height) {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} {1:.0f}\" "
      "font-family=\"DejaVu Sans, Verdana, Helvetica, Arial, sans-serif\" font-size=\"{2:.0f}\" fill=\"#222\">\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n",
      width, height, kSvgFontSize);
}

std::string svg_text(double x, double y, const std::string& words, const std::string& attributes) {
  if (words.empty()) return {};
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" {}>{}</text>\n", x, y, attributes, svg_escaped(words));
}

std::string svg_heading(double left, const std::string& title, const std::string& subtitle) {
  return svg_text(left, 26.0, title, "font-size=\"16\" font-weight=\"bold\"") +
         svg_text(left, 46.0, subtitle, "font-size=\"12\" fill=\"#555\"");
}

double svg_heading_width(const std::string& title, const std::string& subtitle) {
  constexpr double kTitleLetter = 10.8, kSubtitleLetter = 7.2;
  return std::max(kTitleLetter * static_cast<double>(title.size()), kSubtitleLetter * static_cast<double>(subtitle.size()));
}

}  // namespace weft
