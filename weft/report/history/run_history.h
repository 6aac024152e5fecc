// RunHistory: a run read back from its records (docs/records.md), and what follows from them.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weft/report/records/read_records.h"

namespace weft {

struct RunHistory {
  std::string path = {};                   ///< folder, as it was named
  MetricsReader reader = MetricsReader();  ///< has read metrics.jsonl, and reads on where a run goes on
  std::vector<EventRecord> events = {};

  const Metrics& metrics() const { return reader.metrics(); }
};

/// What a run does, as far as its records tell.
enum class RunStanding {
  empty,     ///< it has no records
  running,   ///< its newest record is recent
  silent,    ///< it has neither ended nor written for a while: it hangs, or was killed
  finished,  ///< all steps, or its target
  stopped,   ///< asked to, and saved
  failed,    ///< with an error
};
/// "running", "silent", ...
const char* standing_name(RunStanding standing);

/// `now_s`: since 1970. Silent is a run without a record for a minute and ten times its usual interval.
RunStanding standing_of(const RunHistory& run, double now_s);

/// Time of the newest record; 0: there is none.
double newest_s(const RunHistory& run);

/// A detail of the newest start: "name", "recipe.batch.global"; empty: it has none.
std::string start_detail(const RunHistory& run, std::string_view name);
/// The newest start's details whose names begin with `prefix`, without it.
std::vector<std::pair<std::string, std::string>> start_details(const RunHistory& run, std::string_view prefix);

/// The last part of its path.
std::string folder_of(const RunHistory& run);

/// The run's name, or its folder's.
std::string name_of(const RunHistory& run);

/// Whether another of these runs has its name.
bool shares_name(const RunHistory& run, std::span<const RunHistory* const> runs);

/// A recipe key that names a run or its places, not what it does: "run.name", "save.folder".
bool names_a_run(std::string_view key);

/// ", 3 damaged lines left out"; empty if there are none.
std::string damage_text(const Metrics& metrics);

/// Steps that the run will do; 0: unknown.
int64_t steps_in_all(const RunHistory& run);

/// Seconds to the last step at the pace of the last steps; empty: unknown, or not running.
std::optional<double> seconds_left(const RunHistory& run, double now_s);

/// The last value of that name that is a number.
std::optional<double> last_value(const Metrics& metrics, std::string_view name);

/// The median of that name's values that are numbers.
std::optional<double> median_value(const Metrics& metrics, std::string_view name);
/// Why the run has failed, by its last error; empty: it has not.
std::string failure_of(const RunHistory& run, double now_s);

/// Evaluations of a set, and the value of that name in each.
std::vector<std::pair<int64_t, double>> evaluations_of(const Metrics& metrics, std::string_view set, std::string_view name);

}  // namespace weft
