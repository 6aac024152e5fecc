#include "weft/comm/c10d/gloo_backend.h"

#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <cstring>

#include "weft/base/error.h"
#include "weft/comm/c10d/gloo_engine.h"
#include "weft/comm/c10d/operations.h"

namespace weft {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kLookEvery{200};

}  // namespace

class GlooBackend::Task : public Work::State {
 public:
  Task(const Call& call, std::function<void()> run) : call_(call), what_(call.what), run_(std::move(run)) {
    call_.what = what_;
  }

  const Call& call() const { return call_; }
  void run() { run_(); }
  void finish(std::exception_ptr error) {
    run_ = nullptr;  // lets the tensors go
    const std::lock_guard lock(mutex_);
    error_ = std::move(error);
    done_ = true;
    changed_.notify_all();
  }
  void wait() override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return done_; });
    if (error_) std::rethrow_exception(error_);
  }

 private:
  Call call_;
  std::string what_;
  std::function<void()> run_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  std::exception_ptr error_;
};

GlooBackend::GlooBackend(const GroupPlan& plan)
    : Group::Backend(plan.axis.name, plan.axis.index, plan.axis.size()),
      timeout_(plan.options.timeout),
      watch_(plan),
      own_record_(at::zeros({static_cast<int64_t>(sizeof(CallRecord))}, at::kByte)),
      all_records_(at::zeros({static_cast<int64_t>(sizeof(CallRecord)) * size()}, at::kByte)) {
  auto engine = GlooEngine::connect(plan);
  engine_ = engine.get();
  const auto finish_pending = [this](const Operations::Pending& pending, Operations::Step) {
    finish([&](std::chrono::milliseconds slice) {
      try {
        pending->wait(slice);
      } catch (const std::exception&) {
        if (pending->isCompleted()) throw;
        return false;
      }
      return true;
    });
  };
  operations_ = std::make_unique<Operations>(std::move(engine), rank(), size(), plan.options.tree_order, finish_pending);
  thread_ = std::thread([this] { run_tasks(); });
}

GlooBackend::~GlooBackend() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    // Work that nobody waited for.
    if (!tasks_.empty()) engine_->close();
    changed_.notify_all();
  }
  thread_.join();
}

Work GlooBackend::submit(const Call& call, std::function<void()> run) {
  throw_if_failed();
  auto task = std::make_shared<Task>(call, std::move(run));
  const std::lock_guard lock(mutex_);
  tasks_.push_back(task);
  changed_.notify_all();
  return Work(task);
}

void GlooBackend::throw_if_failed() {
  const std::lock_guard lock(mutex_);
  if (!failure_.empty()) throw CommError(failure_);
}

void GlooBackend::run_tasks() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stopping_ || !tasks_.empty(); });
    if (tasks_.empty()) return;
    const std::shared_ptr<Task> task = tasks_.front();
    lock.unlock();
    run(*task);
    lock.lock();
    tasks_.pop_front();
  }
}

void GlooBackend::run(Task& task) {
  std::exception_ptr error;
  try {
    throw_if_failed();
    try {
      exchange(task.call());
      task.run();
    } catch (const CommError&) {
      throw;
    } catch (const std::exception& thrown) {
      fail(describe(task.call()), first_line_of(thrown.what()));
    }
  } catch (...) {
    error = std::current_exception();
  }
  task.finish(error);
}

void GlooBackend::exchange(const Call& call) {
  CallRecord own;
  write_record(own, call, ++calls_);
  std::memcpy(own_record_.data_ptr(), &own, sizeof(own));
  operations_->gather_bytes(all_records_, own_record_);
  std::vector<CallRecord> records(size());
  std::memcpy(records.data(), all_records_.const_data_ptr(), sizeof(CallRecord) * size());
  for (int rank = 1; rank < size(); ++rank) {
    if (match(records[0], records[rank])) continue;
    set_failure(describe_mismatch(name(), records[0], rank, records[rank]));
    throw_if_failed();
  }
}

void GlooBackend::finish(const std::function<bool(std::chrono::milliseconds)>& ended) {
  const auto deadline = Clock::now() + timeout_;
  while (!ended(kLookEvery)) {
    if (watch_.ended_rank() >= 0) throw std::runtime_error("its process has ended");
    if (watch_.failure_elsewhere()) throw std::runtime_error("another rank has failed");
    if (Clock::now() >= deadline) throw std::runtime_error(fmt::format("no end after {:.1f} s", timeout_.count() / 1000.0));
  }
}

void GlooBackend::fail(const std::string& doing, const std::string& problem) {
  engine_->close();
  const std::string culprit = watch_.roll_call();
  set_failure(fmt::format("rank {} of group \"{}\" in {}: {}{}", rank(), name(), doing, culprit.empty() ? "" : culprit + "; ",
                          problem));
  throw_if_failed();
  throw CommError(problem);
}

// The first of several wins.
void GlooBackend::set_failure(const std::string& text) {
  std::function<void()> action;
  {
    const std::lock_guard lock(mutex_);
    if (!failure_.empty()) return;
    failure_ = text;
    action = std::move(on_failure_);
  }
  if (action) action();
}

void GlooBackend::on_failure(std::function<void()> action) {
  const std::lock_guard lock(mutex_);
  on_failure_ = std::move(action);
}

}  // namespace weft
