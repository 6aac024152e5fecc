// Recorder: hands a run's records to its sinks, in a thread of its own: a step only puts its record into a queue.
//
// Sinks are called about twice a second, so that their thread seldom takes a core from training. One that is slower than the
// steps loses the oldest steps that wait; one that hangs is left behind at the end.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "weft/report/records/record_sink.h"

namespace weft {

class Recorder {
 public:
  explicit Recorder(std::vector<std::unique_ptr<RecordSink>> sinks);
  /// Leaves sinks behind that have not ended within a second.
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  /// Does not wait for sinks.
  void add(Record record);
  /// Has the sinks called at once, without waiting for them.
  void flush_soon();
  /// Lines about sinks that have failed since the last call, each sink once.
  std::vector<std::string> take_failures();
  /// Why sinks have not written the last records, once finish() has returned true.
  std::vector<std::string> unwritten();
  /// Waits until the sinks have all records. Returns false after `longest`: a sink hangs.
  bool finish(std::chrono::milliseconds longest);

 private:
  struct State;
  std::shared_ptr<State> state_;  ///< shared with the thread, which may be left behind
};

}  // namespace weft
