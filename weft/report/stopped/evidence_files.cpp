#include "weft/report/stopped/evidence_files.h"

#include <fmt/format.h>

#include <filesystem>
#include <string_view>

#include "weft/base/error.h"
#include "weft/base/input_file.h"
#include "weft/base/parse_number.h"
#include "weft/base/printable.h"

namespace weft {
namespace {

constexpr int64_t kMostBytes = int64_t{64} << 20;  ///< of a rank's evidence
constexpr std::string_view kStart = "rank-", kEnd = ".json";

}  // namespace

std::string evidence_name(int rank) { return fmt::format("{}{}{}", kStart, rank, kEnd); }

std::set<int> ranks_with_evidence(const std::string& folder) {
  std::set<int> ranks;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), none; !error && entry != none; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (!name.starts_with(kStart) || !name.ends_with(kEnd)) continue;
    const std::string number = name.substr(kStart.size(), name.size() - kStart.size() - kEnd.size());
    if (const auto rank = parse_number<int>(number); rank && *rank >= 0) ranks.insert(*rank);
  }
  return ranks;
}

ReadEvidence read_evidence(const std::string& folder, int only) {
  ReadEvidence read;
  for (const int rank : ranks_with_evidence(folder)) {
    if (only >= 0 && rank != only) continue;
    const std::filesystem::path path = std::filesystem::path(folder) / evidence_name(rank);
    try {
      RankEvidence evidence = parse_evidence(read_text_file("evidence", path.string(), kMostBytes), path.string());
      if (evidence.rank != rank) throw InputError(fmt::format("{} is of rank {}", printable(path.string()), evidence.rank));
      read.evidence.push_back(std::move(evidence));
    } catch (const Error& error) {
      read.problems.emplace_back(error.what());
    }
  }
  return read;
}

int newest_old_evidence(const std::string& run_folder) {
  int newest = 0;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(run_folder, error), none; !error && entry != none; entry.increment(error)) {
    const std::string name = entry->path().filename().string(), start = fmt::format("{}-", kStoppedFolder);
    if (name.starts_with(start)) newest = std::max(newest, parse_number<int>(name.substr(start.size())).value_or(0));
  }
  return newest;
}

std::string find_evidence(const std::string& place) {
  const std::filesystem::path own(place);
  if (!ranks_with_evidence(place).empty()) return place;
  if (!ranks_with_evidence((own / kStoppedFolder).string()).empty()) return (own / kStoppedFolder).string();
  const int newest = newest_old_evidence(own.string());
  const std::filesystem::path older = own / fmt::format("{}-{}", kStoppedFolder, newest);
  if (newest > 0 && !ranks_with_evidence(older.string()).empty()) return older.string();
  throw InputError(
      fmt::format("no evidence of a hang in {}: there is no {}/{}; name the run.folder or save.folder of a run that "
                  "stopped with an error of a wait",
                  printable(place), kStoppedFolder, evidence_name(0)));
}

}  // namespace weft
