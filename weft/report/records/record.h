// Records of a run: what its sinks (record_sink.h) are given and its files keep. docs/records.md lists every value and event.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace weft {

/// A named number: {"loss", 2.3}. Times are in seconds, memory in bytes.
struct RecordValue {
  std::string name;
  double value = 0.0;
};
using RecordValues = std::vector<RecordValue>;

/// The value of that name; empty: it has none.
std::optional<double> value_of(const RecordValues& values, std::string_view name);

/// A training step whose results are known.
struct StepRecord {
  int64_t step = 0;     ///< steps done, this one included
  double time_s = 0.0;  ///< since 1970, UTC
  RecordValues values = {};
};

/// A pass over an evaluation set.
struct EvaluationRecord {
  std::string set = {};  ///< "evaluation" for the data's own set, else evaluation.name
  int64_t step = 0;      ///< steps done before it
  double time_s = 0.0;   ///< since 1970, UTC
  RecordValues values = {};
};

/// Something that happened.
struct EventRecord {
  std::string kind = {};  ///< "start", "save", "note", "warning", "end", ...
  int64_t step = 0;       ///< steps done
  double time_s = 0.0;    ///< since 1970, UTC
  std::string text = {};  ///< a line for people
  std::vector<std::pair<std::string, std::string>> details = {};
};

/// The detail of that name; empty: it has none.
std::string detail_of(const EventRecord& event, std::string_view name);

/// Counts of values between limits, as TensorBoard draws them.
struct ValueHistogram {
  double min = 0.0, max = 0.0, count = 0.0, sum = 0.0, squares = 0.0;
  std::vector<double> limits = {};  ///< upper limits, rising
  std::vector<double> counts = {};  ///< of values below each limit that are not below the one before
};

/// The values of a tensor, with run.histograms_every.
struct HistogramRecord {
  std::string name = {};  ///< "weights/NAME" or "gradients/NAME" of a parameter
  int64_t step = 0;       ///< steps done
  double time_s = 0.0;    ///< since 1970, UTC
  ValueHistogram values = {};
};

using Record = std::variant<StepRecord, EvaluationRecord, EventRecord, HistogramRecord>;

/// Seconds since 1970, UTC.
double unix_time_s();

}  // namespace weft
