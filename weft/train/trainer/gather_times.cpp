#include "weft/train/trainer/gather_times.h"

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <chrono>

namespace weft {

double common_time(int rank, const std::vector<std::string>& hosts, const Group& world, at::Device device) {
  at::Tensor table = at::zeros({static_cast<int64_t>(hosts.size())}, at::TensorOptions(at::kDouble));
  world.barrier("aligning the clocks of hosts").wait();
  table.accessor<double, 1>()[rank] =
      std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  table = table.to(device);
  world.all_reduce(table, ReduceOp::sum, "the clocks of hosts").wait();
  table = table.cpu();
  const auto times = table.accessor<double, 1>();
  double first = times[rank];
  for (int64_t r = 0; r < static_cast<int64_t>(hosts.size()); ++r) {
    if (hosts[r] == hosts[rank]) first = std::min(first, times[r]);
  }
  return first;
}

std::vector<TimedInstruction> gather_times(const Program& program, int rank, const std::vector<InstructionTime>& mine,
                                           const std::vector<std::string>& hosts, const Group& world, at::Device device) {
  size_t longest = 0;
  for (const InstructionList& list : program.lists) longest = std::max(longest, list.size());
  const auto ranks = static_cast<int64_t>(program.world_size());
  at::Tensor table = at::zeros({ranks, static_cast<int64_t>(longest), 2}, at::TensorOptions(at::kDouble));
  auto times = table.accessor<double, 3>();
  const double end = common_time(rank, hosts, world, device);
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
