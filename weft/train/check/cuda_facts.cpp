#include "weft/train/check/cuda_facts.h"

#include <ATen/detail/CUDAHooksInterface.h>
#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

namespace weft {

namespace {

/// A library opened at run time; its functions are called by name, with the types of NVIDIA's headers.
class Library {
 public:
  explicit Library(const char* name) : handle_(::dlopen(name, RTLD_NOW | RTLD_LOCAL)) {}
  explicit operator bool() const { return handle_ != nullptr; }
  /// Calls the function; returns whether it exists and succeeded.
  template <class... Arguments>
  bool call(const char* function, Arguments... arguments) const {
    auto* address = handle_ == nullptr ? nullptr : ::dlsym(handle_, function);
    return address != nullptr && reinterpret_cast<int (*)(Arguments...)>(address)(arguments...) == 0;
  }

 private:
  void* handle_;  // stays open: the libraries do not support being closed
};

constexpr unsigned kSmClock = 1;           // NVML_CLOCK_SM
constexpr unsigned kUncorrected = 1;       // NVML_MEMORY_ERROR_TYPE_UNCORRECTED
constexpr unsigned kSinceDriverStart = 0;  // NVML_VOLATILE_ECC

void ask_nvml(const Library& nvml, const char* bus, CudaGpu& gpu) {
  void* device = nullptr;
  if (!nvml.call("nvmlDeviceGetHandleByPciBusId_v2", bus, &device)) return;
  unsigned now = 0, most = 0;
  if (nvml.call("nvmlDeviceGetClockInfo", device, kSmClock, &now)) gpu.clock_mhz = static_cast<int>(now);
  if (nvml.call("nvmlDeviceGetMaxClockInfo", device, kSmClock, &most)) gpu.most_mhz = static_cast<int>(most);
  unsigned long long reasons = 0, errors = 0;
  if (nvml.call("nvmlDeviceGetCurrentClocksThrottleReasons", device, &reasons)) gpu.slowed_by = reasons;
  if (nvml.call("nvmlDeviceGetTotalEccErrors", device, kUncorrected, kSinceDriverStart, &errors)) {
    gpu.memory_errors = static_cast<int64_t>(errors);
  }
}

CudaGpu gpu_of(const Library& driver, const Library& nvml, int index, int count) {
  std::array<char, 256> text{};
  CudaGpu gpu;
  int device = 0;
  if (!driver.call("cuDeviceGet", &device, index)) return gpu;
  if (driver.call("cuDeviceGetName", text.data(), static_cast<int>(text.size()), device)) gpu.name = text.data();
  for (int other = 0; other < count; ++other) {
    int peer = 0, reaches = 0;
    const bool asked = driver.call("cuDeviceGet", &peer, other) && driver.call("cuDeviceCanAccessPeer", &reaches, device, peer);
    gpu.reaches.push_back(other == index || (asked && reaches != 0));
  }
  if (driver.call("cuDeviceGetPCIBusId", text.data(), static_cast<int>(text.size()), device)) ask_nvml(nvml, text.data(), gpu);
  return gpu;
}

/// "2.27.3" of 22703.
std::string loaded_nccl() {
  auto* address = ::dlsym(RTLD_DEFAULT, "ncclGetVersion");
  int version = 0;
  if (address == nullptr || reinterpret_cast<int (*)(int*)>(address)(&version) != 0) return "";
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

std::string cuda_version(int version) { return fmt::format("{}.{}", version / 1000, version / 10 % 100); }

CheckLine driver_line(const CudaFacts& facts) {
  const std::string driver = fmt::format("driver {} runs CUDA up to {}", facts.driver, cuda_version(facts.driver_cuda));
  if (facts.runtime_cuda == 0) return check_ok("driver", driver);
  const std::string text = fmt::format("{}; LibTorch has CUDA {}", driver, cuda_version(facts.runtime_cuda));
  if (facts.driver_cuda / 1000 >= facts.runtime_cuda / 1000) return check_ok("driver", text);  // runs all minor versions
  return check_failed("driver", text, "install a newer driver, or a LibTorch for that CUDA");
}

CheckLine peers_line(const std::vector<CudaGpu>& gpus, size_t used) {
  if (used < 2) return not_checked("peer access", "ranks of this host use one GPU");
  std::vector<std::string> apart;
  size_t pairs = 0;
  for (size_t i = 0; i < used; ++i) {
    for (size_t j = i + 1; j < used; ++j, ++pairs) {
      if (!gpus[i].reaches.at(j) || !gpus[j].reaches.at(i)) apart.push_back(fmt::format("{} and {}", i, j));
    }
  }
  if (apart.size() == pairs) {  // such as GeForce and L4 by design, and GPUs of virtual machines
    return check_ok(
        "peer access",
        "no GPU reaches another's memory: they exchange through the host's, which is slow; normal for GeForce, L4 and "
        "virtual machines, else see nvidia-smi topo -p2p r");
  }
  if (apart.empty()) return check_ok("peer access", fmt::format("all {} GPUs reach each other's memory", used));
  return check_failed("peer access", fmt::format("GPUs {} do not reach each other's memory", fmt::join(apart, ", ")),
                      "see nvidia-smi topo -p2p r; switch off ACS in the BIOS, or the IOMMU");
}

/// Reasons, of NVML's list, that a person can do something about.
std::string slowed_text(uint64_t reasons) {
  struct Reason {
    uint64_t bit;
    const char* text;
  };
  std::vector<std::string> texts;
  for (const Reason& reason :
       {Reason{0x08, "hardware slowdown"}, Reason{0x20, "heat (software)"}, Reason{0x40, "heat (hardware)"},
        Reason{0x80, "power brake"}, Reason{0x02, "clocks set by an application"}}) {
    if ((reasons & reason.bit) != 0) texts.emplace_back(reason.text);
  }
  return fmt::format("{}", fmt::join(texts, " and "));
}

CheckLine gpu_clocks_line(const std::vector<CudaGpu>& gpus, size_t used) {
  std::vector<std::string> causes;
  int least = 0, most = 0;
  for (size_t i = 0; i < used; ++i) {
    const CudaGpu& gpu = gpus[i];
    least = i == 0 ? gpu.clock_mhz : std::min(least, gpu.clock_mhz);
    most = std::max(most, gpu.most_mhz);
    if (const std::string slowed = slowed_text(gpu.slowed_by); !slowed.empty()) {
      causes.push_back(fmt::format("GPU {} runs at {} of {} MHz because of {}", i, gpu.clock_mhz, gpu.most_mhz, slowed));
    }
    if (gpu.memory_errors > 0) causes.push_back(fmt::format("GPU {} has {} uncorrected memory errors", i, gpu.memory_errors));
  }
  if (used == 0) return not_checked("device clocks", "ranks of this host use no GPU");
  if (!causes.empty()) {
    return check_failed("device clocks", fmt::format("{}", fmt::join(causes, "; ")),
                        "see nvidia-smi -q -d PERFORMANCE,ECC; mend cooling or power, reset clocks (nvidia-smi -rgc -rac), "
                        "replace a GPU with memory errors");
  }
  if (most == 0) return not_checked("device clocks", "NVML (libnvidia-ml.so.1) does not tell them");
  return check_ok("device clocks", fmt::format("{} of {} MHz or more, not slowed down, no memory errors", least, most));
}

}  // namespace

std::optional<CudaFacts> cuda_facts() {
  const Library driver("libcuda.so.1");
  int count = 0;
  CudaFacts facts;
  if (!driver.call("cuInit", 0U) || !driver.call("cuDeviceGetCount", &count) || count == 0) return std::nullopt;
  driver.call("cuDriverGetVersion", &facts.driver_cuda);
  const Library nvml("libnvidia-ml.so.1");
  std::array<char, 96> text{};
  if (nvml.call("nvmlInit_v2") && nvml.call("nvmlSystemGetDriverVersion", text.data(), static_cast<unsigned>(text.size()))) {
    facts.driver = text.data();
  }
  const at::CUDAHooksInterface& hooks = at::detail::getCUDAHooks();
  if (hooks.hasCUDA()) facts.runtime_cuda = static_cast<int>(hooks.versionCUDART());
  facts.nccl = loaded_nccl();
  for (int i = 0; i < count; ++i) facts.gpus.push_back(gpu_of(driver, nvml, i, count));
  return facts;
}

std::vector<CheckLine> cuda_lines(const CudaFacts& facts, size_t used) {
  used = std::min(used, facts.gpus.size());
  return {driver_line(facts), peers_line(facts.gpus, used), gpu_clocks_line(facts.gpus, used)};
}

std::string cuda_versions(const CudaFacts& facts) {
  std::string text = facts.runtime_cuda == 0 ? "" : "CUDA " + cuda_version(facts.runtime_cuda) + ", ";
  text += "driver " + facts.driver;
  return text + (facts.nccl.empty() ? "" : ", NCCL " + facts.nccl);
}

}  // namespace weft
