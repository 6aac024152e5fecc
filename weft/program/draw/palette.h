// Palette: colours of drawings, after Okabe and Ito; they differ in lightness too, for colour-blind readers.
#pragma once

#include <string>

#include "weft/program/draw/bars.h"

namespace weft {

struct Colour {
  int red = 0, green = 0, blue = 0;  ///< 0 to 255
};

Colour colour_of(BarKind kind);

/// Colour of a chart's line by its number; repeats after seven.
Colour line_colour(int line);

/// Colour of a rank's stage `chunk`: later ones are lighter, up to half way to white.
Colour shade(Colour colour, int chunk, int num_chunks);

/// True if white letters are more readable on it than black ones.
bool is_dark(Colour colour);

/// The colour in SVG notation: "#00806e".
std::string text_of(Colour colour);

}  // namespace weft
