// RankTable: the current wait or the error of every rank of the world (comm/wait/waits.h), readable by all ranks.
//
// Ranks of one host write their rows to shared memory: a wait costs nothing until it has lasted some 50 ms. In a world of
// several hosts a thread copies a row to the store once the wait has lasted a second, and failures immediately. Only ranks with
// a long wait of their own read rows.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
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

/// Returns the store key of a rank's row, below the world's prefix.
std::string wait_row_key(int rank);

class RankTable {
 public:
  /// Creates the world's table, from the hosts of all ranks. Collective over the world.
  static std::shared_ptr<RankTable> join(const Store& store, int rank, const std::vector<std::string>& hosts,
                                         const Deadline& deadline);
  /// Creates the tables of ranks that are threads of this process: element r is for rank r.
  static std::vector<std::shared_ptr<RankTable>> threads(const Store& store, const std::vector<std::string>& hosts);
  ~RankTable();
  RankTable(const RankTable&) = delete;
  RankTable& operator=(const RankTable&) = delete;

  int rank() const { return rank_; }
  bool on_this_host(int rank) const { return hosts_[rank] == hosts_[rank_]; }
  /// Returns all rows. A rank whose failure is past reads as running, as do other hosts' ranks if the store is silent.
  std::vector<RankRow> read() const;
  RankRow read(int rank) const;
  /// Returns whether one of these ranks has ended or failed, as far as this host knows.
  bool any_gone(const std::vector<int>& ranks) const;

  /// Begins a meeting: creating a group, or an agreement. Meetings are numbered equally on all ranks. If a rank fails in one
  /// and begins a later one, its failure is past, and it also ignores other ranks' failures up to that number.
  void begin_meeting(int64_t number);
  /// Records this rank's error, which its peers adopt. The first one since the last meeting began is kept. An error of a wait
  /// raises an alarm, unless it is that of another rank, which has raised it if there was reason to.
  void fail(int culprit, const std::string& text, bool is_of_wait = true);

  /// Called with an alarm of this rank, in the failing thread. One at a time: a new one replaces the other's.
  void on_alarm(const void* owner, std::function<void(int culprit, const std::string& text)> call);
  /// Removes the owner's, if it is still there. Returns once no call is in progress.
  void forget_alarms_of(const void* owner);
  /// How often a rank of this host, or, a second later, another's, has recorded a failure. Only changes count.
  int64_t alarms() const;
  /// The same, for ranks of other hosts: a trip to the store. For one rank per host, now and then.
  void look_for_alarms();

  /// Diagnosis of a failed wait.
  struct Report {
    RankState state = RankState::waiting;  ///< of the culprit; waiting: a cycle
    int culprit = -1;
    std::string text;
    bool evident() const { return state != RankState::waiting && state != RankState::running; }
  };
  /// Diagnoses the failed `wait`; `waited_s` is its deadline if that has passed, else 0. Looks for evidence for up to
  /// `patience`, since it may come late: a dying rank closes its connections before it ends.
  Report report(const RankRow& wait, double waited_s, std::chrono::milliseconds patience = std::chrono::milliseconds(0)) const;

  /// Shows a wait in this rank's row during its lifetime. If several exist at once, on different threads, the oldest is shown.
  class Waiting {
   public:
    Waiting(std::shared_ptr<RankTable> table, const RankRow& row);
    ~Waiting();
    Waiting(const Waiting&) = delete;
    Waiting& operator=(const Waiting&) = delete;
    void now_awaits(const std::vector<int>& ranks);

   private:
    std::shared_ptr<RankTable> table_;
    std::list<RankRow>::iterator row_;  // in the table's waits
  };

 private:
  class Publisher;  // the publishing thread
  struct Asking;    // a query of the store for other hosts' rows

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
  mutable std::mutex mutex_;  // guards the members below and writes of this rank's row
  std::unique_ptr<RankEntry> own_;
  std::list<RankRow> waits_;  ///< current waits, oldest first
  int64_t past_ = -1;         ///< failures in meetings up to this one are past
  std::unique_ptr<Publisher> publisher_;
  std::recursive_mutex hook_mutex_;  ///< held during a call of on_alarm_
  const void* alarm_owner_ = nullptr;
  std::function<void(int culprit, const std::string& text)> on_alarm_;
  bool has_seen_alarm_ = false;  ///< of another host
};

}  // namespace weft
