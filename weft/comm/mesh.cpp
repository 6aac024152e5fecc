#include "weft/comm/mesh.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "weft/base/error.h"
#include "weft/base/time_limit.h"
#include "weft/comm/c10d/c10d_backends.h"
#include "weft/comm/call/backend.h"
#include "weft/comm/host/host_name.h"
#include "weft/comm/shm/shm_backend.h"
#include "weft/comm/staged/staged_backend.h"
#include "weft/comm/two_level/two_level_backend.h"
#include "weft/comm/wait/await.h"
#include "weft/comm/wait/rank_table.h"

namespace weft {
namespace {

std::string shape(const std::vector<AxisSize>& axes) {
  std::vector<std::string> parts;
  parts.reserve(axes.size());
  for (const AxisSize& axis : axes) parts.push_back(fmt::format("{}={}", axis.name, axis.size));
  return fmt::format("{}", fmt::join(parts, " x "));
}

// Options that must match so that ranks understand each other's calls and memory.
std::string call_text(const std::string& name, const GroupOptions& options) {
  return fmt::format("group(\"{}\", backend {} on {}, sums {}, across hosts {}, messages of {} bytes{})", name,
                     kBackends.of(options.backend), c10::DeviceTypeName(options.device.type(), /*lower_case=*/true),
                     options.tree_order ? "in tree order" : "in any order", kAcrossHosts.of(options.across_hosts),
                     options.message_bytes, options.passes_messages ? " between neighbours" : "");
}

// Ranks with different axes or options would otherwise wait for each other in different places.
void agree(Store& store, const World& world, const std::string& name, const GroupOptions& options, const Deadline& deadline) {
  const std::string mine = call_text(name, options);
  if (world.rank() == 0) {
    store.set("call", mine);
    return;
  }
  const std::string first = await_key(store, "call", deadline, wait_for_rank(0, fmt::format("creating group \"{}\"", name)));
  if (first == mine) return;
  const std::string text =
      fmt::format("groups are created in a different order or with different options: rank 0 calls {}, rank {} calls {}", first,
                  world.rank(), mine);
  store.table()->fail(-1, text);
  throw CommError(text);
}

void check_shm(const GroupPlan& plan) {
  if (!on_one_host(plan.hosts)) {
    throw InputError(fmt::format("group \"{}\": shm needs all ranks on one host", plan.axis.name));
  }
}

/// Returns a group over `make`'s for CPU tensors, on whichever device the plan's are.
std::shared_ptr<Backend> on_host(const GroupPlan& plan, std::shared_ptr<Backend> make(const GroupPlan&)) {
  const at::Device device = plan.options.device;
  if (device.is_meta() || device.is_cpu()) return make(plan);  // meta tensors have no data to copy
  GroupPlan host = plan;
  host.options.device = at::kCPU;
  return make_staged_backend(plan, make(host));
}

std::shared_ptr<Backend> make_nccl(const GroupPlan& plan) {
  if (plan.options.device.is_cpu()) {
    throw InputError(fmt::format("group \"{}\": NCCL moves tensors of GPUs, but this rank's are on the CPU; use backend auto",
                                 plan.axis.name));
  }
  return make_device_backend(plan);
}

std::shared_ptr<Backend> make_backend(const GroupPlan& plan) {
  switch (plan.options.backend) {
    case BackendKind::shm:
      check_shm(plan);
      return on_host(plan, make_shm_backend);
    case BackendKind::gloo:
      return on_host(plan, make_gloo_backend);
    case BackendKind::nccl:
      return make_nccl(plan);
    case BackendKind::automatic:
      break;
  }
  if (!plan.options.device.is_cpu()) return make_device_backend(plan);
  return on_one_host(plan.hosts) ? make_shm_backend(plan) : make_host_backend(plan);
}

}  // namespace

Mesh::Mesh(World world, std::vector<AxisSize> axes) : world_(std::move(world)), axes_(std::move(axes)) {
  int64_t product = 1;
  std::set<std::string> names;
  for (const AxisSize& axis : axes_) {
    if (axis.size < 1) throw InputError(fmt::format("mesh {}: axis \"{}\" needs at least one rank", shape(axes_), axis.name));
    if (axis.name.empty() || axis.name.find('+') != std::string::npos || !names.insert(axis.name).second) {
      throw InputError(fmt::format("mesh {}: axis \"{}\" is empty, repeated or contains a '+'", shape(axes_), axis.name));
    }
    product *= axis.size;
  }
  if (product != world_.size()) {
    throw InputError(fmt::format("mesh {} has {} ranks but the world has {}: change an axis or the number of ranks",
                                 shape(axes_), product, world_.size()));
  }
}

int Mesh::size(std::string_view axis) const {
  for (const AxisSize& entry : axes_) {
    if (entry.name == axis) return entry.size;
  }
  return 1;
}

int Mesh::coordinate(std::string_view axis) const {
  int rest = world_.rank();
  for (auto entry = axes_.rbegin(); entry != axes_.rend(); ++entry) {
    if (entry->name == axis) return rest % entry->size;
    rest /= entry->size;
  }
  return 0;
}

Axis Mesh::axis(std::string_view name) const { return join({std::string(name)}); }

Axis Mesh::join(const std::vector<std::string>& names) const {
  Axis result;
  result.name = fmt::format("{}", fmt::join(names, "+"));
  // Starts from the corner of the line or plane: this rank with the joined coordinates set to zero.
  result.ranks = {0};
  int stride = world_.size();
  for (const AxisSize& entry : axes_) {
    stride /= entry.size;
    const bool joined = std::find(names.begin(), names.end(), entry.name) != names.end();
    std::vector<int> next;
    for (int base : result.ranks) {
      const int here = coordinate(entry.name);
      for (int step = joined ? 0 : here; step < (joined ? entry.size : here + 1); ++step) next.push_back(base + step * stride);
    }
    result.ranks = std::move(next);
  }
  const auto own = std::find(result.ranks.begin(), result.ranks.end(), world_.rank());
  result.index = static_cast<int>(own - result.ranks.begin());
  return result;
}

Group Mesh::group(const Axis& axis, const GroupOptions& given) const {
  if (world_.size() == 1) return Group(given.device);
  GroupOptions options = given;
  options.timeout = time_limit(given.timeout);  // clamped, because it is added to clocks
  const Deadline deadline = options.timeout;
  Store store = world_.next_group_store().within(deadline);
  try {
    agree(store, world_, axis.name, options, deadline);
    if (axis.size() == 1) return Group(options.device);
    std::vector<std::string> hosts;
    hosts.reserve(axis.ranks.size());
    for (int rank : axis.ranks) hosts.push_back(world_.host(rank));
    const std::shared_ptr<Backend> backend =
        make_backend({axis, std::move(hosts), store.below(fmt::format("{}", axis.ranks.front())), options, deadline,
                      world_.device_channels()});
    world_.call_logs()->add(backend->log(), fmt::format("{}{}", store.prefix(), axis.ranks.front()),
                            std::string(backend->kind()));
    Group group(backend);
    store.throw_if_failed();  // a late rank finds what the others left behind when they gave up
    return group;
  } catch (const Error& error) {
    report_failure(store, error);
    throw;
  }
}

}  // namespace weft
