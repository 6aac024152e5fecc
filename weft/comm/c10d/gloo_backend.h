// The Gloo backend: a thread of the group's own runs the calls one after another, so that they go on beside the caller's
// work; Work::wait waits for it.
//
// A rank that is done with the group ends it once its peers have come to the calls that it has queued, or after the timeout.
//
// Every call first exchanges a CallRecord, so that calls that do not match fail before data moves, with both sides named. That
// costs one more small message a call. While it waits the thread looks for ranks of its host that have ended or failed.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "weft/comm/c10d/gloo_engine.h"
#include "weft/comm/call/backend.h"
#include "weft/comm/call/call_record.h"
#include "weft/comm/wait/rank_table.h"

namespace weft {

class Operations;
class PeerWatch;

class GlooBackend : public Backend {
 public:
  explicit GlooBackend(const GroupPlan& plan);
  using MakeOperations = std::function<std::unique_ptr<Operations>(const c10::intrusive_ptr<GlooEngine>& engine)>;
  /// Makes the calls of other operations on the engine. Where these do not interrupt their waits (finish()), the engine is
  /// closed when a rank has gone, and when a call fails.
  GlooBackend(const GroupPlan& plan, const MakeOperations& make, bool interrupts = false);
  ~GlooBackend() override;

  std::string_view kind() const override { return "gloo"; }
  Work all_reduce(const at::Tensor& tensor, ReduceOp op, std::string_view what) override;
  Work reduce_scatter(const at::Tensor& output, const at::Tensor& input, ReduceOp op, std::string_view what) override;
  Work all_gather(const at::Tensor& output, const at::Tensor& input, std::string_view what) override;
  Work broadcast(const at::Tensor& tensor, int root, std::string_view what) override;
  Work all_to_all(const at::Tensor& output, const at::Tensor& input, std::string_view what) override;
  Work send(const at::Tensor& tensor, int peer, std::string_view what) override;
  Work receive(const at::Tensor& tensor, int peer, std::string_view what) override;
  Work barrier(std::string_view what) override;
  at::Tensor allocate(int64_t numel, at::ScalarType dtype, std::string_view what) override;

  /// Compares the ranks' calls, no more; for a backend that moves the data itself.
  Work compare(const Call& call);
  void throw_if_failed();
  /// Sets what is called once, from the group's thread, when the group fails.
  void on_failure(std::function<void()> action);

 private:
  /// An error as a value: threads share none of their exceptions.
  struct Failure {
    int culprit = -1;  ///< the rank that it names, or -1
    std::string text;
  };
  class Task;
  class Sending;
  class Receiving;

  Work submit(const Call& call, std::function<void()> run);
  void run_tasks();
  void run(Task& task);
  /// The row of a wait: in a collective for all, in a message for its peer.
  RankRow wait_row(const Call& call, uint64_t number) const;
  /// Waits for c10d: `ended(slice)` says whether it ended within a slice of time, and throws its error if it failed.
  void finish(const std::function<bool(std::chrono::milliseconds)>& ended);
  /// Ends the group with the cause of a failure in the engine of what began at `begin`.
  [[noreturn]] void fail(const RankRow& wait, std::chrono::steady_clock::time_point begin, const std::string& problem);
  bool is_closed();  ///< by the destructor
  void set_failure(const Failure& failure);
  /// Runs a part of a message on the caller's thread; an error ends the group.
  void or_fail(const Call& call, const std::function<void()>& action);
  Call describe_call(Operation operation, const at::Tensor& tensor, std::string_view what, ReduceOp op = ReduceOp::sum,
                     int root = -1) const;

  std::chrono::milliseconds timeout_;
  at::Device device_;
  std::shared_ptr<RankTable> table_;
  bool one_host_;
  uint64_t group_id_;  ///< of the group in the table
  c10::intrusive_ptr<GlooEngine> engine_;
  std::unique_ptr<Operations> operations_;
  std::unique_ptr<PeerWatch> watch_;  ///< where the operations do not look for ranks that have gone
  uint64_t calls_ = 0;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Task>> tasks_;
  bool stopping_ = false;
  bool closed_ = false;  ///< with calls that had not ended
  std::function<void()> on_failure_;
  std::optional<Failure> failure_;  ///< that ended the group
  std::thread thread_;
};

}  // namespace weft
