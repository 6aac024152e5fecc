#include "weft/train/run/trace_file.h"

#include <fmt/core.h>

#include <algorithm>
#include <string_view>

#include "weft/base/error.h"
#include "weft/base/units.h"
#include "weft/checkpoint/atomic_file.h"

namespace weft {

void check_traced_step(std::optional<int64_t> step, int64_t steps) {
  if (!step || (*step >= 1 && *step <= steps)) return;
  throw InputError(fmt::format("step {} cannot be traced: the run has {}", *step, counted(steps, "step")));
}

int64_t traced_step(const std::string& path, std::optional<int64_t> asked, int64_t steps) {
  check_traced_step(asked, steps);
  return path.empty() ? 0 : asked.value_or(std::min<int64_t>(3, steps));
}

void check_profiled_steps(const std::optional<StepRange>& range, int64_t steps) {
  constexpr int64_t kMost = 100;
  if (!range) return;
  if (range->first < 1 || range->last < range->first || range->last - range->first >= kMost) {
    throw InputError(fmt::format("steps {}-{} cannot be profiled: give the first and the last, counted from 1, of at most {}",
                                 range->first, range->last, kMost));
  }
  if (range->last <= steps) return;
  throw InputError(fmt::format("step {} cannot be profiled: the run has {}", range->last, counted(steps, "step")));
}

void write_trace_file(const std::string& path, const Program& program, const std::vector<TimedInstruction>& timed,
                      const std::vector<TraceSlice>& slices) {
  AtomicFile file(path);
  write_trace(
      program, timed, [&file](std::string_view part) { file.write(part.data(), part.size()); }, slices);
  file.commit();
}

}  // namespace weft
