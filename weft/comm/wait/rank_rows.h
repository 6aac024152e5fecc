// RankRows: the ranks' rows (comm/wait/rank_table.h) in memory shared by all ranks of a host.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "weft/base/file_descriptor.h"
#include "weft/comm/host/shared_memory.h"
#include "weft/comm/wait/waits.h"

namespace weft {

/// Stored form of a row.
struct RankEntry {
  bool waiting = false;
  bool failed = false;
  int64_t begun = 0;      ///< the last meeting this rank has begun
  int64_t failed_in = 0;  ///< the meeting it failed in
  int pid = 0;
  RankRow row = {};

  std::string to_text() const;
  static RankEntry from_text(const std::string& text);  ///< reads as much as it can of a truncated text
};

class RankRows {
 public:
  /// Returns the bytes for the rows of `ranks` ranks in a world of `world`.
  static size_t bytes(size_t ranks, size_t world);

  /// `ranks` are this host's ranks, `file` the memory that all of them map.
  RankRows(FileDescriptor file, const std::vector<int>& ranks, size_t world);

  /// Writes a rank's row, from one thread at a time; others may read concurrently.
  void write(int rank, const std::string& text);
  /// Tells all ranks of this host that one has failed.
  void raise_alarm();
  uint32_t alarms() const;  ///< how often
  /// Reads a rank's row. If the writer was stopped while writing, the text mixes old and new; callers use what is readable.
  std::string read(int rank) const;

 private:
  // Header of a text. `version` is twice the number of writes; odd during a write.
  struct Head {
    std::atomic<uint32_t> version;
    std::atomic<uint32_t> bytes;
  };
  using Word = std::atomic<uint64_t>;
  static_assert(Word::is_always_lock_free && sizeof(Head) == sizeof(Word));

  std::atomic<uint32_t>& alarm() const;
  Head& head(int rank) const;
  static Word* words(Head& head) { return reinterpret_cast<Word*>(&head + 1); }
  size_t most_bytes() const { return stride_ - sizeof(Head); }

  FileDescriptor file_;  // kept open by the first rank for others to open
  std::vector<int> ranks_;
  size_t stride_;
  shm::Mapping memory_;
};

}  // namespace weft
