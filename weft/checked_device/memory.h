// Memory of the device. An address is a place in a reservation that nobody may touch, and that is never used twice; the bytes
// are an ordinary storage of the CPU, which operators use in its place.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Storage.h>

#include <future>
#include <string>
#include <vector>

#include "weft/checked_device/accesses.h"

namespace weft::checked_device {

struct Allocation {
  char* address = nullptr;
  size_t bytes = 0;
  c10::Storage backing;  ///< on the CPU
  int device = 0;
  int home = 0;  ///< the stream on which it was made
  const char* made_by = "";
  uint64_t number = 0;
  Accesses accesses;
  std::vector<int> recorded;  ///< streams of record_stream
  struct Movement {
    std::shared_future<void> done;
    bool writes = false;
  };
  std::vector<Movement> movements;  ///< by other threads, perhaps under way
};

/// Reserves the addresses of each device.
void reserve_addresses(int devices, size_t bytes_per_device);

c10::Allocator* device_allocator();

/// Gives the CPU's memory an address on the device.
c10::DataPtr make_allocation(c10::Storage backing, int device);

/// Number of the newest allocation. Under order_mutex().
uint64_t last_allocation();

/// The allocation that a storage has, or borrows, as from_blob's do. Throws for memory that device_allocator() did not make, or
/// that is freed.
Allocation& allocation_of(const c10::StorageImpl& storage);
Allocation& allocation_of(const at::Tensor& tensor);
/// Elements from the allocation's first byte to the tensor's storage: 0 unless that is borrowed.
int64_t elements_before(const at::Tensor& tensor);
/// The device that has this address in use. Throws if none has.
int device_of_address(const void* address);
bool is_on_device(const at::Tensor& tensor);

/// A storage of the CPU with the same bytes: of a borrowed one, the part that is borrowed.
c10::Storage backing_of(const c10::Storage& storage);
/// A tensor of the CPU with the same bytes, sizes and strides.
at::Tensor on_cpu(const at::Tensor& tensor, const c10::Storage& backing);
at::Tensor on_cpu(const at::Tensor& tensor);

/// Bytes of its storage that a tensor uses; several ranges where its strides leave gaps.
std::vector<ByteRange> ranges_of(const at::Tensor& tensor);

/// Checks a use of these bytes against all before, and keeps it.
void check_access(Allocation& allocation, const std::vector<ByteRange>& ranges, bool write, const Access& now);

/// record_stream(): the memory may be used on that stream until it has done what it has been given by the time of the free.
void record_on_stream(const c10::DataPtr& data, const c10::Stream& stream);

/// Another thread moves bytes of this memory until then. Under order_mutex().
void add_movement(Allocation& allocation, std::shared_future<void> done, bool writes);

/// Waits until other threads have moved what a use of this memory may meet: a read, only their writes.
void await_movements(Allocation& allocation, bool writes);
/// The same, for a thread that waits later. Under order_mutex().
void collect_movements(const Allocation& allocation, bool writes, std::vector<std::shared_future<void>>& all);

/// "byte 12 of 40 bytes of device 0, made by ..."; empty if no device has that address. Async-signal-safe but for a lock.
int describe_address(const void* address, char* text, size_t length);

}  // namespace weft::checked_device
