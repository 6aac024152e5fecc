// draw_svg: timed instructions as a picture: a row for each rank of theirs, time to the right, to scale. Simulated steps
// have one for each class of ranks that do the same, and its label says how many they are.
//
// Bars are bars.h's, with the number of their micro-batch where it fits; a rank's stages are told apart by shade. What moves
// bytes stands in thin lanes below the rank's computing; time in which a rank does nothing is a grey track. White notches
// at the foot of a bar stand where its blocks meet. Colours are those of palette.h.
#pragma once

#include <string>
#include <vector>

#include "weft/program/timed.h"

namespace weft {

/// What draw_svg() writes and shows.
struct SvgOptions {
  std::string title = {};     ///< heads the picture
  std::string subtitle = {};  ///< stands below the title
  int max_rows = 64;          ///< drawn at most
};

/// The picture as a whole SVG document, 900 to 2 800 units wide: as wide as a forward bar needs for its number, if it can be.
std::string draw_svg(const Program& program, const std::vector<TimedInstruction>& timed, const SvgOptions& options = {});

}  // namespace weft
