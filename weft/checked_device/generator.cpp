#include "weft/checked_device/generator.h"

#include <ATen/CPUGeneratorImpl.h>

#include <vector>

#include "weft/checked_device/device_options.h"
#include "weft/checked_device/order.h"

namespace weft::checked_device {

namespace {

struct CheckedGenerator final : public c10::GeneratorImpl {
  CheckedGenerator(int device, at::Generator from)
      : GeneratorImpl(c10::Device(kDevice, static_cast<c10::DeviceIndex>(device)),
                      c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)),
        cpu(std::move(from)) {}
  void set_current_seed(uint64_t seed) override { cpu.set_current_seed(seed); }
  void set_offset(uint64_t offset) override { cpu.set_offset(offset); }
  uint64_t get_offset() const override { return cpu.get_offset(); }
  uint64_t current_seed() const override { return cpu.current_seed(); }
  uint64_t seed() override { return cpu.seed(); }
  void set_state(const c10::TensorImpl& state) override { cpu.unsafeGetGeneratorImpl()->set_state(state); }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override { return cpu.unsafeGetGeneratorImpl()->get_state(); }
  static c10::DeviceType device_type() { return kDevice; }
  CheckedGenerator* clone_impl() const override { return new CheckedGenerator(device_.index(), cpu.clone()); }

  at::Generator cpu;
};

std::recursive_mutex& default_generator_mutex() {
  static std::recursive_mutex& mutex = *new std::recursive_mutex;
  return mutex;
}

}  // namespace

at::Generator new_generator(int device) {
  return at::make_generator<CheckedGenerator>(device < 0 ? current_device() : device, at::detail::createCPUGenerator());
}

const at::Generator& default_generator(int device) {
  static const std::vector<at::Generator>& all = *[] {
    auto* made = new std::vector<at::Generator>;
    for (int i = 0; i < options().devices; ++i) made->push_back(new_generator(i));
    return made;
  }();
  return all.at(static_cast<size_t>(device < 0 ? current_device() : device));
}

at::Generator cpu_generator(const at::Generator& generator) {
  return static_cast<CheckedGenerator*>(generator.unsafeGetGeneratorImpl())->cpu;
}

DefaultGeneratorScope::DefaultGeneratorScope(int device)
    : lock_(default_generator_mutex()),
      cpu_(at::detail::getDefaultCPUGenerator()),
      own_(cpu_generator(default_generator(device))),
      kept_(cpu_.unsafeGetGeneratorImpl()->get_state()) {
  cpu_.unsafeGetGeneratorImpl()->set_state(*own_.unsafeGetGeneratorImpl()->get_state());
}

DefaultGeneratorScope::~DefaultGeneratorScope() {
  own_.unsafeGetGeneratorImpl()->set_state(*cpu_.unsafeGetGeneratorImpl()->get_state());
  cpu_.unsafeGetGeneratorImpl()->set_state(*kept_);
}

}  // namespace weft::checked_device
