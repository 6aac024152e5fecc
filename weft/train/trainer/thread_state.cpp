#include "weft/train/trainer/thread_state.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>
#include <c10/core/AutogradState.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <fmt/core.h>

#include <atomic>
#include <cfenv>
#include <optional>
#include <vector>

#include "weft/base/error.h"
#include "weft/comm/threads/parallel_for.h"

namespace weft {

/// State of a thread.
struct OwnThreadState::State {
  /// Reads the calling thread's state.
  explicit State(at::DeviceType type)
      : autograd(c10::AutogradState::get_tls_state()),
        keys(c10::impl::tls_local_dispatch_key_set()),
        threads(at::get_num_threads()) {
    std::fegetenv(&floats);
    if (type != at::kCPU) device = c10::impl::VirtualGuardImpl(type).getDevice();
  }

  void apply() const {
    c10::AutogradState::set_tls_state(autograd);
    c10::impl::_force_tls_local_dispatch_key_set(keys);
    std::fesetenv(&floats);
    if (device) c10::impl::VirtualGuardImpl(device->type()).setDevice(*device);
    if (at::get_num_threads() != threads) at::set_num_threads(threads);
  }

  c10::AutogradState autograd;
  c10::impl::LocalDispatchKeySet keys;
  int threads;
  std::fenv_t floats = {};
  std::optional<at::Device> device;
};

namespace {

/// Whether the calling thread rounds, traps and treats denormals as a new process does.
bool has_default_floats() {
  bool is_default = std::fegetround() == FE_TONEAREST && fegetexcept() == 0;
#if defined(__x86_64__)
  constexpr unsigned kModes = ~0x3fU, kDefault = 0x1f80;
  is_default = is_default && (__builtin_ia32_stmxcsr() & kModes) == kDefault;
#elif defined(__aarch64__)
  is_default = is_default && __builtin_aarch64_get_fpcr() == 0;
#endif
  return is_default;
}

}  // namespace

/// Floating-point states of the threads that LibTorch computes with, which a program compiled with OpenMP shares: they keep
/// those of its parallel regions.
class OwnThreadState::PoolFloats {
 public:
  /// Sets the default in each of the threads.
  explicit PoolFloats(int threads) : others_(static_cast<size_t>(threads)) {
    on_each([this](std::fenv_t& other) {
      const bool differs = !has_default_floats();
      std::fegetenv(&other);
      if (differs) std::fesetenv(FE_DFL_ENV);
      if (differs) differ_.store(true, std::memory_order_relaxed);
    });
  }

  void exchange() {
    if (!differ_) return;
    on_each([](std::fenv_t& other) {
      std::fenv_t here = {};
      std::fegetenv(&here);
      std::fesetenv(&other);
      other = here;
    });
  }

 private:
  template <class Call>
  void on_each(const Call& call) {
    parallel_for(std::ssize(others_), 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) call(others_[static_cast<size_t>(i)]);
    });
  }

  std::vector<std::fenv_t> others_;  ///< by thread
  std::atomic<bool> differ_ = false;
};

OwnThreadState::OwnThreadState(at::Device device, int threads) : other_(std::make_unique<State>(device.type())) {
  State own = *other_;
  own.autograd = c10::AutogradState(/*grad_mode=*/true, /*inference_mode=*/false, /*fw_grad_mode=*/true,
                                    /*multithreading_enabled=*/true);
  own.keys.included_ = c10::default_included_set;
  own.keys.excluded_ = c10::default_excluded_set;
  own.threads = threads;
  if (own.device && device.has_index()) own.device = device;
  own.apply();
  std::fesetenv(FE_DFL_ENV);
  if (available_threads() > 1) pool_ = std::make_unique<PoolFloats>(threads);
}

OwnThreadState::~OwnThreadState() {
  if (pool_) pool_->exchange();
  other_->apply();
}

/// Changes made meanwhile stay with the side that made them.
void OwnThreadState::exchange() {
  if (is_own_ && pool_) pool_->exchange();
  State here(other_->device ? other_->device->type() : at::kCPU);
  other_->apply();
  *other_ = here;
  is_own_ = !is_own_;
  if (is_own_ && pool_) pool_->exchange();
}

int num_threads() { return at::get_num_threads(); }

void refuse_autocast(at::Device device) {
  for (const at::DeviceType type : {at::kCPU, device.type()}) {
    if (!at::autocast::is_autocast_enabled(type)) continue;
    throw InputError(
        fmt::format("trainer: autocast is on for {} in the calling thread, which a trainer ignores; turn it off, and set "
                    "LayoutOptions::precision (layout.precision) for narrow types",
                    c10::DeviceTypeName(type, /*lower_case=*/true)));
  }
}

namespace {

struct Setting {
  const char* name;
  std::string (*read)(const at::Context&);
};

std::string text(bool value) { return value ? "on" : "off"; }

// Uses only the newer names of float32 precision: the older ones throw if both have been used.
const Setting kSettings[] = {
    {"deterministic algorithms", [](const at::Context& c) { return text(c.deterministicAlgorithms()); }},
    {"oneDNN (mkldnn)", [](const at::Context& c) { return text(c.userEnabledMkldnn()); }},
    {"deterministic oneDNN", [](const at::Context& c) { return text(c.deterministicMkldnn()); }},
    {"NNPACK", [](const at::Context& c) { return text(c.userEnabledNNPACK()); }},
    {"oneDNN's float32 matmul precision",
     [](const at::Context& c) {
       return at::precision2str(c.float32Precision(at::Float32Backend::MKLDNN, at::Float32Op::MATMUL));
     }},
    {"oneDNN's float32 convolution precision",
     [](const at::Context& c) {
       return at::precision2str(c.float32Precision(at::Float32Backend::MKLDNN, at::Float32Op::CONV));
     }},
    {"oneDNN's float32 RNN precision",
     [](const at::Context& c) {
       return at::precision2str(c.float32Precision(at::Float32Backend::MKLDNN, at::Float32Op::RNN));
     }},
    {"CUDA's float32 matmul precision",
     [](const at::Context& c) {
       return at::precision2str(c.float32Precision(at::Float32Backend::CUDA, at::Float32Op::MATMUL));
     }},
    {"CUDA's float32 convolution precision",
     [](const at::Context& c) { return at::precision2str(c.float32Precision(at::Float32Backend::CUDA, at::Float32Op::CONV)); }},
    {"float16 reduction on the CPU", [](const at::Context& c) { return text(c.allowFP16ReductionCPU()); }},
    {"flash attention", [](const at::Context& c) { return text(c.userEnabledFlashSDP()); }},
    {"memory-efficient attention", [](const at::Context& c) { return text(c.userEnabledMemEfficientSDP()); }},
    {"math attention", [](const at::Context& c) { return text(c.userEnabledMathSDP()); }},
    {"attention by cuDNN", [](const at::Context& c) { return text(c.userEnabledCuDNNSDP()); }},
    {"cuDNN", [](const at::Context& c) { return text(c.userEnabledCuDNN()); }},
    {"deterministic cuDNN", [](const at::Context& c) { return text(c.deterministicCuDNN()); }},
    {"cuDNN benchmark", [](const at::Context& c) { return text(c.benchmarkCuDNN()); }},
};

}  // namespace

KernelSettings kernel_settings() {
  KernelSettings settings;
  for (const Setting& setting : kSettings) settings.push_back(setting.read(at::globalContext()));
  return settings;
}

void check_kernel_settings(const KernelSettings& at_start) {
  const KernelSettings now = kernel_settings();
  for (size_t i = 0; i < now.size(); ++i) {
    if (now[i] == at_start[i]) continue;
    throw InputError(
        fmt::format("trainer: LibTorch's setting \"{}\" was '{}' when training started and is '{}' now, which may change "
                    "results; set it before the start, on all ranks alike",
                    kSettings[i].name, at_start[i], now[i]));
  }
}

std::string kernel_settings_text(const KernelSettings& settings) {
  std::string text = "LibTorch's settings:";
  for (size_t i = 0; i < settings.size(); ++i) {
    text += fmt::format("{} {} '{}'", i == 0 ? "" : ",", kSettings[i].name, settings[i]);
  }
  return text + '\n';
}

}  // namespace weft
