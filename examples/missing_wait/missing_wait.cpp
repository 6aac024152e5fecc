// A stream that forgets to wait for another, found without a GPU: ./missing_wait
#include <ATen/ops/ones.h>
#include <ATen/ops/sum.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <iostream>

#include "weft/checked_device.h"

namespace {

/// The code under test: doubles `values` on a second stream and sums them on the caller's.
float doubled_sum(at::Tensor values, bool waits) {
  const c10::impl::VirtualGuardImpl device(values.device().type());
  const c10::Stream caller = device.getStream(values.device());
  const c10::Stream second = device.getStreamFromGlobalPool(values.device());
  c10::Event filled(values.device().type()), doubled(values.device().type());
  filled.record(caller);
  filled.block(second);  // `second` runs after what the caller's stream was given
  {
    const c10::StreamGuard guard(second);
    values.mul_(2);
    doubled.record(second);
  }
  if (waits) doubled.block(caller);
  return values.sum().item<float>();
}

}  // namespace

int main() {
  weft::checked_device::install();
  weft::checked_device::set_throws(false);  // collects; by default a violation is thrown where it arises
  for (const bool waits : {true, false}) {
    const at::Tensor values = at::ones({1024}, at::Device("checked:0"));
    std::cout << (waits ? "with" : "without") << " the wait: " << doubled_sum(values, waits) << "\n";
    for (const std::string& violation : weft::checked_device::take_violations()) std::cout << "  " << violation << "\n";
  }
}
