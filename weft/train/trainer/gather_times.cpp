#include "weft/train/trainer/gather_times.h"

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <chrono>

namespace weft {

std::vector<TimedInstruction> gather_times(const Program& program, int rank, const std::vector<InstructionTime>& mine,
                                           const Group& world, at::Device device) {
  size_t longest = 0;
  for (const InstructionList& list : program.lists) longest = std::max(longest, list.size());
  const auto ranks = static_cast<int64_t>(program.world_size());
  at::Tensor table = at::zeros({ranks, static_cast<int64_t>(longest), 2}, at::TensorOptions(at::kDouble));
  auto times = table.accessor<double, 3>();
  world.barrier("end of a traced step").wait();
  const double end = std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  for (size_t i = 0; i < mine.size(); ++i) {
    times[rank][static_cast<int64_t>(i)][0] = mine[i].start_s - end;
    times[rank][static_cast<int64_t>(i)][1] = mine[i].end_s - end;
  }
  table = table.to(device);
  world.all_reduce(table, ReduceOp::sum, "times of a step").wait();
  table = table.cpu();
  times = table.accessor<double, 3>();
  const double first = table.min().item<double>();
  std::vector<TimedInstruction> result;
  for (int r = 0; r < static_cast<int>(ranks); ++r) {
    for (int i = 0; i < static_cast<int>(program.of(r).size()); ++i) {
      result.push_back({r, i, times[r][i][0] - first, times[r][i][1] - first});
    }
  }
  return result;
}

}  // namespace weft
