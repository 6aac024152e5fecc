// Palette: the colours of drawings. After Okabe and Ito's, and apart in lightness too, for readers who do not tell hues.
#pragma once

#include <string>

#include "weft/program/draw/bars.h"

namespace weft {

struct Colour {
  int red = 0, green = 0, blue = 0;  ///< 0 to 255
};

Colour colour_of(BarKind kind);

/// The colour of a chart's line, by its number; after seven they come again.
Colour line_colour(int line);

/// The colour for a rank's stage `chunk`: later ones are lighter, up to half way to white.
Colour shade(Colour colour, int chunk, int num_chunks);

/// Whether white letters are read better on it than black ones.
bool is_dark(Colour colour);

/// The colour as SVG has it: "#00806e".
std::string text_of(Colour colour);

}  // namespace weft
