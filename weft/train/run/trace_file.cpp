#include "weft/train/run/trace_file.h"

#include <string_view>

#include "weft/checkpoint/atomic_file.h"
#include "weft/program/draw/trace.h"

namespace weft {

void write_trace_file(const std::string& path, const Program& program, const std::vector<TimedInstruction>& timed) {
  AtomicFile file(path);
  write_trace(program, timed, [&file](std::string_view part) { file.write(part.data(), part.size()); });
  file.commit();
}

}  // namespace weft
