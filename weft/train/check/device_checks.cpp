#include "weft/train/check/device_checks.h"

#include <ATen/Context.h>
#include <ATen/DeviceAccelerator.h>
#include <ATen/Version.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <dlfcn.h>
#include <fmt/format.h>
#include <torch/version.h>

#include <algorithm>
#include <functional>
#include <optional>

#include "weft/base/units.h"
#include "weft/train/check/cuda_facts.h"

namespace weft {

namespace {

constexpr int64_t kElements = int64_t{1} << 20;

/// "2.11.0" of LibTorch's "..., TORCH_VERSION=2.11.0, ...".
std::string loaded_version() {
  const std::string config = at::show_config(), key = "TORCH_VERSION=";
  const size_t begin = config.find(key);
  if (begin == std::string::npos) return "unknown";
  return config.substr(begin + key.size(), config.find_first_of(",\n ", begin) - begin - key.size());
}

std::string loaded_path() {
  Dl_info info{};
  return ::dladdr(reinterpret_cast<void*>(&at::show_config), &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : "";
}

/// Runs a check; a library's error becomes a failed line.
CheckLine or_failed(const std::string& name, const std::string& advice, const std::function<CheckLine()>& check) {
  try {
    return check();
  } catch (const std::exception& error) {
    const std::string text = error.what();
    return check_failed(name, text.substr(0, text.find('\n')), advice);
  }
}

CheckLine check_pinned(at::Device device) {
  constexpr char kName[] = "pinned memory";
  return or_failed(kName, "raise ulimit -l and the container's memory limit", [&] {
    const at::TensorOptions pinned = at::TensorOptions(at::kInt).pinned_memory(true);
    at::Tensor source = at::empty({kElements}, pinned), back = at::empty({kElements}, pinned);
    if (!source.is_pinned()) return check_failed(kName, "the library returns memory that is not pinned", "update the driver");
    source.copy_(at::arange(kElements, at::kInt));
    const at::Tensor there = source.to(device, /*non_blocking=*/true);
    back.copy_(there, /*non_blocking=*/true);
    at::accelerator::synchronizeDevice(device.index());
    if (!at::equal(source, back)) return check_failed(kName, "a copy to the device and back changed values", "test its memory");
    return check_ok(kName, fmt::format("{} copied to the device and back", format_bytes(kElements * 4)));
  });
}

/// Copies from each device that ranks of this host use to the next.
CheckLine check_copies(at::Device device, int used) {
  constexpr char kName[] = "device copies";
  if (used < 2) return not_checked(kName, "ranks of this host use one device");
  return or_failed(kName, "see the driver's log (dmesg)", [&] {
    const at::Tensor expected = at::arange(kElements, at::kInt);
    for (int from = 0; from < used; ++from) {
      const auto to = static_cast<at::DeviceIndex>((from + 1) % used);
      const at::Tensor there = expected.to(at::Device(device.type(), static_cast<at::DeviceIndex>(from)));
      if (!at::equal(there.to(at::Device(device.type(), to)).cpu(), expected)) {
        return check_failed(kName, fmt::format("a copy from device {} to {} changed values", from, to),
                            "switch off ACS in the BIOS or the IOMMU, which break copies between devices");
      }
    }
    return check_ok(kName, fmt::format("{} from each of {} devices to the next", format_bytes(kElements * 4), used));
  });
}

CheckLine check_free_memory(at::Device device) {
  try {
    const auto [free, total] = at::accelerator::getMemoryInfo(device.index());
    return device_memory_line(device.str(), static_cast<int64_t>(free), static_cast<int64_t>(total));
  } catch (const c10::Error& error) {  // devices need not tell; a broken one fails in the copies below
    return not_checked("devices", fmt::format("{}: {}", device.str(), error.what_without_backtrace()));
  }
}

CheckLine without_device(const std::optional<CudaFacts>& cuda) {
  std::string reason = "ranks compute on the CPU";
  if (cuda) {
    reason += fmt::format("; this host has {} ({}), which {}", counted(std::ssize(cuda->gpus), "GPU"), cuda->gpus.front().name,
                          cuda->runtime_cuda > 0 ? "--device cuda checks" : "a build of weft with CUDA can use");
  }
  return not_checked("devices", reason + " (memory, pinned memory, copies, driver, peer access, clocks)");
}

}  // namespace

CheckLine device_memory_line(const std::string& device, int64_t free_bytes, int64_t total_bytes) {
  const std::string text = fmt::format("{}: {} free of {}", device, format_bytes(free_bytes), format_bytes(total_bytes));
  if (5 * free_bytes >= 4 * total_bytes) return check_ok("devices", text);
  return check_failed("devices", text, "another process uses it (nvidia-smi, rocm-smi): end it, or choose other devices");
}

CheckLine check_versions(const std::string& weft) {
  const std::string loaded = loaded_version();
  std::string text = fmt::format("{}, LibTorch {}", weft, loaded);
  if (const auto cuda = cuda_facts()) text += ", " + cuda_versions(*cuda);
  if (loaded.substr(0, loaded.find('+')) == TORCH_VERSION || loaded == TORCH_VERSION) return check_ok("versions", text);
  return check_failed("versions", fmt::format("{} from {}, but weft was built with {}", text, loaded_path(), TORCH_VERSION),
                      "put the folder of that LibTorch first in LD_LIBRARY_PATH, or build weft again");
}

std::vector<CheckLine> check_device(at::Device device, const World& world) {
  const auto cuda = world.local_rank() == 0 ? cuda_facts() : std::nullopt;
  if (device.is_cpu()) return world.local_rank() == 0 ? std::vector{without_device(cuda)} : std::vector<CheckLine>{};
  std::vector<CheckLine> lines = {check_free_memory(device), check_pinned(device)};
  if (world.local_rank() != 0) return lines;
  const int used = std::min<int>(world.local_size(), at::accelerator::deviceCount());
  lines.push_back(check_copies(device, used));
  for (const CheckLine& line : cuda ? cuda_lines(*cuda, static_cast<size_t>(used))
                                    : std::vector<CheckLine>{not_checked("driver", "it is not NVIDIA's"),
                                                             not_checked("peer access", "no driver tells it"),
                                                             not_checked("device clocks", "no driver tells them")}) {
    lines.push_back(line);
  }
  return lines;
}

}  // namespace weft
