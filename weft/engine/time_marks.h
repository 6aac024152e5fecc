// TimeMarks: points in time of a rank's device, on a clock shared by all processes of a host.
//
// On a device a mark is an event on its current stream, read later: the host does not wait for it.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Event.h>

#include <vector>

namespace weft {

class TimeMarks {
 public:
  /// On a device the host waits for what came before.
  explicit TimeMarks(c10::Device device);

  /// Adds a mark, and returns its number.
  int put();
  /// When that was; on a device waits until it is.
  double seconds(int mark) const;

 private:
  c10::Device device_;
  std::vector<double> times_;              ///< on a CPU
  double begin_s_ = 0.0;                   ///< of the host, when the device came to the first of marks_
  mutable std::vector<c10::Event> marks_;  ///< on a device
};

}  // namespace weft
