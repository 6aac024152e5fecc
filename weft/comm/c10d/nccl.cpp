// NCCL, the engine for tensors of GPUs, linked if weft is built with CUDA.
#include <c10/util/env.h>
#include <fmt/format.h>

#include <chrono>
#include <mutex>
#include <optional>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>
#include <utility>

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

constexpr int kCleansUpOnly = 2;  // c10d's name for: abort the calls, let the program report
/// weft's own deadline, whose error names ranks and call, comes before c10d's.
constexpr std::chrono::seconds kAfterWeft{60};

/// By default c10d ends the process by SIGABRT when a call fails, is late or its watchdog is stuck, and a minute later than it
/// noticed: its threads write traces first. Here weft aborts the calls and reports (DeviceWatch). Values that the user has set
/// stay, unless they would end the process first.
void keep_process() {
  for (const char* name : {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "NCCL_ASYNC_ERROR_HANDLING"}) {
    const auto given = c10::utils::get_env(name);
    if (!given || *given == "0" || *given == "2") continue;
    throw InputError(fmt::format(
        "{}={} ends the process by a signal before weft can say which rank and call failed: unset it, or set it to {}", name,
        *given, kCleansUpOnly));
  }
  for (const char* name : {"TORCH_NCCL_ENABLE_MONITORING"}) {
    if (c10::utils::check_env(name) != true) continue;
    throw InputError(fmt::format("{}=1 ends the process by a signal if a call is stuck, without weft's error: unset it", name));
  }
  const std::pair<const char*, const char*> values[] = {
      {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "2"},
      {"TORCH_NCCL_ENABLE_MONITORING", "0"},
      {"TORCH_NCCL_RETHROW_CUDA_ERRORS", "0"},         // in the watchdog's thread, where nobody catches them
      {"TORCH_NCCL_DUMP_ON_TIMEOUT", "0"},             // asks the store once per second
      {"TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC", "250"},  // a quarter of the time that the watchdog sleeps after a failure
      {"TORCH_NCCL_SHOW_EAGER_INIT_P2P_SERIALIZATION_WARNING", "0"}};
  for (const auto& [name, value] : values) {
    if (!c10::utils::has_env(name)) c10::utils::set_env(name, value);
  }
  // NCCL would register the memory of calls in a captured graph, which it cannot where segments grow.
  for (const char* name : {"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"}) {
    const std::string allocator = c10::utils::get_env(name).value_or("");
    if (allocator.find("expandable_segments:True") == std::string::npos || c10::utils::has_env("NCCL_GRAPH_REGISTER")) continue;
    c10::utils::set_env("NCCL_GRAPH_REGISTER", "0");
  }
}

/// Ranks that are threads would deadlock: NCCL connects, and waits for its peers, under c10d's lock (comm/c10d/operations.h).
void check_process(const std::string& group, at::Device device) {
  static std::mutex mutex;
  static std::optional<at::Device> used;
  const std::lock_guard lock(mutex);
  if (used && *used != device) {
    throw InputError(
        fmt::format("group \"{}\": NCCL takes one device per process, but this one has used {} and now {}: start a "
                    "process per GPU, or use backend shm or gloo",
                    group, used->str(), device.str()));
  }
  used = device;
}

/// Connects at once: c10d then uses one communicator, and one stream, for collectives and messages with all neighbours, instead
/// of another for each pair at its first message.
c10::intrusive_ptr<c10d::Backend> connect_nccl(const DeviceEngineOptions& group) {
  auto options = c10d::ProcessGroupNCCL::Options::create();
  options->timeout = group.timeout + kAfterWeft;
  auto engine = c10::make_intrusive<c10d::ProcessGroupNCCL>(group.store, group.rank, group.size, options);
  engine->eagerConnectSingleDevice(group.device);
  return engine;
}

}  // namespace

std::map<at::DeviceType, DeviceEngine> built_in_engines() {
  const auto check = [](const std::string& group, at::Device device) {
    check_ports(group);
    check_process(group, device);
    keep_process();
  };
  return {{at::kCUDA, {connect_nccl, check}}};
}

}  // namespace weft
