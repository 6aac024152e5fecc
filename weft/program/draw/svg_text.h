// What every picture is written with: the document's opening, its heading, and words.
#pragma once

#include <string>

namespace weft {

inline constexpr double kSvgFontSize = 11.0;  ///< of words that ask for no other

/// Text as it may stand between tags, without control characters.
std::string svg_escaped(const std::string& text);

/// The beginning of a document on white; "</svg>" ends it.
std::string svg_opening(double width, double height);

/// Words at a place, with attributes as they stand in a tag; nothing for no words.
std::string svg_text(double x, double y, const std::string& words, const std::string& attributes);

/// Title and subtitle, in the 50 units at the top, from `left` on.
std::string svg_heading(double left, const std::string& title, const std::string& subtitle);
/// How wide that is, by the widest of the fonts that a viewer may take.
double svg_heading_width(const std::string& title, const std::string& subtitle);

}  // namespace weft
