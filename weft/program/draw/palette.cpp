#include "weft/program/draw/palette.h"

#include <fmt/format.h>

#include <iterator>

namespace weft {

Colour colour_of(BarKind kind) {
  switch (kind) {
    case BarKind::forward:
      return {86, 154, 214};
    case BarKind::recompute:
      return {190, 218, 243};
    case BarKind::backward:
    case BarKind::backward_input:
      return {0, 128, 110};
    case BarKind::backward_weight:
      return {240, 178, 60};
    case BarKind::other:
      return {130, 130, 130};
    case BarKind::gather:
      return {204, 121, 167};
    case BarKind::reduce:
      return {213, 94, 0};
    case BarKind::transfer:
      return {70, 70, 70};
    case BarKind::copy:
      return {140, 100, 60};
  }
  return {};
}

Colour line_colour(int line) {
  constexpr Colour kLines[] = {{0, 114, 178}, {213, 94, 0},   {0, 158, 115}, {204, 121, 167},
                               {230, 159, 0}, {86, 180, 233}, {60, 60, 60}};
  return kLines[static_cast<size_t>(line) % std::size(kLines)];
}

Colour shade(Colour c, int chunk, int num_chunks) {
  const double part = num_chunks > 1 ? 0.55 * chunk / (num_chunks - 1) : 0.0;
  const auto mix = [part](int channel) { return static_cast<int>(channel + (255 - channel) * part); };
  return {mix(c.red), mix(c.green), mix(c.blue)};
}

bool is_dark(Colour c) { return 0.299 * c.red + 0.587 * c.green + 0.114 * c.blue < 130; }

std::string text_of(Colour c) { return fmt::format("#{:02x}{:02x}{:02x}", c.red, c.green, c.blue); }

}  // namespace weft
