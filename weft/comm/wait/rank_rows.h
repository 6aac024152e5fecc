// RankRows: what ranks write down about themselves (comm/wait/rank_table.h), in memory that all ranks of a host share.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "weft/base/file_descriptor.h"
#include "weft/comm/host/shared_memory.h"
#include "weft/comm/wait/waits.h"

namespace weft {

/// A row as it is written.
struct RankEntry {
  bool waiting = false;
  bool failed = false;
  int64_t begun = 0;      ///< the last meeting that this rank has begun
  int64_t failed_in = 0;  ///< the meeting it failed in
  int pid = 0;
  RankRow row = {};

  std::string to_text() const;
  static RankEntry from_text(const std::string& text);  ///< cut off or empty: as far as it goes
};

class RankRows {
 public:
  /// Bytes that the rows of `ranks` ranks of a world of `world` take.
  static size_t bytes(size_t ranks, size_t world);

  /// `ranks` are those of this host, `file` the memory that all of them map.
  RankRows(FileDescriptor file, const std::vector<int>& ranks, size_t world);

  /// Writes a rank's row: by one thread at a time; others may read meanwhile.
  void write(int rank, const std::string& text);
  /// Reads a rank's row. One that was stopped while it wrote leaves a text of old and new; what can be read of it has to do.
  std::string read(int rank) const;

 private:
  // A text and the number of times that it was written, times two; odd while it is.
  struct Head {
    std::atomic<uint32_t> version;
    std::atomic<uint32_t> bytes;
  };
  using Word = std::atomic<uint64_t>;
  static_assert(Word::is_always_lock_free && sizeof(Head) == sizeof(Word));

  Head& head(int rank) const;
  static Word* words(Head& head) { return reinterpret_cast<Word*>(&head + 1); }
  size_t most_bytes() const { return stride_ - sizeof(Head); }

  FileDescriptor file_;  // kept by the first rank, for others to open
  std::vector<int> ranks_;
  size_t stride_;
  shm::Mapping memory_;
};

}  // namespace weft
