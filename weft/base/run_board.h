// RunBoard: what the ranks of a host leave with their launcher for those that come after them: how far they came, and copies of
// their state. It lies in anonymous files of the launcher's (memfd), which the ranks inherit: it outlives every rank, and
// nothing is left of it once the launcher has ended, in whatever way.
//
// Each rank has two copies, so that one is whole while the other is written. A copy counts once its step is set, as the last
// thing. Memory: what ranks write there, which stays taken for the next copy.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "weft/base/file_descriptor.h"

namespace weft {

inline constexpr int kStateCopies = 2;  ///< of a rank's state

/// The board, in the launcher or in a rank.
class RunBoard {
 public:
  /// A copy of a rank's state: some bytes of data, and behind them a text that tells what they are.
  struct Copy {
    int64_t step = -1;       ///< steps that were done; -1: the copy is not whole
    int ranks = 0;           ///< of the launch that made it
    int64_t launch = 0;      ///< which launch of the run that was
    int64_t data_bytes = 0;  ///< data
    int64_t text_bytes = 0;  ///< text
  };

  /// The launcher's, for up to `most_ranks` ranks. Throws Error where the system refuses.
  explicit RunBoard(int most_ranks);
  /// A rank's, as its launcher's environment() says; null without one, as where the descriptors that are named have been closed
  /// since, or are other files by now: a board is known by its seals, its first word, and the files that it lists.
  static std::unique_ptr<RunBoard> from_environment();
  ~RunBoard();
  RunBoard(const RunBoard&) = delete;
  RunBoard& operator=(const RunBoard&) = delete;

  /// Descriptors that ranks inherit under the same numbers.
  std::vector<int> descriptors() const;
  /// "WEFT_BOARD=..." for the ranks.
  std::string environment() const;

  int64_t steps_done() const;           ///< of the run, as rank 0 told last
  void set_steps_done(int64_t steps);   ///< by rank 0, after each step
  int64_t saved_step() const;           ///< steps of the newest checkpoint, 0: there is none; -1: nobody has told
  void set_saved_step(int64_t steps);   ///< by rank 0
  int64_t launch() const;               ///< number of the launch
  void begin_launch();                  ///< by the launcher
  int64_t failed_ns() const;            ///< CLOCK_MONOTONIC of the failure that these ranks were started after; 0: none
  void set_failed_ns(int64_t time_ns);  ///< by the launcher
  bool is_growing() const;              ///< these ranks are asked to end so that more can be started
  void set_growing(bool is);            ///< by the launcher
  bool is_stopping() const;             ///< these ranks are to save what they go on from, and to end
  void set_stopping(bool is);           ///< by the launcher
  int most_ranks() const;               ///< that have copies
  int64_t newest_copy() const;          ///< steps of rank 0's newest copy; -1: none

  /// What a rank's copy says of itself.
  Copy copy(int rank, int number) const;
  /// Makes the copy count as whole, or, for a step of -1, as none.
  void set_copy(int rank, int number, const Copy& copy);
  /// The file of a copy, to be written and read by offset.
  int file(int rank, int number) const;

 private:
  struct Page;
  RunBoard(FileDescriptor page, std::vector<FileDescriptor> files);
  bool map();
  bool is_whole() const;

  FileDescriptor page_file_;
  std::vector<FileDescriptor> files_;  ///< rank x copy
  Page* page_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace weft
