#include "weft/nn/keyed_generators.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <fmt/core.h>

#include <mutex>
#include <optional>

#include "weft/base/error.h"

namespace weft {

/// The CPU's generator: faster to copy than through the tensor of get_state().
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

/// Neither keeps values: the meta device draws nothing.
bool has_generator(at::Device device) { return !device.is_cpu() && !device.is_meta(); }

at::Generator generator_of(at::Device device, const std::string& what) {
  try {
    return at::globalContext().defaultGenerator(device);
  } catch (const c10::Error& error) {
    throw InputError(fmt::format(
        "model: {} runs on {}, whose random numbers cannot be seeded ({}), so that dropout would differ when it is computed "
        "again; run it on the CPU or a GPU",
        what, device.str(), error.what_without_backtrace()));
  }
}

/// The CPU's generator is the process's: what the calls that are under way in it have to know of one another. (With one rank a
/// process there is only ever one.)
struct Shared {
  std::mutex mutex;
  int calls = 0;                   ///< under way
  bool overlapped = false;         ///< any of them with another
  bool drawn = false;              ///< by any of those that overlap, as far as was seen
  std::optional<CpuState> before;  ///< the first of them
};

Shared& shared() {
  static Shared one;
  return one;
}

/// Whether the generator has drawn since it was seeded.
bool has_drawn(at::CPUGeneratorImpl& cpu) {
  const at::mt19937_data_pod engine = cpu.engine().data();
  return engine.left_ != 1 || engine.next_ != 0;
}

/// With the lock held.
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

/// Returns whether the numbers may have been another call's.
bool give_back_cpu() {
  Shared& s = shared();
  at::CPUGeneratorImpl& cpu = cpu_generator();
  const std::scoped_lock lock(s.mutex, cpu.mutex_);
  look(s, cpu);
  if (--s.calls == 0) s.before->restore(cpu);
  return s.overlapped && s.drawn;
}

/// Another device's generator.
class DeviceSeed {
 public:
  DeviceSeed(at::Generator generator, uint64_t seed) : generator_(std::move(generator)) {
    const std::lock_guard lock(generator_.mutex());
    before_ = generator_.get_state();
    generator_.set_current_seed(seed);
  }
  ~DeviceSeed() {
    const std::lock_guard lock(generator_.mutex());
    generator_.set_state(before_);
  }

 private:
  at::Generator generator_;
  at::Tensor before_;
};

}  // namespace

std::string random_name_of(const Block& block) {
  const auto* named = dynamic_cast<const DrawsAs*>(&block);
  return named ? named->random_name() : std::string();
}

void with_keyed_generators(RandomKey key, const std::string& what, at::Device device, c10::function_ref<void()> call) {
  const uint64_t seed = key.seed ^ key.stream;
  std::optional<DeviceSeed> on_device;
  if (has_generator(device)) on_device.emplace(generator_of(device, what), seed);
  seed_cpu(seed);
  try {
    call();
  } catch (...) {
    give_back_cpu();
    throw;
  }
  if (!give_back_cpu()) return;
  throw InputError(
      fmt::format("model: {} or what ran beside it drew from LibTorch's default generator, which ranks that are threads of one "
                  "process share, while two of them ran; run one rank a process, or draw by key (nn/random.h)",
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
  if (!has_generator(device)) return;
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
