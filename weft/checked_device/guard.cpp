// LibTorch's interfaces to the current device, streams and events.
#include "weft/checked_device/guard.h"

#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <chrono>
#include <memory>
#include <mutex>

#include "weft/checked_device/checked_device.h"
#include "weft/checked_device/device_options.h"
#include "weft/checked_device/generator.h"
#include "weft/checked_device/memory.h"
#include "weft/checked_device/movements.h"
#include "weft/checked_device/order.h"
#include "weft/checked_device/pinned.h"
#include "weft/checked_device/recorder.h"

namespace weft::checked_device {

namespace {

struct Event {
  Clock clock;
  int device = 0;
  std::chrono::steady_clock::time_point at = {};  ///< when it was recorded: by then the stream's work is done
  std::shared_ptr<Clock> in_graph = {};           ///< where its place in a recorded graph keeps the clock; null: in none
};

void refuse_in_graph(const Event& event, const char* what) {
  if (event.in_graph == nullptr) return;
  const std::lock_guard lock(order_mutex());
  violate("device " + std::to_string(event.device) + " is recorded as a graph: " + what, true);
}

void synchronise(const Clock& clock, int device, const char* what) {
  {
    const std::lock_guard lock(order_mutex());
    if (is_dropped(Ordering::synchronise, device)) return;
  }
  wait_on_host(clock, device, what);
}

struct Guard final : public c10::impl::DeviceGuardImplInterface {
  static int index(c10::Device device) { return device.index() < 0 ? current_device() : device.index(); }
  static c10::Device device(int index) { return {kDevice, static_cast<c10::DeviceIndex>(index)}; }

  c10::DeviceType type() const override { return kDevice; }
  c10::Device exchangeDevice(c10::Device to) const override {
    const c10::Device before = device(current_device());
    switch_device(index(to));
    return before;
  }
  c10::Device getDevice() const override { return device(current_device()); }
  void setDevice(c10::Device to) const override { switch_device(index(to)); }
  void uncheckedSetDevice(c10::Device to) const noexcept override { switch_device(index(to)); }
  c10::Stream getStream(c10::Device of) const override { return current_stream(index(of)); }
  c10::Stream getDefaultStream(c10::Device of) const override { return c10::Stream(c10::Stream::UNSAFE, device(index(of)), 0); }
  c10::Stream getStreamFromGlobalPool(c10::Device of, bool) const override { return new_stream(index(of)); }
  c10::Stream getNewStream(c10::Device of, int) const override { return new_stream(index(of)); }
  c10::Stream exchangeStream(c10::Stream stream) const override { return exchange_stream(stream); }

  void destroyEvent(void* event, c10::DeviceIndex) const noexcept override { delete static_cast<Event*>(event); }
  void record(void** event, const c10::Stream& stream, c10::DeviceIndex, c10::EventFlag) const override {
    const std::lock_guard lock(order_mutex());
    if (*event == nullptr) *event = new Event{{}, stream.device_index()};
    auto& e = *static_cast<Event*>(*event);
    if (e.device != stream.device_index()) {
      violate("an event of device " + std::to_string(e.device) + " is recorded on " + actor_name(actor_of(stream)), true);
    }
    const int actor = actor_of(stream);
    join(actor, clock_of(kHost));
    e.clock = clock_of(actor);
    e.at = std::chrono::steady_clock::now();
    e.in_graph = record_event(stream);
  }
  double elapsedTime(void* begin, void* end, c10::DeviceIndex) const override {
    const auto passed = static_cast<Event*>(end)->at - static_cast<Event*>(begin)->at;
    return std::chrono::duration<double, std::milli>(passed).count();
  }
  void block(void* event, const c10::Stream& stream) const override {
    if (event == nullptr) return;
    const std::lock_guard lock(order_mutex());
    ++counts_here().stream_waits;
    if (is_dropped(Ordering::wait, stream.device_index())) return;
    const auto& e = *static_cast<Event*>(event);
    if (e.in_graph != nullptr && recorder_on(e.device) == nullptr) refuse_in_graph(e, "a stream waits for an event of it");
    join(actor_of(stream), e.clock);
    record_wait(stream, e.in_graph);
  }
  bool queryEvent(void* event) const override {
    if (event == nullptr) return true;
    refuse_in_graph(*static_cast<Event*>(event), "the host asks about an event of it");
    return is_moved(static_cast<Event*>(event)->clock);
  }
  void synchronizeEvent(void* event) const override {
    if (event == nullptr) return;
    const auto& e = *static_cast<Event*>(event);
    refuse_in_graph(e, "the host waits for an event of it");
    synchronise(e.clock, e.device, "a wait for an event");
  }
  c10::DeviceIndex deviceCount() const noexcept override { return static_cast<c10::DeviceIndex>(num_devices()); }
  bool queryStream(const c10::Stream& stream) const override { return is_moved(clock_now(actor_of(stream))); }
  void synchronizeStream(const c10::Stream& stream) const override {
    synchronise(clock_now(actor_of(stream)), stream.device_index(), "a wait for a stream");
  }
  void synchronizeDevice(c10::DeviceIndex of) const override { synchronise(clock_of_device(of), of, "a wait for a device"); }
  void recordDataPtrOnStream(const c10::DataPtr& data, const c10::Stream& stream) const override {
    record_on_stream(data, stream);
  }
};

struct Hooks final : public at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  void init() const override {}
  c10::DeviceIndex deviceCount() const override { return static_cast<c10::DeviceIndex>(num_devices()); }
  void setCurrentDevice(c10::DeviceIndex device) const override { switch_device(device); }
  c10::DeviceIndex getCurrentDevice() const override { return static_cast<c10::DeviceIndex>(current_device()); }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex device) const override {
    const auto before = getCurrentDevice();
    switch_device(device);
    return before;
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex device) const override { return exchangeDevice(device); }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex device) const override { return default_generator(device); }
  at::Generator getNewGenerator(c10::DeviceIndex device) const override { return new_generator(device); }
  at::Device getDeviceFromPtr(void* address) const override {
    return {kDevice, static_cast<c10::DeviceIndex>(device_of_address(address))};
  }
  bool isPinnedPtr(const void* address) const override { return is_pinned(address); }
  c10::Allocator* getPinnedMemoryAllocator() const override { return pinned_allocator(); }
  void resizePrivateUse1Bytes(const c10::Storage&, size_t) const override {
    TORCH_CHECK(false, "checked device: a storage is resized outside an operator");
  }
};

}  // namespace

void register_guard() {
  static const c10::impl::DeviceGuardImplRegistrar registrar(kDevice, new Guard);
  at::RegisterPrivateUse1HooksInterface(new Hooks);
}

}  // namespace weft::checked_device
