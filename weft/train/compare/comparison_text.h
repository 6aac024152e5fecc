// The result of a layout comparison, as text and as JSON.
#pragma once

#include <string>

#include "weft/train/compare/layout_comparison.h"

namespace weft {

/// Formats the whole result in lines; the first has the verdict: "3 steps on dp 2 as on one device: bit-identical".
std::string comparison_text(const LayoutComparison& comparison);

/// One line about a difference, for the end of a log: the first deviation and its cause.
std::string difference_line(const LayoutComparison& comparison);

/// The whole result as multi-line JSON; missing values are null.
std::string comparison_json(const LayoutComparison& comparison);

}  // namespace weft
