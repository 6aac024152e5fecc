// EvidenceWriter: writes where this rank stands once a wait has failed on any rank of the run (comm/wait/rank_table.h), however
// this rank hangs itself: a thread of its own is told by the table of ranks, takes the stacks of all threads, and writes
// FOLDER/stopped/rank-N.json and flight_recorder/rank_N. The lowest rank that has written says in summary.txt who did not come
// to what (report/stopped/who_is_missing.h).
//
// It costs a look at a word in shared memory ten times a second; in a run on several hosts, a trip to the store each second
// from one rank of each host. The folder is one that all hosts see: of others, each has the evidence of its own ranks.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <type_traits>
#include <vector>

#include "weft/comm/store/store_errors.h"
#include "weft/comm/world.h"
#include "weft/engine/current_instruction.h"

namespace weft {

class EvidenceWriter {
 public:
  /// Writes to `folder`/stopped. Nothing is written in a world of one rank, nor for an empty folder. `keeps_old`: evidence of
  /// an earlier process there is not renamed yet.
  EvidenceWriter(const World& world, std::string folder, bool keeps_old = false);
  ~EvidenceWriter();
  EvidenceWriter(const EvidenceWriter&) = delete;
  EvidenceWriter& operator=(const EvidenceWriter&) = delete;

  /// Renames evidence of an earlier process (stopped-1, ...), on the first rank of each host.
  void put_old_away();
  /// Where the engine notes its instruction, with the names of its blocks.
  const std::shared_ptr<CurrentInstruction>& current() const;
  void set_blocks(std::vector<std::string> names);
  /// Called once, on rank 0, in the writer's thread, with the line that says who did not come to what.
  void on_summary(std::function<void(const std::string& line)> call);

  /// Says what the rank does while it lives: "step 3", "an evaluation".
  class Activity {
   public:
    Activity(EvidenceWriter* writer, std::string text);
    ~Activity();
    Activity(const Activity&) = delete;
    Activity& operator=(const Activity&) = delete;

   private:
    EvidenceWriter* writer_;
    std::string before_;
  };

  /// Returns call(). A CommError from it is thrown on once the evidence is written, or after some seconds, with where it is.
  template <class Call>
  auto explain(const Call& call) {
    try {
      return call();
    } catch (const LostRank& error) {
      const std::string where = conclude(error.rank());
      if (where.empty()) throw;
      throw LostRank(error.rank(), error.what() + where);
    } catch (const CommError& error) {
      const std::string where = conclude(-1);
      if (where.empty()) throw;
      throw CommError(error.what() + where);
    }
  }

 private:
  class Thread;
  /// Waits for the evidence; returns "; evidence in ...", the first time, with where `culprit` is.
  std::string conclude(int culprit);

  std::shared_ptr<CurrentInstruction> current_ = std::make_shared<CurrentInstruction>();
  std::shared_ptr<Thread> thread_;  ///< null: nothing is written
};

}  // namespace weft
