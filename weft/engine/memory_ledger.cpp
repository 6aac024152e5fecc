#include "weft/engine/memory_ledger.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <exception>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "weft/engine/device_memory.h"

namespace weft {

struct MemoryLedger::Counts {
  void add(MemoryCategory category, int64_t bytes) {
    const std::lock_guard lock(mutex);
    const auto i = static_cast<size_t>(category);
    live[i] += bytes;
    total += bytes;
    peak[i] = std::max(peak[i], live[i]);
    peak_total = std::max(peak_total, total);
  }

  std::mutex mutex;  // a tensor may be freed on another thread
  CategoryBytes live{}, peak{};
  int64_t total = 0, peak_total = 0;
};

namespace {

// The allocator interface has no argument for the owner of the bytes, hence the thread-locals.
thread_local std::shared_ptr<MemoryLedger::Counts> counting;
thread_local MemoryCategory current = MemoryCategory::activations;
thread_local std::optional<MemoryCategory> failed;

struct Counted {
  int64_t bytes;
  MemoryCategory category;
  std::shared_ptr<MemoryLedger::Counts> counts;
};

/// Counted allocations, by address: kernels also allocate and free raw pointers, which cannot carry a category.
class Live {
 public:
  void add(void* memory, Counted counted) {
    const std::lock_guard lock(mutex_);
    counted_.emplace(memory, std::move(counted));
  }
  void remove(void* memory) {
    const std::lock_guard lock(mutex_);
    const auto found = counted_.find(memory);
    if (found == counted_.end()) return;
    found->second.counts->add(found->second.category, -found->second.bytes);
    counted_.erase(found);
  }

 private:
  std::mutex mutex_;
  std::unordered_map<void*, Counted> counted_;
};

// Never destroyed: tensors may be freed while the process ends.
Live& live_memory() {
  static auto* live = new Live;
  return *live;
}
at::DeleterFnPtr inner_deleter = nullptr;

void release(void* memory) {
  live_memory().remove(memory);
  inner_deleter(memory);
}

class CountingAllocator : public at::Allocator {
 public:
  explicit CountingAllocator(at::Allocator* inner) : inner_(inner) { inner_deleter = inner->raw_deleter(); }

  at::DataPtr allocate(size_t bytes) override {
    at::DataPtr memory = inner_->allocate(bytes);
    if (!counting || bytes == 0) return memory;
    const at::Device device = memory.device();
    void* data = memory.release_context();
    live_memory().add(data, {static_cast<int64_t>(bytes), current, counting});
    counting->add(current, static_cast<int64_t>(bytes));
    return {data, data, &release, device};
  }
  at::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, std::size_t count) const override { default_copy_data(to, from, count); }

 private:
  at::Allocator* inner_;
};

// Lives as long as the process: its tensors may outlive every ledger.
void install() {
  static const bool installed = [] {
    constexpr uint8_t kPriority = 100;
    static CountingAllocator allocator(c10::GetCPUAllocator());
    c10::SetCPUAllocator(&allocator, kPriority);
    return true;
  }();
  static_cast<void>(installed);
}

}  // namespace

MemoryLedger::MemoryLedger(c10::Device device)
    : counts_(std::make_shared<Counts>()),
      device_(device),
      reports_(device.is_cpu() ? nullptr : std::make_shared<DeviceReports>(device, &MemoryScope::innermost)) {
  install();
}
MemoryLedger::~MemoryLedger() = default;

void MemoryLedger::add(MemoryCategory category, int64_t bytes) { counts_->add(category, bytes); }

CategoryBytes MemoryLedger::live() const {
  const std::lock_guard lock(counts_->mutex);
  return counts_->live;
}

CategoryBytes MemoryLedger::peak() const {
  const std::lock_guard lock(counts_->mutex);
  return counts_->peak;
}

std::optional<CategoryBytes> MemoryLedger::device_peak() const { return reports_ ? reports_->peak() : peak(); }

int64_t MemoryLedger::peak_total() const {
  if (const std::optional<DeviceMemory> on_device = device_memory(device_)) return on_device->peak_allocated;
  const std::lock_guard lock(counts_->mutex);
  return counts_->peak_total;
}

void MemoryLedger::reset_peaks() {
  reset_device_peaks(device_);
  if (reports_) reports_->reset_peaks();
  const std::lock_guard lock(counts_->mutex);
  counts_->peak = counts_->live;
  counts_->peak_total = counts_->total;
}

MemoryLedger::Attached::Attached(MemoryLedger* ledger)
    : before_(std::exchange(counting, ledger ? ledger->counts_ : nullptr)),
      received_(ledger && ledger->reports_ ? ledger->reports_->receive() : nullptr) {}
MemoryLedger::Attached::~Attached() { counting = std::static_pointer_cast<Counts>(before_); }

MemoryScope::MemoryScope(MemoryCategory category)
    : before_(std::exchange(current, category)), exceptions_(std::uncaught_exceptions()) {}

MemoryScope::~MemoryScope() {
  if (std::uncaught_exceptions() > exceptions_ && !failed) failed = current;
  current = before_;
}

MemoryCategory MemoryScope::innermost() { return current; }

std::optional<MemoryCategory> MemoryScope::take_failed() { return std::exchange(failed, std::nullopt); }

}  // namespace weft
