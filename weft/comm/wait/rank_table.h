// RankTable: for every rank of the world, what it waits for, or the error it failed with (comm/wait/waits.h), for all to read.
//
// Ranks of one host write their rows to shared memory: a wait costs nothing until it has lasted some 50 ms. In a world of
// several hosts a thread copies a row to the store once the wait has lasted a second, and its failure at once. Rows are read
// only by ranks whose own wait goes on for long.
#pragma once

#include <chrono>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "weft/base/deadline.h"
#include "weft/comm/wait/waits.h"

namespace weft {

class RankRows;
class Store;
struct RankEntry;

/// Where a rank's row is in the store, below the world's keys.
std::string wait_row_key(int rank);

class RankTable {
 public:
  /// Makes the world's table, with the hosts of all ranks. Collective over the world.
  static std::shared_ptr<RankTable> join(const Store& store, int rank, const std::vector<std::string>& hosts,
                                         const Deadline& deadline);
  /// Makes the tables of ranks that are threads of this process: element r is for rank r.
  static std::vector<std::shared_ptr<RankTable>> threads(const Store& store, const std::vector<std::string>& hosts);
  ~RankTable();
  RankTable(const RankTable&) = delete;
  RankTable& operator=(const RankTable&) = delete;

  int rank() const { return rank_; }
  bool on_this_host(int rank) const { return hosts_[rank] == hosts_[rank_]; }
  /// All rows; failures that are past read as running ranks, and so do ranks of other hosts where the store does not answer.
  std::vector<RankRow> read() const;
  RankRow read(int rank) const;
  /// Whether one of these ranks has ended or failed, as far as this host knows.
  bool any_gone(const std::vector<int>& ranks) const;

  /// Begins a meeting: groups and agreements are numbered, the same on all ranks. A rank that fails in one and goes on with a
  /// later one leaves that failure behind: its own ends with it, and so do those of others up to that number.
  void begin_meeting(int64_t number);
  /// Writes this rank's error, which its peers take for theirs. The first since the last meeting began stays.
  void fail(int culprit, const std::string& text);

  /// What came of a wait in vain.
  struct Report {
    RankState state = RankState::waiting;  ///< of the culprit; waiting: a circle
    int culprit = -1;
    std::string text;
    bool evident() const { return state != RankState::waiting && state != RankState::running; }
  };
  /// Tells why `wait` was in vain, of `waited_s` where that was its deadline. Looks for evidence for up to `patience`: a rank
  /// that is about to die, say, closes its connections first.
  Report report(const RankRow& wait, double waited_s, std::chrono::milliseconds patience = std::chrono::milliseconds(0)) const;

  /// This rank's row tells of a wait while this lives. Of several at a time, on different threads, the oldest counts.
  class Waiting {
   public:
    Waiting(std::shared_ptr<RankTable> table, const RankRow& row);
    ~Waiting();
    Waiting(const Waiting&) = delete;
    Waiting& operator=(const Waiting&) = delete;
    void now_awaits(const std::vector<int>& ranks);

   private:
    std::shared_ptr<RankTable> table_;
    std::list<RankRow>::iterator row_;  // of the table's waits
  };

 private:
  class Publisher;  // the thread
  struct Asking;    // of the store, for rows of other hosts

  RankTable(int rank, std::vector<std::string> hosts, std::unique_ptr<RankRows> rows, const Store& store);
  RankRow read(int rank, Asking& asking) const;
  std::vector<RankRow> read(Asking& asking) const;
  std::string text_of(int rank, Asking& asking) const;
  void show_wait();
  void write();

  int rank_;
  std::vector<std::string> hosts_;
  std::unique_ptr<RankRows> rows_;
  std::unique_ptr<Store> store_;
  mutable std::mutex mutex_;  // of the members below and of writing this rank's row
  std::unique_ptr<RankEntry> own_;
  std::list<RankRow> waits_;  ///< under way, oldest first
  int64_t past_ = -1;         ///< failures in meetings up to this one are past
  std::unique_ptr<Publisher> publisher_;
};

}  // namespace weft
