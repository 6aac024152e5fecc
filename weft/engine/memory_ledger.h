// MemoryLedger: bytes of tensors a rank holds, by category (program/memory.h), in host memory and on its device. Its figures
// can be compared with the prediction of weft memory.
//
// A thread's allocations are counted while it has a ledger (MemoryLedger::Attached). An allocation belongs to the category of
// the innermost MemoryScope and is subtracted when freed. Buffers from outside the allocator (shared memory) are added by hand.
// Cost: some 100 ns per allocation.
//
// Host memory is counted by an allocator in front of the CPU's. A device's allocator reports to LibTorch's memory profiler
// (engine/device_reports.h), which autograd's threads inherit; the total comes from its statistics (engine/device_memory.h).
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "weft/engine/device_reports.h"
#include "weft/program/memory.h"

namespace weft {

/// Counts bytes of tensors by category. Thread-safe. Counted tensors may outlive it.
class MemoryLedger {
 public:
  /// `device`: where the rank's tensors are.
  explicit MemoryLedger(c10::Device device = c10::kCPU);
  ~MemoryLedger();

  /// Counts memory from outside the allocator; negative bytes subtract it again.
  void add(MemoryCategory category, int64_t bytes);
  /// Bytes held now, in host memory.
  CategoryBytes live() const;
  /// Peak bytes of each category in host memory; the peaks need not coincide.
  CategoryBytes peak() const;
  /// The same on the rank's device, rounded as by its allocator; on a CPU equal to peak(). nullopt if the allocator reports
  /// nothing, or LibTorch's profiler was on.
  std::optional<CategoryBytes> device_peak() const;
  /// Peak bytes of all categories together, on the device. A device that is no CPU counts all tensors of the process.
  int64_t peak_total() const;
  /// Resets the peaks to the live bytes.
  void reset_peaks();

  /// Counts this thread's allocations during its lifetime.
  class Attached {
   public:
    /// Counts in `ledger`; null: nowhere. The previous ledger resumes on destruction.
    explicit Attached(MemoryLedger* ledger);
    ~Attached();
    Attached(const Attached&) = delete;
    Attached& operator=(const Attached&) = delete;

   private:
    std::shared_ptr<void> before_;
    std::unique_ptr<DeviceReports::Received> received_;
  };

  struct Counts;

 private:
  std::shared_ptr<Counts> counts_;
  c10::Device device_;
  std::shared_ptr<DeviceReports> reports_;  ///< null on a CPU
};

/// Assigns this thread's allocations to a category during its lifetime.
class MemoryScope {
 public:
  /// Replaces the enclosing scope. Outside any scope, allocations are activations.
  explicit MemoryScope(MemoryCategory category);
  ~MemoryScope();
  MemoryScope(const MemoryScope&) = delete;
  MemoryScope& operator=(const MemoryScope&) = delete;

  /// Returns, once, the category of the innermost scope when the error now being handled was thrown.
  static std::optional<MemoryCategory> take_failed();

  /// This thread's category.
  static MemoryCategory innermost();

 private:
  MemoryCategory before_;
  int exceptions_;
};

}  // namespace weft
