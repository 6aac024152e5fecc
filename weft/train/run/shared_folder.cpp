#include "weft/train/run/shared_folder.h"

#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <random>
#include <thread>

#include "weft/base/printable.h"
#include "weft/base/stopwatch.h"
#include "weft/checkpoint/storage/open_storage.h"
#include "weft/comm/hosts/host_map.h"
#include "weft/comm/world_hosts.h"

namespace weft {
namespace {

constexpr double kShownWithin_s = 3.0;
constexpr std::chrono::milliseconds kLookEvery{50};

bool appears(Storage& storage, const std::string& path) {
  const Stopwatch time;
  while (!storage.has(path)) {
    if (time.seconds() > kShownWithin_s) return false;
    std::this_thread::sleep_for(kLookEvery);
  }
  return true;
}

}  // namespace

std::vector<std::string> shared_folder_notes(const std::string& folder, const World& world, const Group& all,
                                             at::Device device) {
  const HostMap map(hosts_of(world));
  if (folder.empty() || map.num_hosts() < 2) return {};
  const bool leads = world.rank() == 0;
  at::Tensor name = at::zeros({1}, at::kLong);
  if (leads) name.fill_(static_cast<int64_t>(std::random_device()()));
  name = name.to(device);
  all.broadcast(name, 0, "name of a file that all hosts see").wait();
  const std::string path = fmt::format(".hosts-{:08x}", name.item<int64_t>());
  const std::unique_ptr<Storage> storage = open_storage(folder);
  at::Tensor unseen = at::zeros({map.num_hosts()}, at::kLong);
  if (leads) storage->write_text(path, "");
  all.barrier("a file that all hosts see").wait();
  for (int host = 1; host < map.num_hosts(); ++host) {
    if (world.rank() == map.members(host).front() && !appears(*storage, path)) unseen[host].fill_(1);
  }
  unseen = unseen.to(device);
  all.all_reduce(unseen, ReduceOp::sum, "hosts that do not see a file").wait();
  if (!leads) return {};
  storage->remove(path);
  unseen = unseen.cpu();
  std::vector<std::string> blind;
  for (int host = 1; host < map.num_hosts(); ++host) {
    if (unseen.const_data_ptr<int64_t>()[host] != 0) blind.push_back(world.host(map.members(host).front()));
  }
  if (blind.empty()) return {};
  return {fmt::format(
      "save.folder {} is not the same on all hosts: {} {} not see what rank 0 writes there on {}; each keeps its own "
      "part of a checkpoint, which loads only where all parts are: name a folder that all share, or a bucket",
      printable(folder), fmt::join(blind, ", "), blind.size() == 1 ? "does" : "do", world.host(0))};
}

}  // namespace weft
