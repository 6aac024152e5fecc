// The checked device, installed once per test process.
#pragma once

#include <ATen/DeviceAccelerator.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/ones.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <string>
#include <vector>

#include "weft/checked_device/checked_device.h"

namespace weft::checked_device {

constexpr at::DeviceType kType = at::kPrivateUse1;

inline at::Device device(int index = 0) {
  static const bool installed = [] {
    install({.address_bytes = size_t{1} << 36});
    return true;
  }();
  (void)installed;
  return {kType, static_cast<at::DeviceIndex>(index)};
}

inline at::TensorOptions on(int index = 0) { return at::TensorOptions().device(device(index)); }

inline c10::Stream new_stream_of(int index = 0) {
  const at::Device of = device(index);
  return c10::impl::VirtualGuardImpl(kType).getStreamFromGlobalPool(of);
}
inline c10::Stream stream_of(int index = 0) {
  const at::Device of = device(index);
  return c10::impl::VirtualGuardImpl(kType).getStream(of);
}

/// `later` waits for what `earlier` has been given.
inline void follow(const c10::Stream& later, const c10::Stream& earlier) {
  c10::Event event(kType);
  event.record(earlier);
  event.block(later);
}

/// Waits of the host that end all that was asked for before.
inline void settle() {
  for (int i = 0; i < at::accelerator::deviceCount(); ++i) at::accelerator::synchronizeDevice(static_cast<at::DeviceIndex>(i));
}

inline at::Tensor ones(int index = 0) { return at::ones({16}, on(index)); }
inline at::Tensor pinned_ones() {
  device();
  return at::ones({16}, at::TensorOptions().pinned_memory(true));
}

/// Memory written on a stream of its own, which nobody has waited for.
struct Written {
  c10::Stream stream = new_stream_of();
  at::Tensor tensor = ones();
  Written() {
    follow(stream, stream_of());
    const c10::StreamGuard guard(stream);
    tensor.add_(1);
  }
};

/// What `run` throws; "" if nothing.
template <class Run>
std::string error_of(Run run) {
  try {
    run();
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
  return "";
}

/// Whether two tensors have the same bits, on whatever devices.
bool same_bits(const at::Tensor& a, const at::Tensor& b);

/// All that went wrong since the last call, a line each.
inline std::string violations() {
  std::string all;
  for (const std::string& line : take_violations()) all += line + "\n";
  return all;
}

}  // namespace weft::checked_device
