// draw_svg: timed instructions as a picture: a row per rank, time to the right, to scale. Simulated steps have a row per class
// of identical ranks, labelled with their number.
//
// Bars are from bars.h, with the number of their micro-batch where it fits; a rank's stages differ in shade. Transfers and
// copies have thin lanes below the rank's compute; idle time is a grey track. White notches at the foot of a bar mark its block
// boundaries. Colours are from palette.h.
#pragma once

#include <string>
#include <vector>

#include "weft/program/timed.h"

namespace weft {

/// Text and limits of draw_svg().
struct SvgOptions {
  std::string title = {};     ///< heads the picture
  std::string subtitle = {};  ///< below the title
  int max_rows = 64;          ///< most rows drawn
};

/// Returns the picture as an SVG document, 900 to 2 800 units wide: wide enough for the numbers on forward bars, if possible.
std::string draw_svg(const Program& program, const std::vector<TimedInstruction>& timed, const SvgOptions& options = {});

}  // namespace weft
