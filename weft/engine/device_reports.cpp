#include "weft/engine/device_reports.h"

#include <c10/util/ThreadLocalDebugInfo.h>
#include <torch/csrc/profiler/orchestration/observer.h>

#include <algorithm>
#include <mutex>
#include <unordered_map>
#include <utility>

namespace weft {

namespace {

constexpr auto kKind = c10::DebugInfoKind::PROFILER_STATE;

}  // namespace

/// To LibTorch a profiler that records nothing but memory: whoever asks whether a profiler is on hears that none is.
class DeviceReports::Reader : public torch::profiler::impl::ProfilerStateBase {
 public:
  Reader(c10::Device device, MemoryCategory (*category)())
      : ProfilerStateBase(torch::profiler::impl::ProfilerConfig(torch::profiler::impl::ProfilerState::Disabled,
                                                                /*report_input_shapes=*/false, /*profile_memory=*/true)),
        device_(device),
        category_(category) {}

  void reportMemoryUsage(void* address, int64_t bytes, size_t /*allocated*/, size_t /*reserved*/, c10::Device device) override {
    if (device != device_ || bytes == 0) return;
    const std::lock_guard lock(mutex_);
    has_reports_ = true;
    const auto known = allocated_.find(address);
    if (known != allocated_.end()) {
      live_[static_cast<size_t>(known->second.category)] -= known->second.bytes;
      allocated_.erase(known);
    }
    if (bytes < 0) return;
    const MemoryCategory category = category_();
    allocated_.emplace(address, Allocated{category, bytes});
    const auto i = static_cast<size_t>(category);
    live_[i] += bytes;
    peak_[i] = std::max(peak_[i], live_[i]);
  }

  torch::profiler::impl::ActiveProfilerType profilerType() override { return torch::profiler::impl::ActiveProfilerType::NONE; }

  std::optional<CategoryBytes> peak() const {
    const std::lock_guard lock(mutex_);
    return has_reports_ ? std::optional(peak_) : std::nullopt;
  }

  void reset_peaks() {
    const std::lock_guard lock(mutex_);
    peak_ = live_;
  }

 private:
  struct Allocated {
    MemoryCategory category;
    int64_t bytes;
  };

  c10::Device device_;
  MemoryCategory (*category_)();
  mutable std::mutex mutex_;  // autograd's threads allocate too
  bool has_reports_ = false;
  CategoryBytes live_{}, peak_{};
  std::unordered_map<void*, Allocated> allocated_;
};

namespace {

struct Guarded : DeviceReports::Received {
  explicit Guarded(std::shared_ptr<c10::DebugInfoBase> reader) : guard(kKind, std::move(reader)) {}
  c10::DebugInfoGuard guard;
};

}  // namespace

DeviceReports::DeviceReports(c10::Device device, MemoryCategory (*category)())
    : reader_(std::make_shared<Reader>(device, category)) {}

std::optional<CategoryBytes> DeviceReports::peak() const { return reader_->peak(); }

void DeviceReports::reset_peaks() { reader_->reset_peaks(); }

std::unique_ptr<DeviceReports::Received> DeviceReports::receive() const {
  auto* other = c10::ThreadLocalDebugInfo::get(kKind);
  if (other != nullptr && other != reader_.get()) return nullptr;
  return std::make_unique<Guarded>(reader_);
}

}  // namespace weft
