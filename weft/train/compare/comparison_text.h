// What a comparison of layouts found, for people and as JSON.
#pragma once

#include <string>

#include "weft/train/compare/layout_comparison.h"

namespace weft {

/// All of it, in lines; the first has the verdict: "3 steps on dp 2 as on one device: bit-identical".
std::string comparison_text(const LayoutComparison& comparison);

/// A line on a difference, for the end of a log: what differs first, and what does it.
std::string difference_line(const LayoutComparison& comparison);

/// All of it as JSON, on lines; what is not there is null.
std::string comparison_json(const LayoutComparison& comparison);

}  // namespace weft
