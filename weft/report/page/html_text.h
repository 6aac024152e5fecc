// Text in a page of HTML.
#pragma once

#include <string>

namespace weft {

/// Text between tags or in an attribute: one line, without control characters.
std::string html_text(const std::string& text);
/// The same, with its line breaks.
std::string html_lines(const std::string& text);

}  // namespace weft
