#include <c10/core/Allocator.h>

#include "weft/checked_device/attention.h"
#include "weft/checked_device/checked_device.h"
#include "weft/checked_device/device_options.h"
#include "weft/checked_device/guard.h"
#include "weft/checked_device/memory.h"
#include "weft/checked_device/operators.h"
#include "weft/checked_device/order.h"
#include "weft/checked_device/pinned.h"

namespace weft::checked_device {

namespace {

Options& installed_options() {
  static Options options;
  return options;
}

}  // namespace

const Options& options() { return installed_options(); }
void set_memory_limit(size_t bytes) { installed_options().memory_limit = bytes; }
int num_devices() { return options().devices; }

void install(const Options& options) {
  static bool installed = false;
  TORCH_CHECK(!std::exchange(installed, true), "checked device: install() is called twice");
  TORCH_CHECK(options.devices >= 1 && options.devices <= 64, "checked device: ", options.devices,
              " devices; 1 to 64 are possible");
  installed_options() = options;
  reserve_addresses(options.devices, options.address_bytes);
  c10::register_privateuse1_backend("checked");
  register_guard();
  set_after_host_waits(&open_pinned);
  c10::SetAllocator(kDevice, device_allocator());
  register_attention();
  register_operators();
  install_fault_handler();
}

}  // namespace weft::checked_device
