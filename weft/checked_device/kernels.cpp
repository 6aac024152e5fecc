#include "weft/checked_device/kernels.h"

#include <ATen/EmptyTensor.h>
#include <ATen/core/ivalue.h>
#include <c10/util/ScopeExit.h>

#include <mutex>

#include "weft/checked_device/checked_device.h"
#include "weft/checked_device/memory.h"
#include "weft/checked_device/movements.h"
#include "weft/checked_device/order.h"
#include "weft/checked_device/pinned.h"
#include "weft/checked_device/recorder.h"

namespace weft::checked_device {

namespace {

constexpr c10::DispatchKeySet kKeys(c10::DispatchKey::PrivateUse1);

void refuse_pinned(const std::optional<bool>& pinned) {
  TORCH_CHECK(!pinned.value_or(false), "checked device: only memory of the CPU can be pinned");
}

/// The operator that allocates: the one that runs, or else this.
const char* name_or(const char* own) { return *running_operator() == 0 ? own : running_operator(); }

/// Makes the device current that memory is asked for on.
class Allocating {
 public:
  explicit Allocating(const std::optional<c10::Device>& device) : outer_(current_device()) {
    if (device && device->has_index()) set_current_device(device->index());
  }
  ~Allocating() { set_current_device(outer_); }
  Allocating(const Allocating&) = delete;
  Allocating& operator=(const Allocating&) = delete;

 private:
  int outer_;
};

/// A copy between host and device.
struct Transfer {
  const void* host = nullptr;
  bool to_host = false;
  bool waits = false;
  bool ends = false;  ///< before the host goes on; else it has only read its memory
};

/// Between two devices, both current streams wait, as for CUDA's copies.
void check_between_devices(const at::Tensor& from, const at::Tensor& to, int actor) {
  const int source = actor_of(current_stream(from.device().index()));
  join(actor, clock_of(source));
  const Access now = begin_launch(actor, "copy between devices");
  check_access(allocation_of(from), ranges_of(from), false, now);
  check_access(allocation_of(to), ranges_of(to), true, now);
  join(source, clock_of(actor));
}

}  // namespace

at::Tensor empty(c10::IntArrayRef size, std::optional<c10::ScalarType> dtype, std::optional<c10::Layout>,
                 std::optional<c10::Device> device, std::optional<bool> pinned, std::optional<c10::MemoryFormat> format) {
  refuse_pinned(pinned);
  const Allocating there(device);
  const RunningOperator running(name_or("aten::empty"));
  return at::detail::empty_generic(size, device_allocator(), kKeys, c10::dtype_or_default(dtype), format);
}

at::Tensor empty_strided(c10::IntArrayRef size, c10::IntArrayRef stride, std::optional<c10::ScalarType> dtype,
                         std::optional<c10::Layout>, std::optional<c10::Device> device, std::optional<bool> pinned) {
  refuse_pinned(pinned);
  const Allocating there(device);
  const RunningOperator running(name_or("aten::empty_strided"));
  return at::detail::empty_strided_generic(size, stride, device_allocator(), kKeys, c10::dtype_or_default(dtype));
}

namespace {

void record_copy(const at::Tensor& from, const at::Tensor& to, int device) {
  Recorder* recorder = records() ? recorder_on(device) : nullptr;
  if (recorder == nullptr) return;
  const std::lock_guard lock(order_mutex());
  std::string text = "copy of " + recorder->text_of(from) + " to " + recorder->text_of(to);
  const bool stays = is_on_device(from) && is_on_device(to) && from.device() == to.device();
  if (recorder->is_graph() && !stays) recorder->refuse(text + " is not within the device");
  recorder->add(std::move(text), [from = alias_of(c10::IValue(from)).toTensor(), to = alias_of(c10::IValue(to)).toTensor()] {
    copy_from(from, to, /*non_blocking=*/true);
  });
}

}  // namespace

at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool non_blocking) {
  const bool from_device = is_on_device(from), to_device = is_on_device(to);
  const int device = (to_device ? to : from).device().index();
  record_copy(from, to, device);
  if (from_device) await_movements(allocation_of(from), /*writes=*/false);
  if (to_device) await_movements(allocation_of(to), /*writes=*/true);
  const int actor = actor_of(current_stream(device));
  Transfer transfer;
  Access now;
  Clock before;
  {
    const std::lock_guard lock(order_mutex());
    before = clock_of(actor);
    if (from_device != to_device || from.device() != to.device()) {
      ++counts_here().copies;
      counts_here().copied_bytes += to.nbytes();
      if (current_stream(device).id() != 0) ++counts_here().copies_beside;
    }
    if (from_device && to_device && from.device() != to.device()) {
      check_between_devices(from, to, actor);
    } else {
      now = begin_launch(actor, from_device && to_device ? "aten::copy_"
                                : to_device              ? "copy to the device"
                                                         : "copy to the host");
      if (from_device) check_access(allocation_of(from), ranges_of(from), false, now);
      if (to_device) check_access(allocation_of(to), ranges_of(to), true, now);
    }
    if (from_device != to_device) {
      transfer.host = (from_device ? to : from).storage().data();
      transfer.to_host = from_device;
      transfer.waits = !is_pinned(transfer.host) || (!non_blocking && !is_dropped(Ordering::synchronise, device));
      transfer.ends = !non_blocking || from_device;
      begin_pinned_copy(transfer.host, transfer.to_host, now);
    }
  }
  {
    const auto end = c10::make_scope_exit([&] {
      const std::lock_guard lock(order_mutex());
      if (transfer.host != nullptr) end_pinned_copy(transfer.host);
    });
    (to_device ? on_cpu(to) : to).copy_(from_device ? on_cpu(from) : from);
  }
  if (transfer.host == nullptr) return to;
  if (transfer.waits) {
    wait_on_host(transfer.ends ? clock_now(actor) : before, device,
                 transfer.to_host ? "a copy to the host" : "a copy to the device");
  } else {
    const std::lock_guard lock(order_mutex());
    close_pinned(transfer.host, transfer.to_host, now);
  }
  return to;
}

at::Tensor copy_from_and_resize(const at::Tensor& from, const at::Tensor& to) {
  to.resize_(from.sizes());
  return copy_from(from, to, false);
}

void record_stream(at::Tensor& tensor, c10::Stream stream) { record_on_stream(tensor.storage().data_ptr(), stream); }

}  // namespace weft::checked_device
