// RecordSink: where a run's records go. Sinks run on rank 0, in one thread of their own (recorder.h).
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "weft/report/records/record.h"

namespace weft {

class RecordSink {
 public:
  virtual ~RecordSink() = default;
  /// What it is, in errors: "run.tensorboard".
  virtual std::string name() const = 0;
  /// Takes a record. If it throws, that is reported once, and the sink gets no more.
  virtual void add(const Record& record) = 0;
  /// Makes the records so far readable by others; called about twice a second, and at the end. If it throws, that is reported
  /// once, and it is called again.
  virtual void flush() {}
  /// The same, before a save and at the end of the run: for a sink that would wait before it writes.
  virtual void flush_asked() { flush(); }
};

/// A caller's own sink.
class FunctionSink : public RecordSink {
 public:
  explicit FunctionSink(std::function<void(const Record&)> take) : take_(std::move(take)) {}
  std::string name() const override { return "a sink of the program"; }
  void add(const Record& record) override { take_(record); }

 private:
  std::function<void(const Record&)> take_;
};

}  // namespace weft
