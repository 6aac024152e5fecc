#include "weft/train/run/shared_folder.h"

#include <fmt/format.h>

#include <chrono>
#include <random>
#include <string>
#include <thread>

#include "weft/base/error.h"
#include "weft/base/printable.h"
#include "weft/base/stopwatch.h"
#include "weft/checkpoint/storage/open_storage.h"
#include "weft/train/save/rank_meeting.h"

namespace weft {
namespace {

constexpr const char* kMark = ".weft.shared-";
constexpr double kShownWithin_s = 3.0;
constexpr std::chrono::milliseconds kLookAgain{50};

bool appears(Storage& storage, const std::string& path) {
  const Stopwatch time;
  while (!storage.has(path)) {
    if (time.seconds() > kShownWithin_s) return false;
    std::this_thread::sleep_for(kLookAgain);
  }
  return true;
}

/// Removes marks of this run and of killed runs.
void remove_marks(Storage& storage) {
  for (const std::string& file : storage.list("")) {
    if (file.starts_with(kMark)) storage.remove(file);
  }
}

/// Writes a file on rank 0; returns its name.
std::string new_mark(Storage& storage) {
  remove_marks(storage);
  std::string mark = fmt::format("{}{:08x}", kMark, std::random_device()());
  storage.write_text(mark, "");
  return mark;
}

/// The first rank that does not see rank 0's file; empty: all do.
std::string first_blind_rank(const std::string& folder, const World& world, RankMeeting& meeting) {
  try {
    const std::unique_ptr<Storage> storage = open_storage(folder);
    const bool leads = world.rank() == 0;
    const std::string path = meeting.of_rank_zero(leads ? new_mark(*storage) : "");
    std::string blind = meeting.verdict(appears(*storage, path) ? "" : fmt::to_string(world.rank()));
    if (leads) remove_marks(*storage);
    return blind;
  } catch (const std::exception& error) {
    meeting.fail(error.what());
    throw;
  }
}

}  // namespace

void check_shared_folder(const std::string& folder, const World& world, std::chrono::milliseconds timeout) {
  if (folder.empty() || world.size() < 2) return;
  RankMeeting meeting(world, "looking for save.folder", timeout);
  const std::string blind = first_blind_rank(folder, world, meeting);
  if (blind.empty()) return;
  throw InputError(
      fmt::format("save.folder {} is not the same folder on all ranks: rank {} on {} does not see the files of rank 0 "
                  "on {}; name a folder that all hosts share, by its whole path, or a bucket",
                  printable(folder), blind, world.host(std::stoi(blind)), world.host(0)));
}

}  // namespace weft
