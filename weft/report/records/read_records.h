// Reads the files of a run's records (record_files.h): numbers as columns, at some 10^6 lines a second on two cores. Texts and
// names are printable() whatever the files hold.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "weft/report/records/metrics.h"
#include "weft/report/records/record.h"

namespace weft {

/// Reads metrics.jsonl piece by piece, as it grows.
class MetricsReader {
 public:
  /// Reads the values of these names; empty: all. What it reads does not depend on the number of threads.
  explicit MetricsReader(std::vector<std::string> names = {}, size_t threads = 1);
  ~MetricsReader();
  MetricsReader(MetricsReader&&) noexcept;
  MetricsReader& operator=(MetricsReader&&) noexcept;

  /// Takes the file's next bytes; what follows the last newline waits for more.
  void add(std::string_view bytes);
  /// Of the lines so far.
  const Metrics& metrics() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The events of events.jsonl. Lines that are no events are left out.
std::vector<EventRecord> parse_events(std::string_view text);

}  // namespace weft
