#include "weft/checkpoint/format/state_part.h"

#include <algorithm>
#include <functional>
#include <numeric>

namespace weft {

int64_t StatePart::numel() const {
  return std::accumulate(runs.begin(), runs.end(), int64_t{0},
                         [](int64_t sum, const StateRun& run) { return sum + run.numel; });
}

int64_t StatePart::whole_numel() const { return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>()); }

StatePart whole_part(const std::string& name, const at::Tensor& tensor) {
  StatePart part{name, tensor.sizes().vec(), {}, tensor.detach().view({-1})};
  if (tensor.numel() > 0) part.runs.push_back({0, 0, tensor.numel()});
  return part;
}

StatePart narrow_to_runs(const StatePart& part) {
  if (part.runs.empty()) return {part.name, part.shape, {}, part.memory.narrow(0, 0, 0)};
  int64_t begin = part.runs.front().memory_begin, end = begin;
  for (const StateRun& run : part.runs) {
    begin = std::min(begin, run.memory_begin);
    end = std::max(end, run.memory_begin + run.numel);
  }
  StatePart result{part.name, part.shape, part.runs, part.memory.narrow(0, begin, end - begin)};
  for (StateRun& run : result.runs) run.memory_begin -= begin;
  return result;
}

std::vector<StateRun> clip_runs(const std::vector<StateRun>& runs, int64_t begin, int64_t end) {
  std::vector<StateRun> result;
  for (const StateRun& run : runs) {
    const int64_t from = std::max(begin, run.memory_begin), to = std::min(end, run.memory_begin + run.numel);
    if (from < to) result.push_back({from, run.whole_begin + from - run.memory_begin, to - from});
  }
  return result;
}

}  // namespace weft
