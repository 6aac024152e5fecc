// draw: a program as text that a person reads.
#pragma once

#include <string>

#include "weft/program/program.h"

namespace weft {

struct DrawOptions {
  int max_ranks = 8;  ///< distinct lists drawn at most
  int width = 100;    ///< columns
};

/// A timeline per distinct list (one lane a row) with a legend, the ranks that run it, and a table of bytes sent and
/// floating-point operations per step and rank.
std::string draw(const Program& program, const DrawOptions& options = {});

}  // namespace weft
