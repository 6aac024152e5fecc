// PeerWatch: detects ranks that have gone while an uninterruptible call waits for them.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "weft/comm/wait/rank_table.h"

namespace weft {

/// A thread that checks ranks while a Looking exists.
class PeerWatch {
 public:
  /// `on_gone` is called once, from the thread, when one of `ranks` ends or fails while a Looking exists.
  PeerWatch(std::shared_ptr<RankTable> table, std::vector<int> ranks, std::function<void()> on_gone);
  ~PeerWatch();
  PeerWatch(const PeerWatch&) = delete;
  PeerWatch& operator=(const PeerWatch&) = delete;

  /// Enables the checks for its lifetime.
  class Looking {
   public:
    explicit Looking(PeerWatch* watch) : watch_(watch) { set(true); }
    ~Looking() { set(false); }
    Looking(const Looking&) = delete;
    Looking& operator=(const Looking&) = delete;

   private:
    void set(bool looking);
    PeerWatch* watch_;  ///< null: no watch
  };

 private:
  void look();

  std::shared_ptr<RankTable> table_;
  std::vector<int> ranks_;
  std::function<void()> on_gone_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool looking_ = false, ending_ = false;
  std::thread thread_;
};

}  // namespace weft
