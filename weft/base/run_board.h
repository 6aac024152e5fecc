// RunBoard: progress and copies of state that a host's ranks leave with their launcher for the ranks of later launches. It is
// kept in anonymous files (memfd) that the launcher owns and the ranks inherit, so it outlives every rank and disappears with
// the launcher, however that ends.
//
// Each rank has two copies, so one is whole while the other is written. A copy is valid once its step, written last, is set.
// Takes as much memory as the ranks have written, and reuses it for later copies.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "weft/base/file_descriptor.h"
#include "weft/base/run_figures.h"

namespace weft {

inline constexpr int kStateCopies = 2;  ///< per rank

/// The board, in the launcher or in a rank.
class RunBoard {
 public:
  /// A copy of a rank's state: data bytes, followed by a text that describes them.
  struct Copy {
    int64_t step = -1;       ///< completed steps; -1: the copy is not whole
    int ranks = 0;           ///< ranks of the launch that made it
    int64_t launch = 0;      ///< number of that launch
    int64_t data_bytes = 0;  ///< bytes of data
    int64_t text_bytes = 0;  ///< bytes of text
  };

  /// Creates the launcher's board, for up to `most_ranks` ranks. Throws Error on a system error.
  explicit RunBoard(int most_ranks);
  /// Opens a rank's board from its launcher's environment(). Null if that is not set, or if the descriptors in it have since
  /// been closed or reused: a board is recognised by its seals, its first word, and the files that it lists.
  static std::unique_ptr<RunBoard> from_environment();
  ~RunBoard();
  RunBoard(const RunBoard&) = delete;
  RunBoard& operator=(const RunBoard&) = delete;

  /// Descriptors that ranks inherit under the same numbers.
  std::vector<int> descriptors() const;
  /// "WEFT_BOARD=..." for the ranks.
  std::string environment() const;

  int64_t steps_done() const;           ///< steps of the run, last set by rank 0
  void set_steps_done(int64_t steps);   ///< called by rank 0 after each step
  int64_t saved_step() const;           ///< steps of the newest checkpoint; 0: no checkpoint; -1: unknown
  void set_saved_step(int64_t steps);   ///< called by rank 0
  int64_t launch() const;               ///< number of the launch
  void begin_launch();                  ///< called by the launcher
  int64_t failed_ns() const;            ///< CLOCK_MONOTONIC of the failure before this launch; 0: no failure
  void set_failed_ns(int64_t time_ns);  ///< called by the launcher
  bool is_growing() const;              ///< these ranks must end so that more can start
  void set_growing(bool is);            ///< called by the launcher
  bool is_stopping() const;             ///< these ranks must save a state to resume from, and end
  void set_stopping(bool is);           ///< called by the launcher
  RunFigures figures() const;           ///< of the last step, on rank 0's host
  void set_figures(const RunFigures&);  ///< called by rank 0
  int most_ranks() const;               ///< ranks that the board has copies for
  int64_t newest_copy() const;          ///< steps of rank 0's newest copy; -1: no copy

  /// Returns the description of a rank's copy.
  Copy copy(int rank, int number) const;
  /// Marks the copy as whole or, with a step of -1, as invalid.
  void set_copy(int rank, int number, const Copy& copy);
  /// Returns a copy's file, for reads and writes by offset.
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
