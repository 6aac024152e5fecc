// The files of a run's evidence: FOLDER/stopped.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "weft/report/stopped/who_is_missing.h"

namespace weft {

inline constexpr const char* kStoppedFolder = "stopped";  ///< in a run's folder
inline constexpr const char* kSummaryFile = "summary.txt";
inline constexpr const char* kFlightRecorderFolder = "flight_recorder";

/// "rank-7.json".
std::string evidence_name(int rank);
/// The ranks whose file is in the folder.
std::set<int> ranks_with_evidence(const std::string& folder);

struct ReadEvidence {
  Evidence evidence = {};
  std::vector<std::string> problems = {};  ///< files that could not be read, a line each
};

/// Reads all files in the folder, or only that of one rank, if `only` is not negative.
ReadEvidence read_evidence(const std::string& folder, int only = -1);

/// N of the last stopped-N in a run's folder; 0: there is none.
int newest_old_evidence(const std::string& run_folder);

/// The folder with the newest evidence of a run: `place` itself, `place`/stopped, or else the last of stopped-1, ... Throws
/// InputError if there is none.
std::string find_evidence(const std::string& place);

}  // namespace weft
