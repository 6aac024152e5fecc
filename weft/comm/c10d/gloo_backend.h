// The Gloo back end: the group's own thread runs the calls one after another, overlapping the caller's work; Work::wait waits
// for it.
//
// The destructor returns once peers have joined the queued calls, or after the timeout.
//
// Before a call the ranks compare it by its hash, so mismatched calls fail before data moves, with both sides named. That costs
// one more small message per call, or for several calls in a row that move no data: those that a device's engine moves
// (device_channel.h). While it waits, the thread checks whether a rank of its host has ended or failed.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "weft/comm/c10d/gloo_engine.h"
#include "weft/comm/call/backend.h"
#include "weft/comm/call/call_record.h"
#include "weft/comm/store/store_errors.h"
#include "weft/comm/wait/rank_table.h"

namespace weft {

class Operations;
class PeerWatch;

class GlooBackend : public Backend {
 public:
  explicit GlooBackend(const GroupPlan& plan);
  using MakeOperations = std::function<std::unique_ptr<Operations>(const c10::intrusive_ptr<GlooEngine>& engine)>;
  /// Runs the calls through the operations that `make` creates. `interrupts`: they wait in finish(), which can be interrupted;
  /// otherwise the engine is closed when a rank has gone or a call fails.
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

  /// Only compares the ranks' calls, for a back end that moves the data itself.
  Work compare(const Call& call);
  /// The same for a message to or from position call.root; the Work may be waited for in another thread.
  Work compare_message(const Call& call);
  void throw_if_failed() final;
  /// Sets an action that is called once, from any thread, when the group fails.
  void on_failure(std::function<void()> action);
  /// Ends the group with an error that names rank `culprit`, or -1, unless it has failed before. Thread-safe.
  void fail(int culprit, const std::string& text);
  /// Returns whether all calls have ended by the deadline; at once if the group has failed.
  bool finish_calls(const Deadline& deadline);
  /// Ends calls under way without an error: this rank leaves.
  void end_calls() override;
  /// Returns the position of a rank that has closed its connection, unless this group has ended. Thread-safe.
  std::optional<int> closed_peer();

 private:
  class Task;
  enum class Caller;
  class Sending;
  class Receiving;

  using Tasks = std::vector<std::shared_ptr<Task>>;

  Work submit(const Call& call, std::function<void()> run, bool moves_data = true);
  void run_tasks();
  size_t run(const Tasks& tasks);
  /// Table row of a wait: for all ranks in a collective, for the peer in a message.
  RankRow wait_row(const Call& call, uint64_t number) const;
  /// Waits for c10d: `ended(slice)` returns whether the operation ended within `slice`, and throws if it failed.
  void finish(const std::function<bool(std::chrono::milliseconds)>& ended);
  /// Ends the group with the cause of an engine failure in a call that began at `begin`.
  [[noreturn]] void fail_in(const RankRow& wait, std::chrono::steady_clock::time_point begin, const std::string& problem);
  bool is_closed();  ///< returns whether this rank has given up calls under way
  void close_under_lock();
  void set_failure(const GroupFailure& failure);
  /// Runs a part of a message on the caller's thread; an error ends the group.
  void or_fail(const Call& call, const std::function<void()>& action);
  Call describe_call(Operation operation, const at::Tensor& tensor, std::string_view what, ReduceOp op = ReduceOp::sum,
                     int root = -1) const;

  std::chrono::milliseconds timeout_;
  at::Device device_;
  std::shared_ptr<RankTable> table_;
  bool one_host_;
  uint64_t group_id_;  ///< the group's id in the table
  c10::intrusive_ptr<GlooEngine> engine_;
  std::unique_ptr<Operations> operations_;
  std::unique_ptr<PeerWatch> watch_;  ///< null if the operations check for gone ranks themselves
  uint64_t calls_ = 0;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Task>> tasks_;
  bool stopping_ = false;
  bool closed_ = false;  ///< this rank gave up unfinished calls
  std::function<void()> on_failure_;
  std::optional<GroupFailure> failure_;  ///< the failure that ended the group
  std::thread thread_;
};

}  // namespace weft
