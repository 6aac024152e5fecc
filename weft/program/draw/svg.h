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

/// A step's rows, under a title of their own.
struct SvgPanel {
  std::string title = {};                    ///< empty: none
  const Program* program = nullptr;          ///< whose instructions `timed` has
  std::vector<TimedInstruction> timed = {};  ///< ordered by rank
};

/// Text and limits of draw_svg().
struct SvgOptions {
  std::string title = {};     ///< heads the picture
  std::string subtitle = {};  ///< below the title
  int max_rows = 64;          ///< most rows drawn of a panel
  double max_length = 2680;   ///< most units of the axis
  size_t max_bars = 0;        ///< narrow bars are joined until there are about so many; 0: none is
};

/// Returns the picture as an SVG document, 900 to 2 800 units wide: wide enough for the numbers on forward bars, if possible.
std::string draw_svg(const Program& program, const std::vector<TimedInstruction>& timed, const SvgOptions& options = {});

/// Several steps of one model below one another, on the same axis. Throws InputError without a panel.
std::string draw_svg(const std::vector<SvgPanel>& panels, const SvgOptions& options = {});

}  // namespace weft
