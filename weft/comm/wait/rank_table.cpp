#include "weft/comm/wait/rank_table.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <optional>
#include <thread>

#include "weft/base/error.h"
#include "weft/base/process.h"
#include "weft/comm/host/host_name.h"
#include "weft/comm/host/shared_memory.h"
#include "weft/comm/store/store.h"
#include "weft/comm/store/store_errors.h"
#include "weft/comm/wait/rank_rows.h"

namespace weft {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kPublishAfter{1000};  ///< age of a wait before other hosts see it
constexpr milliseconds kPublishEvery{250};
constexpr milliseconds kPatience{1000};  ///< limit for the store's answer
constexpr milliseconds kLookOften{20};   ///< first interval of checks for evidence; it grows
constexpr milliseconds kLookSeldom{200};

constexpr const char* kAlarmKey = "waits/alarm";

std::string memory_key(int rank) { return fmt::format("waits/memory/{}", rank); }

}  // namespace

std::string wait_row_key(int rank) { return fmt::format("waits/{}", rank); }

// A store that has failed to answer is not asked again.
struct RankTable::Asking {
  Deadline deadline = kPatience;
  bool in_vain = false;
};

// Copies this rank's row to the store, for other hosts.
class RankTable::Publisher {
 public:
  explicit Publisher(RankTable& table) : table_(table), thread_([this] { run(); }) {}
  ~Publisher() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  /// Publishes immediately: a failing rank may end before the thread's next look.
  void publish() {
    const std::lock_guard lock(mutex_);
    look();
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    while (!changed_.wait_for(lock, kPublishEvery, [this] { return stopping_; })) look();
  }

  void look() {
    const std::string text = table_.rows_->read(table_.rank_);
    if (text != seen_) since_ = Clock::now();
    seen_ = text;
    const RankEntry entry = RankEntry::from_text(text);
    const bool due_now = entry.failed || (entry.waiting && Clock::now() - since_ >= kPublishAfter);
    if (!due_now && published_.empty()) return;
    const std::string& due = due_now ? text : none_;
    if (due == published_) return;
    try {
      table_.store_->set(wait_row_key(table_.rank_), due, kPatience);
      published_ = due;
    } catch (const CommError&) {
      // The store has gone: readers of rows notice that themselves.
    }
  }

  RankTable& table_;
  std::string seen_, published_;
  const std::string none_;
  Clock::time_point since_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  std::thread thread_;
};

RankTable::RankTable(int rank, std::vector<std::string> hosts, std::unique_ptr<RankRows> rows, const Store& store)
    : rank_(rank),
      hosts_(std::move(hosts)),
      rows_(std::move(rows)),
      store_(std::make_unique<Store>(store)),
      own_(std::make_unique<RankEntry>()) {
  own_->pid = ::getpid();
  write();
  if (!on_one_host(hosts_)) publisher_ = std::make_unique<Publisher>(*this);
}

RankTable::~RankTable() = default;

std::shared_ptr<RankTable> RankTable::join(const Store& store, int rank, const std::vector<std::string>& hosts,
                                           const Deadline& deadline) {
  std::vector<int> ranks;
  for (int other = 0; other < static_cast<int>(hosts.size()); ++other) {
    if (hosts[other] == hosts[rank]) ranks.push_back(other);
  }
  Store own = store;
  FileDescriptor file;
  if (ranks.front() == rank) {
    file = shm::create_memory("waits", RankRows::bytes(ranks.size(), hosts.size()));
    own.set(memory_key(rank), shm::memory_address(file));
  } else {
    const std::string address =
        own.get(memory_key(ranks.front()), deadline, fmt::format("rank {} waits for rank {} to start", rank, ranks.front()));
    try {
      file = shm::open_peer_memory(address);
    } catch (const CommError& error) {  // the first rank's own error, if any, takes precedence
      throw LostRank(ranks.front(), fmt::format("rank {}: rank {} on its host {} cannot join it: {}", ranks.front(), rank,
                                                hosts[rank], error.what()));
    }
  }
  auto rows = std::make_unique<RankRows>(std::move(file), ranks, hosts.size());
  return std::shared_ptr<RankTable>(new RankTable(rank, hosts, std::move(rows), store));
}

std::vector<std::shared_ptr<RankTable>> RankTable::threads(const Store& store, const std::vector<std::string>& hosts) {
  std::vector<int> ranks(hosts.size());
  for (size_t rank = 0; rank < ranks.size(); ++rank) ranks[rank] = static_cast<int>(rank);
  const FileDescriptor file = shm::create_memory("waits", RankRows::bytes(ranks.size(), hosts.size()));
  std::vector<std::shared_ptr<RankTable>> tables;
  for (const int rank : ranks) {
    auto rows = std::make_unique<RankRows>(FileDescriptor(::fcntl(file.get(), F_DUPFD_CLOEXEC, 0)), ranks, hosts.size());
    tables.push_back(std::shared_ptr<RankTable>(new RankTable(rank, hosts, std::move(rows), store)));
  }
  return tables;
}

// The caller of show_wait() or write() holds the mutex or is the constructor.
void RankTable::show_wait() {
  RankRow row = waits_.empty() ? RankRow{} : waits_.front();
  row.culprit = own_->row.culprit;
  row.failure = std::move(own_->row.failure);
  own_->waiting = !waits_.empty();
  own_->row = std::move(row);
  write();
}

void RankTable::write() { rows_->write(rank_, own_->to_text()); }

void RankTable::begin_meeting(int64_t number) {
  const std::lock_guard lock(mutex_);
  own_->begun = number;
  write();
}

void RankTable::fail(int culprit, const std::string& text, bool is_of_wait) {
  const bool is_adopted = culprit >= 0 && culprit != rank_ && read(culprit).state == RankState::failed;
  {
    const std::lock_guard lock(mutex_);
    if (own_->failed && own_->failed_in == own_->begun) return;
    own_->failed = true;
    own_->failed_in = past_ = own_->begun;
    own_->row.culprit = culprit;
    own_->row.failure = text;
    write();
  }
  if (publisher_) publisher_->publish();
  if (!is_of_wait || is_adopted) return;
  rows_->raise_alarm();
  try {
    if (publisher_) store_->set(kAlarmKey, "", kPatience);
  } catch (const CommError&) {  // the store has gone, and with it the run
  }
  const std::lock_guard lock(hook_mutex_);
  if (on_alarm_) on_alarm_(culprit, text);
}

void RankTable::on_alarm(const void* owner, std::function<void(int culprit, const std::string& text)> call) {
  const std::lock_guard lock(hook_mutex_);
  alarm_owner_ = owner;
  on_alarm_ = std::move(call);
}

void RankTable::forget_alarms_of(const void* owner) {
  const std::lock_guard lock(hook_mutex_);
  if (alarm_owner_ == owner) on_alarm_ = {};
}

int64_t RankTable::alarms() const { return rows_->alarms(); }

void RankTable::look_for_alarms() {
  if (!publisher_ || has_seen_alarm_) return;
  try {
    if (store_->has(kAlarmKey, kPatience) != true) return;
    has_seen_alarm_ = true;
    rows_->raise_alarm();
  } catch (const CommError&) {  // this host's waits notice that the store has gone
  }
}

std::string RankTable::text_of(int rank, Asking& asking) const {
  if (on_this_host(rank)) return rows_->read(rank);
  try {
    const std::optional<bool> there = asking.in_vain ? false : store_->has(wait_row_key(rank), asking.deadline);
    asking.in_vain |= !there;
    if (there == true) return store_->get(wait_row_key(rank), asking.deadline, "reading who waits");
  } catch (const CommError&) {  // the store has gone, perhaps with the awaited rank
    asking.in_vain = true;
  }
  return {};
}

RankRow RankTable::read(int rank, Asking& asking) const {
  const std::string text = text_of(rank, asking);
  const RankEntry entry = text.empty() ? RankEntry{} : RankEntry::from_text(text);
  RankRow row = entry.row;
  // A row may have been read during a write.
  std::erase_if(row.awaits, [this](int other) { return other < 0 || other >= static_cast<int>(hosts_.size()); });
  row.process = entry.pid > 0 ? fmt::format("process {} on host {}", entry.pid, hosts_[rank]) : "host " + hosts_[rank];
  row.state = entry.waiting ? RankState::waiting : RankState::running;
  if (on_this_host(rank) && entry.pid > 0) {
    const ProcessState process = process_state(entry.pid);
    if (process == ProcessState::stopped) row.state = RankState::stopped;
    if (process == ProcessState::ended) row.state = RankState::ended;
  }
  const std::lock_guard lock(mutex_);
  const bool went_on = std::min(entry.begun, own_->begun) > entry.failed_in;
  if (entry.failed && entry.failed_in > past_ && !went_on) row.state = RankState::failed;
  return row;
}

RankRow RankTable::read(int rank) const {
  Asking asking;
  return read(rank, asking);
}

std::vector<RankRow> RankTable::read(Asking& asking) const {
  std::vector<RankRow> rows;
  rows.reserve(hosts_.size());
  for (int rank = 0; rank < static_cast<int>(hosts_.size()); ++rank) rows.push_back(read(rank, asking));
  return rows;
}

std::vector<RankRow> RankTable::read() const {
  Asking asking;
  return read(asking);
}

bool RankTable::any_gone(const std::vector<int>& ranks) const {
  return std::any_of(ranks.begin(), ranks.end(), [this](int rank) {
    if (rank == rank_ || !on_this_host(rank)) return false;
    const RankState state = read(rank).state;
    return state == RankState::ended || state == RankState::failed;
  });
}

RankTable::Report RankTable::report(const RankRow& wait, double waited_s, milliseconds patience) const {
  const auto end = Clock::now() + patience;
  Asking asking{patience + kPatience};
  for (milliseconds pause = kLookOften;; pause = std::min(pause * 2, kLookSeldom)) {
    std::vector<RankRow> rows = read(asking);
    std::string process = std::move(rows[rank_].process);
    rows[rank_] = wait;
    rows[rank_].process = std::move(process);
    rows[rank_].state = RankState::waiting;
    const Cause cause = find_cause(rows, rank_);
    const Report result{cause.state, blamed_rank(rows, cause), describe_cause(rows, cause, waited_s)};
    if (result.evident() || Clock::now() >= end) return result;
    std::this_thread::sleep_for(pause);
  }
}

RankTable::Waiting::Waiting(std::shared_ptr<RankTable> table, const RankRow& row) : table_(std::move(table)) {
  if (!table_) return;
  const std::lock_guard lock(table_->mutex_);
  row_ = table_->waits_.insert(table_->waits_.end(), row);
  if (row_ == table_->waits_.begin()) table_->show_wait();
}

RankTable::Waiting::~Waiting() {
  if (!table_) return;
  const std::lock_guard lock(table_->mutex_);
  const bool was_shown = row_ == table_->waits_.begin();
  table_->waits_.erase(row_);
  if (was_shown) table_->show_wait();
}

void RankTable::Waiting::now_awaits(const std::vector<int>& ranks) {
  if (!table_) return;
  const std::lock_guard lock(table_->mutex_);
  if (ranks == row_->awaits) return;
  row_->awaits = ranks;
  if (row_ == table_->waits_.begin()) table_->show_wait();
}

}  // namespace weft
