// Common parts of SVG pictures: the document's opening, its heading, and text.
#pragma once

#include <string>

namespace weft {

inline constexpr double kSvgFontSize = 11.0;  ///< default font size

/// Escapes text for use between tags, without control characters.
std::string svg_escaped(const std::string& text);

/// Opening of a document on white; "</svg>" ends it.
std::string svg_opening(double width, double height);

/// Text at a position, with attributes as written in a tag; empty for empty text.
std::string svg_text(double x, double y, const std::string& words, const std::string& attributes);

/// Title and subtitle, in the top 50 units, starting at `left`.
std::string svg_heading(double left, const std::string& title, const std::string& subtitle);
/// Width of the heading, in the widest of the fonts that a viewer may use.
double svg_heading_width(const std::string& title, const std::string& subtitle);

}  // namespace weft
