// DeviceReports: bytes of tensors on a device by category, from what its caching allocator reports to LibTorch's memory
// profiler.
//
// The allocator reports each allocation and each free, rounded, to the state of the thread that makes it; autograd's threads
// inherit that state. What another thread frees, such as a watchdog of communication, stays counted until its address is
// given out again.
#pragma once

#include <c10/core/Device.h>

#include <memory>
#include <optional>

#include "weft/program/memory.h"

namespace weft {

/// Counts the reports of one device. Thread-safe.
class DeviceReports {
 public:
  /// `category`: what an allocation of the calling thread is for.
  DeviceReports(c10::Device device, MemoryCategory (*category)());

  /// Peaks since the last reset; nullopt without any report.
  std::optional<CategoryBytes> peak() const;
  /// Resets the peaks to the live bytes.
  void reset_peaks();

  /// This thread's reports are counted during its lifetime.
  class Received {
   public:
    virtual ~Received() = default;
  };
  /// Null if LibTorch's profiler already takes this thread's reports.
  std::unique_ptr<Received> receive() const;

 private:
  class Reader;
  std::shared_ptr<Reader> reader_;
};

}  // namespace weft
