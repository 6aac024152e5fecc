#include "weft/comm/c10d/gloo_backend.h"

#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <exception>
#include <optional>

#include "weft/base/hash.h"
#include "weft/base/without_signal.h"
#include "weft/comm/c10d/compared_operations.h"
#include "weft/comm/c10d/operations.h"
#include "weft/comm/c10d/peer_watch.h"
#include "weft/comm/host/host_name.h"
#include "weft/comm/store/store_errors.h"
#include "weft/comm/threads/parallel_for.h"
#include "weft/comm/wait/await.h"

namespace weft {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kLookEvery{200};
constexpr std::chrono::milliseconds kToFinish{300};
constexpr std::chrono::milliseconds kShowInTableAfter{50};
/// A dying rank closes its connections before its process ends.
constexpr std::chrono::milliseconds kEvidence{1000};

// While connecting, Gloo cannot learn that a rank will not come, so ranks first meet in the store.
void meet(const GroupPlan& plan) { await_all(plan.store, "here", plan.deadline, wait_in(kJoin, plan.axis, {})); }

std::vector<int> others_on(const Axis& axis) {
  std::vector<int> positions;
  for (int position = 0; position < axis.size(); ++position) {
    if (position != axis.index) positions.push_back(position);
  }
  return positions;
}

c10::intrusive_ptr<GlooEngine> connect(const GroupPlan& plan) {
  const RankRow wait = wait_in(kJoin, plan.axis, others_on(plan.axis));
  const RankTable::Waiting shown(plan.store.table(), wait);
  try {
    return GlooEngine::connect(plan);
  } catch (const CommError& error) {
    RankTable::Report report = plan.store.table()->report(wait, 0.0, kEvidence);
    if (!report.evident()) report = {.culprit = -1, .text = error.what()};
    plan.store.table()->fail(report.culprit, report.text);
    throw_failure(report.culprit, report.text);
  }
}

}  // namespace

class GlooBackend::Task : public Work::State {
 public:
  Task(const GlooBackend& backend, const Call& call, uint64_t number, std::function<void()> run, bool moves_data)
      : backend_(backend), call_(call), what_(call.what), number_(number), run_(std::move(run)), moves_data_(moves_data) {
    call_.what = what_;
  }

  const Call& call() const { return call_; }
  uint64_t number() const { return number_; }
  bool moves_data() const { return moves_data_; }
  CallRecord record() const {
    CallRecord record;
    write_record(record, call_, number_);
    return record;
  }
  void run() { run_(); }
  void finish(std::optional<GroupFailure> failure) {
    run_ = nullptr;  // releases the tensors
    const std::lock_guard lock(mutex_);
    failure_ = std::move(failure);
    done_ = true;
    changed_.notify_all();
  }
  void wait() override {
    std::unique_lock lock(mutex_);
    const auto done = [this] { return done_; };
    if (!changed_.wait_for(lock, kShowInTableAfter, done)) {
      const RankTable::Waiting shown(backend_.table_, backend_.wait_row(call_, number_));
      changed_.wait(lock, done);
    }
    if (failure_) throw_failure(failure_->culprit, failure_->text);
  }

 private:
  const GlooBackend& backend_;
  Call call_;
  std::string what_;
  uint64_t number_;
  std::function<void()> run_;
  bool moves_data_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  std::optional<GroupFailure> failure_;
};

GlooBackend::GlooBackend(const GroupPlan& plan)
    : GlooBackend(
          plan,
          [this, &plan](const c10::intrusive_ptr<GlooEngine>& engine) {
            const auto finish_pending = [this](const FlatOperations::Pending& pending, FlatOperations::Step) {
              finish([&](std::chrono::milliseconds slice) { return ends_within(*pending, slice); });
            };
            return std::make_unique<ComparedOperations>(engine, plan.axis, plan.options.tree_order, finish_pending);
          },
          true) {}

GlooBackend::GlooBackend(const GroupPlan& plan, const MakeOperations& make, bool interrupts)
    : Backend(plan.axis),
      timeout_(plan.options.timeout),
      device_(plan.options.device),
      table_(plan.store.table()),
      one_host_(on_one_host(plan.hosts)),
      group_id_(fnv1a(plan.store.prefix())) {
  meet(plan);
  // Gloo may write to a connection that a peer has closed, and SIGPIPE would end the process. Gloo's writing threads start
  // below and inherit this thread's signal mask.
  const WithoutSignal guard(SIGPIPE);
  engine_ = connect(plan);
  operations_ = make(engine_);
  if (!interrupts) watch_ = std::make_unique<PeerWatch>(table_, plan.axis.ranks, [this] { engine_->close(); });
  thread_ = std::thread([this] { run_tasks(); });
}

/// Finishes calls that nobody waited for, since peers still take part in them, unless this rank leaves after an error.
GlooBackend::~GlooBackend() {
  const Deadline deadline = timeout_;
  if (std::uncaught_exceptions() == 0) finish_calls(deadline);
  {
    const std::lock_guard lock(mutex_);
    if (!tasks_.empty()) close_under_lock();
    stopping_ = true;
    changed_.notify_all();
  }
  thread_.join();
  if (!failure_ && !closed_) engine_->wait_until_sent(deadline);
}

bool GlooBackend::finish_calls(const Deadline& deadline) {
  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, deadline.end(), [this] { return failure_ || tasks_.empty(); });
  return !failure_ && tasks_.empty();
}

void GlooBackend::end_calls() {
  const std::lock_guard lock(mutex_);
  close_under_lock();
}

void GlooBackend::close_under_lock() {
  if (closed_) return;
  closed_ = true;
  engine_->close();
}

Work GlooBackend::submit(const Call& call, std::function<void()> run, bool moves_data) {
  throw_if_failed();
  const std::lock_guard lock(mutex_);
  auto task = std::make_shared<Task>(*this, call, ++calls_, std::move(run), moves_data);
  tasks_.push_back(task);
  changed_.notify_all();
  return Work(task);
}

void GlooBackend::throw_if_failed() {
  const std::lock_guard lock(mutex_);
  if (failure_) throw_failure(failure_->culprit, failure_->text);
}

void GlooBackend::run_tasks() {
  use_single_thread();  // for conversions and sums
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stopping_ || !tasks_.empty(); });
    if (tasks_.empty()) return;
    Tasks next = {tasks_.front()};
    for (size_t i = 1; i < std::min(tasks_.size(), kMostCompared) && !next.front()->moves_data() && !tasks_[i]->moves_data();)
      next.push_back(tasks_[i++]);
    lock.unlock();
    const size_t ended = run(next);
    lock.lock();
    tasks_.erase(tasks_.begin(), tasks_.begin() + static_cast<std::ptrdiff_t>(ended));
    if (tasks_.empty()) changed_.notify_all();
  }
}

/// Runs the first of these tasks, and with it more of those that move no data. Returns how many.
size_t GlooBackend::run(const Tasks& tasks) {
  const auto begin = Clock::now();
  Task& task = *tasks.front();
  size_t begun = 0;
  std::optional<GroupFailure> failure;
  try {
    GlooBackend::throw_if_failed();  // not virtual: a derived class may be ending
    try {
      const PeerWatch::Looking looking(watch_.get());
      if (!task.moves_data()) {
        std::vector<CallRecord> records;
        for (const std::shared_ptr<Task>& one : tasks) records.push_back(one->record());
        begun = operations_->begin_some(records);
      }
      if (begun == 0) operations_->begin(task.call(), task.number());
      task.run();
    } catch (const CommError& error) {
      set_failure({lost_rank_of(error), error.what()});
      if (watch_) engine_->close();  // ranks that wait for this one notice nothing else
      throw;
    } catch (const std::exception& thrown) {
      fail_in(wait_row(task.call(), task.number()), begin, first_line_of(thrown.what()));
    }
  } catch (const std::exception& error) {
    failure = {lost_rank_of(error), error.what()};
  }
  const size_t ended = std::max<size_t>(begun, 1);
  for (size_t i = 0; i < ended; ++i) tasks[i]->finish(failure);
  return ended;
}

RankRow GlooBackend::wait_row(const Call& call, uint64_t number) const {
  const bool message = call.operation == Operation::send || call.operation == Operation::receive;
  RankRow row = wait_in(call, axis(), message ? std::vector<int>{call.root} : others_on(axis()));
  row.group = group_id_;
  row.call = message ? 0 : number;
  return row;
}

void GlooBackend::finish(const std::function<bool(std::chrono::milliseconds)>& ended) {
  const Deadline deadline = timeout_;
  while (!ended(kLookEvery)) {
    // A rank that has ended may have finished this call first.
    if (table_->any_gone(axis().ranks) && !ended(kToFinish)) throw std::runtime_error("a rank has ended or failed");
    if (is_closed()) throw std::runtime_error("this rank is leaving");
    if (deadline.passed()) throw std::runtime_error(fmt::format("not finished after {:.1f} s", timeout_.count() / 1000.0));
  }
}

void GlooBackend::fail_in(const RankRow& wait, Clock::time_point begin, const std::string& problem) {
  const bool late = Clock::now() - begin >= timeout_;
  if (is_closed()) throw CommError(problem);  // the destructor closed the connections; nobody waits
  // The first to close is the cause: later, peers that fail because of it close theirs. The table does not show ranks of this
  // process, or of a program that goes on after an error, as gone.
  const std::optional<int> closed = late ? std::nullopt : closed_peer();
  const double waited_s = late ? static_cast<double>(timeout_.count()) / 1e3 : 0.0;
  const RankTable::Report report = table_->report(wait, waited_s, late ? std::chrono::milliseconds(0) : kEvidence);
  if (report.evident() || late) {
    set_failure({report.culprit, report.text});
  } else if (closed) {
    set_failure(closed_connection(axis(), *closed, fmt::format("{}; {}", wait.doing, problem)));
  } else if (one_host_) {
    set_failure({report.culprit, fmt::format("{}; {}", report.text, problem)});
  } else {  // other hosts' state arrives late, and a broken connection names its peer
    set_failure({.text = fmt::format("{} in {}: {}", rank_name(axis(), rank()), wait.doing, problem)});
  }
  engine_->close();
  GlooBackend::throw_if_failed();
  throw CommError(problem);
}

bool GlooBackend::is_closed() {
  const std::lock_guard lock(mutex_);
  return closed_;
}

// The first failure wins. Peers must find it in the table before they find a closed connection.
void GlooBackend::set_failure(const GroupFailure& failure) {
  std::function<void()> action;
  {
    const std::lock_guard lock(mutex_);
    if (failure_) return;
    failure_ = failure;
    action = std::move(on_failure_);
    changed_.notify_all();
  }
  table_->fail(failure.culprit, failure.text);
  if (action) action();
}

void GlooBackend::fail(int culprit, const std::string& text) {
  if (is_closed()) return;  // what this rank has closed itself shows nothing of its peers
  set_failure({culprit, text});
  engine_->close();
}

std::optional<int> GlooBackend::closed_peer() {
  {
    const std::lock_guard lock(mutex_);
    if (failure_ || closed_) return std::nullopt;  // then this rank has closed them
  }
  return engine_->closed_peer();
}

void GlooBackend::on_failure(std::function<void()> action) {
  {
    const std::lock_guard lock(mutex_);
    if (!failure_) {
      on_failure_ = std::move(action);
      return;
    }
  }
  action();  // it has failed before
}

}  // namespace weft
