// NCCL, the engine for tensors of GPUs, linked if weft is built with CUDA.
#include <fmt/format.h>

#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "weft/base/error.h"
#include "weft/base/port_range.h"
#include "weft/comm/c10d/device_engines.h"

namespace weft {
namespace {

void check_ports(const std::string& group) {
  const auto range = port_range();
  if (!range) return;
  throw InputError(
      fmt::format("group \"{}\": NCCL uses any port and ignores WEFT_PORTS and run.ports ({}-{}): remove them, and narrow the "
                  "system's port range on each host: sysctl net.ipv4.ip_local_port_range=\"{} {}\"",
                  group, range->first, range->last, range->first, range->last));
}

c10::intrusive_ptr<c10d::Backend> connect_nccl(const DeviceEngineOptions& group) {
  check_ports(group.name);
  auto options = c10d::ProcessGroupNCCL::Options::create();
  options->timeout = group.timeout;
  return c10::make_intrusive<c10d::ProcessGroupNCCL>(group.store, group.rank, group.size, options);
}

}  // namespace

std::map<at::DeviceType, DeviceEngineFactory> built_in_engines() { return {{at::kCUDA, connect_nccl}}; }

}  // namespace weft
