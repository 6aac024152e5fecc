#include "weft/cli/ranks/recorded_end.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <filesystem>
#include <iterator>
#include <vector>

#include "weft/report/records/read_records.h"
#include "weft/report/records/record_files.h"
#include "weft/report/stopped/evidence_files.h"
#include "weft/train/run/recorded_steps.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

constexpr double kClocks_s = 5.0;  ///< by which clocks of two hosts may differ

/// Of the run that began then or later; empty: its rank 0 has opened no records.
std::vector<EventRecord> events_since(const fs::path& folder, double began_s) {
  std::vector<EventRecord> all = parse_events(text_of_records(folder / kEventsFile));
  const auto start = std::find_if(all.rbegin(), all.rend(), [](const EventRecord& event) { return event.kind == "start"; });
  if (start == all.rend() || start->time_s < began_s - kClocks_s) return {};
  return {std::prev(start.base()), all.end()};
}

std::string with_evidence(const std::string& folder, double began_s, const std::string& error) {
  const fs::path summary = fs::path(folder) / kStoppedFolder / kSummaryFile;
  if (!fs::exists(summary) || error.find("weft blame") != std::string::npos) return error;
  const auto written = std::chrono::file_clock::to_sys(fs::last_write_time(summary)).time_since_epoch();
  if (std::chrono::duration<double>(written).count() < began_s) return error;
  return fmt::format("{}; evidence in {}: weft blame {}", error, (fs::path(folder) / kStoppedFolder).string(), folder);
}

}  // namespace

std::string recorded_end(const std::string& folder, double began_s, const LaunchOutcome& outcome) {
  if (folder.empty() || outcome.error.empty()) return outcome.error;
  try {
    const bool is_stopped = outcome.interrupted != 0 && outcome.error.starts_with("ended by");  // not: a rank killed before
    const std::string error = is_stopped ? outcome.error : with_evidence(folder, began_s, outcome.error);
    const std::vector<EventRecord> events = events_since(folder, began_s);
    const bool is_told = std::any_of(events.begin(), events.end(), [&](const EventRecord& event) {
      if (is_stopped || event.kind == "end") return event.kind == "end" || event.kind == "error";
      return event.kind == "error" && outcome.error.find("killed by signal") == std::string::npos;  // the ranks see it end
    });
    if (events.empty() || is_told) return error;
    EventRecord end{
        .kind = is_stopped ? "end" : "error", .step = RecordedRun(folder).last_step(), .time_s = unix_time_s(), .text = error};
    if (is_stopped) end.details = {{"how", "stopped"}};
    append_events(folder, {end});
    return error;
  } catch (const std::exception&) {
    return outcome.error;
  }
}

}  // namespace weft
