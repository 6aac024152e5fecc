#include "weft/checked_device/memory.h"

#include <c10/core/CPUAllocator.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/util/Exception.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <deque>
#include <map>

#include "weft/checked_device/checked_device.h"
#include "weft/checked_device/device_options.h"
#include "weft/checked_device/order.h"

namespace weft::checked_device {

namespace {

/// What is known of an address, also after its memory is freed.
struct Region {
  size_t bytes = 0;
  uint64_t number = 0;
  const char* made_by = "";
  int device = 0;
  Allocation* live = nullptr;  ///< null: freed
  Access last;
};

struct Arena {
  char* begin = nullptr;
  size_t used = 0;
  Memory memory;
};

struct Arenas {
  std::vector<Arena> devices;
  size_t arena_bytes = 0;
  std::map<const char*, Region> regions;
  std::deque<const char*> freed;  ///< of those, the oldest first
  uint64_t allocations = 0;
};

Arenas& arenas() {
  static Arenas& arenas = *new Arenas;
  return arenas;
}

constexpr size_t kMostFreed = 200'000;  ///< regions kept for describe_address()

size_t round_up(size_t bytes, size_t step) { return (bytes + step - 1) / step * step; }

/// What CUDA's caching allocator counts for a request: from 10 MiB, a segment of its own, of which it splits off more than 1
/// MiB.
size_t rounded(size_t bytes) {
  constexpr size_t kMiB = size_t{1} << 20;
  const size_t part = round_up(bytes, 512), segment = round_up(part, 2 * kMiB);
  return part >= 10 * kMiB && segment - part <= kMiB ? segment : part;
}

/// LibTorch's memory profiler hears of each allocation and free, as from CUDA's caching allocator.
void report(const Allocation& a, int64_t bytes) {
  if (!c10::memoryProfilingEnabled()) return;
  const size_t allocated = memory(a.device).allocated;
  c10::reportMemoryUsageToProfiler(a.address, bytes, allocated, allocated,
                                   c10::Device(kDevice, static_cast<c10::DeviceIndex>(a.device)));
}

/// Its stream's next allocation may get this memory at once.
void check_free(const Allocation& a) {
  const Clock& home = clock_of(a.home);
  const Clock& host = clock_of(kHost);
  const Access* culprit = nullptr;
  a.accesses.each([&](const Access& access) {
    if (culprit != nullptr || access.actor == a.home || access.happened_before(home) || access.happened_before(host)) return;
    if (std::find(a.recorded.begin(), a.recorded.end(), access.actor) == a.recorded.end()) culprit = &access;
  });
  if (culprit == nullptr) return;
  violate(std::to_string(a.bytes) + " bytes made by " + a.made_by + " on " + actor_name(a.home) + " are freed while " +
              text(*culprit) + " may use them; call record_stream, or let " + actor_name(a.home) + " wait",
          false);
}

void release_allocation(void* context) {
  auto* a = static_cast<Allocation*>(context);
  {
    const std::lock_guard lock(order_mutex());
    Arenas& s = arenas();
    check_free(*a);
    s.devices[static_cast<size_t>(a->device)].memory.allocated -= rounded(a->bytes);
    const auto region = s.regions.find(a->address);
    if (region != s.regions.end()) {
      region->second.live = nullptr;
      s.freed.push_back(a->address);
      if (s.freed.size() > kMostFreed) {
        s.regions.erase(s.freed.front());
        s.freed.pop_front();
      }
    }
  }
  report(*a, -static_cast<int64_t>(rounded(a->bytes)));
  delete a;
}

class DeviceMemory final : public c10::DeviceAllocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    c10::Allocator* cpu = c10::GetCPUAllocator();
    c10::Storage backing(c10::Storage::use_byte_size_t(), bytes, cpu->allocate(bytes), cpu, /*resizable=*/true);
    if (options().poison && bytes > 0) std::memset(backing.mutable_data(), 0xff, bytes);
    return make_allocation(std::move(backing), current_device());
  }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    TORCH_CHECK(false, "checked device: a copy of ", bytes, " bytes from ", from, " to ", to, " outside an operator");
  }
  bool initialized() override { return true; }
  void emptyCache(c10::MempoolId_t) override {}
  void recordStream(const c10::DataPtr& data, c10::Stream stream) override { record_on_stream(data, stream); }
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex device) override {
    const Memory now = memory(device);
    c10::CachingDeviceAllocator::DeviceStats stats;
    auto& bytes = stats.allocated_bytes[static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE)];
    bytes.current = static_cast<int64_t>(now.allocated);
    bytes.peak = static_cast<int64_t>(now.peak_allocated);
    return stats;
  }
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex device) override {
    const size_t total = options().memory_limit > 0 ? options().memory_limit : options().address_bytes;
    return {total - std::min(total, memory(device).allocated), total};
  }
  void resetAccumulatedStats(c10::DeviceIndex) override {}
  void resetPeakStats(c10::DeviceIndex device) override { reset_peak_memory(device); }
};

}  // namespace

void reserve_addresses(int devices, size_t bytes_per_device) {
  Arenas& s = arenas();
  s.arena_bytes = bytes_per_device;
  for (int device = 0; device < devices; ++device) {
    void* begin = mmap(nullptr, bytes_per_device, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    TORCH_CHECK(begin != MAP_FAILED, "checked device: cannot reserve ", bytes_per_device,
                " addresses; set Options::address_bytes lower, or raise ulimit -v");
    s.devices.push_back({static_cast<char*>(begin), 0, {}});
  }
}

c10::Allocator* device_allocator() {
  static DeviceMemory& allocator = *new DeviceMemory;
  return &allocator;
}

namespace {

Allocation* add_allocation(c10::Storage backing, int device) {
  const std::lock_guard lock(order_mutex());
  Arenas& s = arenas();
  const size_t bytes = backing.nbytes();
  Arena& arena = s.devices.at(static_cast<size_t>(device));
  if (own_device() >= 0 && own_device() != device) {
    violate(std::string(running_operator()) + " allocates " + std::to_string(bytes) + " bytes on device " +
                std::to_string(device) + " for work of device " + std::to_string(own_device()),
            true);
  }
  const size_t limit = options().memory_limit;
  if (limit > 0 && arena.memory.allocated + rounded(bytes) > limit) {
    C10_THROW_ERROR(OutOfMemoryError,
                    c10::str("checked device: out of memory: ", bytes, " bytes asked for by ", running_operator(), ", ",
                             arena.memory.allocated, " of ", limit, " bytes of device ", device, " in use"));
  }
  const size_t span = round_up(bytes + 1, 512);  // a gap behind each
  TORCH_CHECK(arena.used + span <= s.arena_bytes, "checked device: all ", s.arena_bytes, " addresses of device ", device,
              " are used; raise Options::address_bytes");
  auto* a = new Allocation{.address = arena.begin + arena.used,
                           .bytes = bytes,
                           .backing = std::move(backing),
                           .device = device,
                           .home = actor_of(current_stream(device)),
                           .made_by = running_operator(),
                           .number = ++s.allocations,
                           .accesses = Accesses(bytes),
                           .recorded = {},
                           .movements = {}};
  arena.used += span;
  arena.memory.allocated += rounded(bytes);
  arena.memory.peak_allocated = std::max(arena.memory.peak_allocated, arena.memory.allocated);
  ++counts_here().allocations;
  s.regions.emplace(a->address, Region{bytes, a->number, a->made_by, device, a, {}});
  return a;
}

}  // namespace

c10::DataPtr make_allocation(c10::Storage backing, int device) {
  Allocation* a = add_allocation(std::move(backing), device);
  report(*a, static_cast<int64_t>(rounded(a->bytes)));
  return {a->address, a, &release_allocation, c10::Device(kDevice, static_cast<c10::DeviceIndex>(device))};
}

uint64_t last_allocation() { return arenas().allocations; }

namespace {

bool is_own(const c10::DataPtr& data) { return data.get_deleter() == &release_allocation; }

/// Bytes of the allocation before the address.
size_t bytes_before(const Allocation& a, const void* address) {
  return static_cast<size_t>(static_cast<const char*>(address) - a.address);
}

/// Under order_mutex().
Allocation& allocation_at(const void* address) {
  const auto* at = static_cast<const char*>(address);
  const auto& regions = arenas().regions;
  auto region = regions.upper_bound(at);
  const bool is_after_one = region != regions.begin();
  if (is_after_one) --region;
  TORCH_CHECK(is_after_one && region->second.live != nullptr && at < region->first + region->second.bytes,
              "checked device: memory at ", address,
              " that the device's allocator did not make, or that is freed (from_blob?)");
  return *region->second.live;
}

}  // namespace

Allocation& allocation_of(const c10::StorageImpl& storage) {
  const c10::DataPtr& data = storage.data_ptr();
  if (is_own(data)) return *static_cast<Allocation*>(data.get_context());
  const std::lock_guard lock(order_mutex());
  Allocation& a = allocation_at(data.get());
  TORCH_CHECK(bytes_before(a, data.get()) + storage.nbytes() <= a.bytes, "checked device: a tensor borrows ", storage.nbytes(),
              " bytes from byte ", bytes_before(a, data.get()), " of ", a.bytes, " bytes made by ", a.made_by);
  return a;
}

Allocation& allocation_of(const at::Tensor& tensor) { return allocation_of(*tensor.storage().unsafeGetStorageImpl()); }

int64_t elements_before(const at::Tensor& tensor) {
  const c10::DataPtr& data = tensor.storage().data_ptr();
  if (is_own(data)) return 0;
  const size_t bytes = bytes_before(allocation_of(tensor), data.get());
  TORCH_CHECK(bytes % tensor.element_size() == 0, "checked device: a tensor of ", tensor.dtype(), " borrows memory from byte ",
              bytes, " on");
  return static_cast<int64_t>(bytes / tensor.element_size());
}

int device_of_address(const void* address) {
  const std::lock_guard lock(order_mutex());
  return allocation_at(address).device;
}

bool is_on_device(const at::Tensor& tensor) { return tensor.defined() && tensor.device().type() == kDevice; }

c10::Storage backing_of(const c10::Storage& storage) {
  const Allocation& a = allocation_of(*storage.unsafeGetStorageImpl());
  if (is_own(storage.data_ptr())) return a.backing;
  void* const begin = static_cast<char*>(a.backing.mutable_data()) + bytes_before(a, storage.data());
  const auto free = [](void* held) { delete static_cast<c10::Storage*>(held); };
  return {c10::Storage::use_byte_size_t(), storage.nbytes(), {begin, new c10::Storage(a.backing), free, c10::kCPU}};
}

at::Tensor on_cpu(const at::Tensor& tensor) { return on_cpu(tensor, backing_of(tensor.storage())); }

at::Tensor on_cpu(const at::Tensor& tensor, const c10::Storage& backing) {
  auto cpu = at::detail::make_tensor<c10::TensorImpl>(c10::Storage(backing), c10::DispatchKeySet(c10::DispatchKey::CPU),
                                                      tensor.dtype());
  cpu.unsafeGetTensorImpl()->set_sizes_and_strides(tensor.sizes(), tensor.strides(), tensor.storage_offset());
  cpu._set_conj(tensor.is_conj());
  cpu._set_neg(tensor.is_neg());
  return cpu;
}

void check_access(Allocation& allocation, const std::vector<ByteRange>& ranges, bool write, const Access& now) {
  std::string clash;
  allocation.accesses.add(ranges, write, now, clock_of(now.actor), [&](const Access& earlier, bool wrote) {
    if (!clash.empty()) return;
    clash = text(now) + (write ? " writes " : " reads ") + std::to_string(allocation.bytes) + " bytes made by " +
            allocation.made_by + ", which " + text(earlier) + (wrote ? " writes" : " reads") + ": it does not wait for that";
  });
  const auto region = arenas().regions.find(allocation.address);
  if (region != arenas().regions.end()) region->second.last = now;
  if (!clash.empty()) violate(clash, true);
}

void record_on_stream(const c10::DataPtr& data, const c10::Stream& stream) {
  if (!is_own(data)) return;
  const std::lock_guard lock(order_mutex());
  if (is_dropped(Ordering::record_stream, stream.device_index())) return;
  static_cast<Allocation*>(data.get_context())->recorded.push_back(actor_of(stream));
}

void add_movement(Allocation& allocation, std::shared_future<void> done, bool writes) {
  std::erase_if(allocation.movements, [](const Allocation::Movement& earlier) {
    return earlier.done.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  });
  allocation.movements.push_back({std::move(done), writes});
}

void collect_movements(const Allocation& allocation, bool writes, std::vector<std::shared_future<void>>& all) {
  for (const Allocation::Movement& movement : allocation.movements) {
    if (writes || movement.writes) all.push_back(movement.done);
  }
}

void await_movements(Allocation& allocation, bool writes) {
  std::vector<std::shared_future<void>> movements;
  {
    const std::lock_guard lock(order_mutex());
    collect_movements(allocation, writes, movements);
  }
  for (const auto& movement : movements) movement.wait();
}

int describe_address(const void* address, char* text, size_t length) {
  const auto* at = static_cast<const char*>(address);
  Arenas& s = arenas();
  for (size_t device = 0; device < s.devices.size(); ++device) {
    if (at < s.devices[device].begin || at >= s.devices[device].begin + s.arena_bytes) continue;
    auto next = s.regions.upper_bound(at);
    if (next == s.regions.begin()) return std::snprintf(text, length, "an address of device %zu that is not in use", device);
    const auto& [begin, region] = *std::prev(next);
    const auto byte = static_cast<size_t>(at - begin);
    return std::snprintf(text, length,
                         "byte %zu of %zu bytes%s of device %d, made by %s (allocation %lu), last used by %s (launch %lu)",
                         byte, region.bytes,
                         region.live == nullptr ? ", freed,"
                         : byte < region.bytes  ? ""
                                                : " (behind their end)",
                         region.device, region.made_by, static_cast<unsigned long>(region.number), region.last.what,
                         static_cast<unsigned long>(region.last.launch));
  }
  return 0;
}

Memory memory(int device) {
  const std::lock_guard lock(order_mutex());
  return arenas().devices.at(static_cast<size_t>(device)).memory;
}

void reset_peak_memory(int device) {
  const std::lock_guard lock(order_mutex());
  Memory& memory = arenas().devices.at(static_cast<size_t>(device)).memory;
  memory.peak_allocated = memory.allocated;
}

}  // namespace weft::checked_device
