#include "weft/nn/keyed_generators.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <fmt/core.h>

#include <mutex>
#include <optional>
#include <utility>

#include "weft/base/error.h"
#include "weft/comm/graph/device_graph.h"

namespace weft {

/// The CPU's generator: faster to copy than via the tensor of get_state().
struct CpuState {
  explicit CpuState(at::CPUGeneratorImpl& from)
      : engine(from.engine()), next_float(from.next_float_normal_sample()), next_double(from.next_double_normal_sample()) {}

  void restore(at::CPUGeneratorImpl& to) const {
    to.set_engine(engine);
    to.set_next_float_normal_sample(next_float);
    to.set_next_double_normal_sample(next_double);
  }

  at::mt19937 engine;
  std::optional<float> next_float;
  std::optional<double> next_double;
};

namespace {

at::CPUGeneratorImpl& cpu_generator() {
  return *at::check_generator<at::CPUGeneratorImpl>(at::detail::getDefaultCPUGenerator());
}

/// Returns whether a device has its own generator: the CPU's is handled separately, and the meta device draws nothing.
bool has_generator(at::Device device) { return !device.is_cpu() && !device.is_meta(); }

at::Generator generator_of(at::Device device, const std::string& what) {
  try {
    return at::globalContext().defaultGenerator(device);
  } catch (const c10::Error& error) {
    throw InputError(
        fmt::format("model: {} runs on {}, whose random numbers cannot be seeded ({}), so dropout would differ when it is "
                    "recomputed; run it on the CPU or a GPU",
                    what, device.str(), error.what_without_backtrace()));
  }
}

/// State shared by the calls in progress, as the CPU's generator belongs to the process. (With one rank per process there is at
/// most one call.)
struct Shared {
  std::mutex mutex;
  int calls = 0;                   ///< number of calls in progress
  bool overlapped = false;         ///< two of them overlapped
  bool drawn = false;              ///< one of the overlapping calls has drawn, as far as observed
  std::optional<CpuState> before;  ///< state before the first of them
};

Shared& shared() {
  static Shared one;
  return one;
}

/// Returns whether the generator has drawn since it was seeded.
bool has_drawn(at::CPUGeneratorImpl& cpu) {
  const at::mt19937_data_pod engine = cpu.engine().data();
  return engine.left_ != 1 || engine.next_ != 0;
}

/// Records whether an overlapping call has drawn. Requires the lock.
void look(Shared& s, at::CPUGeneratorImpl& cpu) {
  if (s.overlapped) s.drawn = s.drawn || has_drawn(cpu);
}

void seed_cpu(uint64_t seed) {
  Shared& s = shared();
  at::CPUGeneratorImpl& cpu = cpu_generator();
  const std::scoped_lock lock(s.mutex, cpu.mutex_);
  if (s.calls++ == 0) {
    s.before.emplace(cpu);
    s.overlapped = s.drawn = false;
  } else {
    s.overlapped = true;
    look(s, cpu);
  }
  cpu.set_current_seed(seed);
}

/// Restores the generator after the last call; returns whether this call may have drawn another's numbers.
bool restore_cpu() {
  Shared& s = shared();
  at::CPUGeneratorImpl& cpu = cpu_generator();
  const std::scoped_lock lock(s.mutex, cpu.mutex_);
  look(s, cpu);
  if (--s.calls == 0) s.before->restore(cpu);
  return s.overlapped && s.drawn;
}

thread_local std::string* watched_draw = nullptr;  ///< where DrawWatch notes a draw

/// Seeds another device's generator, and restores it.
class DeviceSeed {
 public:
  DeviceSeed(at::Generator generator, uint64_t seed, std::string what)
      : generator_(std::move(generator)), what_(std::move(what)) {
    const std::lock_guard lock(generator_.mutex());
    before_ = generator_.get_state();
    generator_.set_current_seed(seed);
    if (watched_draw != nullptr && watched_draw->empty()) seeded_ = generator_.get_state();
  }
  ~DeviceSeed() {
    const std::lock_guard lock(generator_.mutex());
    if (seeded_.defined() && !generator_.get_state().equal(seeded_)) *watched_draw = what_;
    generator_.set_state(before_);
  }

 private:
  at::Generator generator_;
  std::string what_;
  at::Tensor before_, seeded_;
};

}  // namespace

std::string random_name_of(const Block& block) {
  const auto* named = dynamic_cast<const HasRandomName*>(&block);
  return named ? named->random_name() : std::string();
}

DrawWatch::DrawWatch(std::string& first) : outer_(std::exchange(watched_draw, &first)) {}
DrawWatch::~DrawWatch() { watched_draw = outer_; }

void with_keyed_generators(RandomKey key, const std::string& what, at::Device device, c10::function_ref<void()> call) {
  const uint64_t seed = key.seed ^ key.stream;
  std::optional<DeviceSeed> on_device;
  if (has_generator(device) && !is_captured(device)) on_device.emplace(generator_of(device, what), seed, what);
  seed_cpu(seed);
  try {
    call();
  } catch (...) {
    restore_cpu();
    throw;
  }
  if (!restore_cpu()) return;
  throw InputError(
      fmt::format("model: {} or a concurrent rank drew from LibTorch's default generator, which ranks that are threads of one "
                  "process share, while both ran; run one rank per process, or draw by key (nn/random.h)",
                  what));
}

struct GeneratorState::Kept {
  CpuState cpu;
  std::optional<at::Generator> generator;
  at::Tensor on_device;
};

GeneratorState::GeneratorState(at::Device device) {
  at::CPUGeneratorImpl& cpu = cpu_generator();
  {
    const std::lock_guard lock(cpu.mutex_);
    kept_ = std::make_unique<Kept>(Kept{CpuState(cpu), std::nullopt, {}});
  }
  if (!has_generator(device) || is_captured(device)) return;
  kept_->generator = at::globalContext().defaultGenerator(device);
  const std::lock_guard lock(kept_->generator->mutex());
  kept_->on_device = kept_->generator->get_state();
}

GeneratorState::~GeneratorState() = default;

void GeneratorState::restore() const {
  at::CPUGeneratorImpl& cpu = cpu_generator();
  {
    const std::lock_guard lock(cpu.mutex_);
    kept_->cpu.restore(cpu);
  }
  if (!kept_->generator) return;
  const std::lock_guard lock(kept_->generator->mutex());
  kept_->generator->set_state(kept_->on_device);
}

}  // namespace weft
