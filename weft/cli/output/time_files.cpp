#include "weft/cli/output/time_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "weft/base/printable.h"
#include "weft/base/units.h"
#include "weft/checkpoint/atomic_file.h"
#include "weft/cli/output/output_files.h"
#include "weft/program/draw/svg.h"
#include "weft/program/simulate/simulation.h"
#include "weft/train/run/trace_file.h"

namespace weft {

namespace {

std::string subtitle(const Simulation& simulation, const Hardware& hardware) {
  double exposed_s = 0.0;
  for (const SimulatedRank& rank : simulation.ranks) exposed_s = std::max(exposed_s, rank.exposed_s);
  return fmt::format("simulated on {}: step {}, bubble {:.1f} %, exposed communication at most {}", printable(hardware.name),
                     format_duration(simulation.step_s), 100.0 * simulation.bubble_share(), format_duration(exposed_s));
}

}  // namespace

void TimeFiles::add_to(CLI::App& command) {
  add_output(command, "--svg", svg, "Draw the step over time to this SVG file");
  add_output(command, "--trace", trace, "Write the step as a trace for ui.perfetto.dev or chrome://tracing");
}

void TimeFiles::check(const Recipe& recipe, const NamedFiles& read) const {
  check_not_read(recipe, read, {{"--svg", svg}, {"--trace", trace}});
  if (!svg.empty()) check_writable(svg);
  if (!trace.empty()) check_writable(trace);
}

void TimeFiles::write(const Program& program, const Simulation& simulation, const Hardware& hardware,
                      const std::string& title) const {
  const std::vector<TimedInstruction> timed = timed_instructions(program, simulation);
  if (!svg.empty()) write_file(svg, draw_svg(program, timed, {.title = title, .subtitle = subtitle(simulation, hardware)}));
  if (!trace.empty()) write_trace_file(trace, program, timed);
}

}  // namespace weft
