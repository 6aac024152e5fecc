#include "weft/launch/unsaved_text.h"

#include <fmt/format.h>

#include <algorithm>

namespace weft {

std::string_view unsaved_text(const RunBoard& board, std::array<char, 160>& buffer) {
  const int64_t done = board.steps_done(), saved = board.saved_step();
  if (done <= 0) return {};
  auto end = fmt::format_to_n(buffer.data(), buffer.size(), " after step {}", done);
  const size_t head = std::min(end.size, buffer.size());
  char* const rest = buffer.data() + head;
  const size_t room = buffer.size() - head;
  if (saved >= done) {
    end = fmt::format_to_n(rest, room, ", which is saved");
  } else if (saved > 0) {
    end = fmt::format_to_n(rest, room, "; not saved since step {}", saved);
  } else if (saved == 0) {
    end = fmt::format_to_n(rest, room, "; nothing is saved (save.folder and save.every keep checkpoints)");
  } else {
    return {buffer.data(), head};
  }
  return {buffer.data(), head + std::min(end.size, room)};
}

}  // namespace weft
