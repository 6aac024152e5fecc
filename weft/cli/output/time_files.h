// TimeFiles: output files that show a step over time.
#pragma once

#include <CLI/App.hpp>
#include <string>

#include "weft/cli/output/output_files.h"
#include "weft/program/simulate/hardware.h"
#include "weft/program/simulate/simulate.h"

namespace weft {

struct TimeFiles {
  std::string svg, trace;  ///< paths; empty: not requested

  /// Adds --svg and --trace.
  void add_to(CLI::App& command);
  bool any() const { return !svg.empty() || !trace.empty(); }
  /// Throws InputError unless they can be written and are not read, as `read` or by the recipe. Call it before the work.
  void check(const Recipe& recipe, const NamedFiles& read) const;
  /// Writes the files, each completely or not at all. `title` heads the picture.
  void write(const Program& program, const Simulation& simulation, const Hardware& hardware, const std::string& title) const;
};

}  // namespace weft
