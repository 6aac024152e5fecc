#include "weft/comm/rank_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <new>
#include <sstream>
#include <thread>

#include "weft/base/error.h"
#include "weft/comm/process.h"
#include "weft/comm/shm/memory.h"
#include "weft/comm/store.h"

namespace weft {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kPublishAfter{1000};  ///< a wait that has lasted so long is told to other hosts
constexpr milliseconds kPublishEvery{250};
constexpr milliseconds kPatience{1000};  ///< with the store
constexpr size_t kTextBytes = 1024;      ///< of an error, and of what a rank does; longer ones are cut

std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text.substr(0, kTextBytes);
}

std::vector<int> numbers(const std::string& line) {
  std::istringstream in(line);
  std::vector<int> result;
  for (int number = 0; in >> number;) result.push_back(number);
  return result;
}

std::string memory_key(int rank) { return fmt::format("waits/memory/{}", rank); }
std::string row_key(int rank) { return fmt::format("waits/{}", rank); }

}  // namespace

struct RankTable::Entry {
  bool waiting = false;
  bool failed = false;
  int64_t begun = 0;      ///< the last meeting that this rank has begun
  int64_t failed_in = 0;  ///< the meeting it failed in
  int pid = 0;
  RankRow row;

  std::string to_text() const;
  static Entry from_text(const std::string& text);
};

std::string RankTable::Entry::to_text() const {
  return fmt::format("{:d} {:d} {} {} {} {} {} {}\n{}\n{}\n{}\n{}\n{}\n", waiting, failed, begun, failed_in, pid, row.place,
                     row.call, row.culprit, one_line(row.axis), fmt::join(row.members, " "), fmt::join(row.awaits, " "),
                     one_line(row.doing), one_line(row.failure));
}

RankTable::Entry RankTable::Entry::from_text(const std::string& text) {
  std::istringstream in(text);
  Entry entry;
  RankRow& row = entry.row;
  std::string members, awaits;
  in >> entry.waiting >> entry.failed >> entry.begun >> entry.failed_in >> entry.pid >> row.place >> row.call >> row.culprit;
  in.ignore();
  std::getline(in, row.axis);
  std::getline(in, members);
  std::getline(in, awaits);
  std::getline(in, row.doing);
  std::getline(in, row.failure);
  row.members = numbers(members);
  row.awaits = numbers(awaits);
  return entry;
}

// Shared memory of the host's ranks: for each a text and the number of times it was written, which is odd meanwhile.
struct RankTable::Rows {
  struct Head {
    std::atomic<uint32_t> version{0};
    uint32_t bytes = 0;
  };

  static size_t stride_of(size_t world) { return (sizeof(Head) + 4 * kTextBytes + 16 * world + 63) / 64 * 64; }

  Rows(FileDescriptor file, const std::vector<int>& ranks, size_t world)
      : file(std::move(file)), ranks(ranks), stride(stride_of(world)), memory(this->file, stride * ranks.size()) {}

  Head& head(int rank) const {
    const auto place = std::find(ranks.begin(), ranks.end(), rank) - ranks.begin();
    return *reinterpret_cast<Head*>(memory.data() + static_cast<size_t>(place) * stride);
  }
  char* text(Head& head) const { return reinterpret_cast<char*>(&head + 1); }

  void write(int rank, const std::string& text) const {
    Head& own = head(rank);
    const size_t bytes = std::min(text.size(), stride - sizeof(Head));
    own.version.fetch_add(1, std::memory_order_acq_rel);
    own.bytes = static_cast<uint32_t>(bytes);
    std::memcpy(this->text(own), text.data(), bytes);
    own.version.fetch_add(1, std::memory_order_acq_rel);
  }

  // A rank that was stopped while it wrote leaves its row odd; what can be read of it then has to do.
  std::string read(int rank) const {
    Head& other = head(rank);
    std::string text;
    for (int tries = 0; tries < 100; ++tries) {
      const uint32_t before = other.version.load(std::memory_order_acquire);
      text.assign(this->text(other), std::min<size_t>(other.bytes, stride - sizeof(Head)));
      std::atomic_thread_fence(std::memory_order_acquire);
      if (before % 2 == 0 && other.version.load(std::memory_order_acquire) == before) break;
      std::this_thread::yield();
    }
    return text;
  }

  FileDescriptor file;  ///< kept by the first rank, for others to open
  std::vector<int> ranks;
  size_t stride;
  shm::Mapping memory;
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

 private:
  void run() {
    std::unique_lock lock(mutex_);
    while (!changed_.wait_for(lock, kPublishEvery, [this] { return stopping_; })) look();
  }

  void look() {
    const std::string text = table_.rows_->read(table_.rank_);
    if (text != seen_) since_ = Clock::now();
    seen_ = text;
    const Entry entry = Entry::from_text(text);
    const bool tell = entry.failed || (entry.waiting && Clock::now() - since_ >= kPublishAfter);
    if (!tell && told_.empty()) return;
    const std::string& due = tell ? text : none_;
    if (due == told_) return;
    try {
      table_.store_->set(row_key(table_.rank_), due, kPatience);
      told_ = due;
    } catch (const CommError&) {
      // The store has gone: whoever looks for rows there is told so.
    }
  }

  RankTable& table_;
  std::string seen_, told_;
  const std::string none_;
  Clock::time_point since_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  std::thread thread_;
};

RankTable::RankTable(int rank, std::vector<std::string> hosts, std::unique_ptr<Rows> rows, const Store& store)
    : rank_(rank),
      hosts_(std::move(hosts)),
      rows_(std::move(rows)),
      store_(std::make_unique<Store>(store)),
      own_(std::make_unique<Entry>()) {
  own_->pid = ::getpid();
  write();
  const bool several = std::any_of(hosts_.begin(), hosts_.end(), [&](const auto& host) { return host != hosts_.front(); });
  if (several) publisher_ = std::make_unique<Publisher>(*this);
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
    file = shm::create_memory("waits", Rows::stride_of(hosts.size()) * ranks.size());
    own.set(memory_key(rank), fmt::format("{} {}", ::getpid(), file.get()));
  } else {
    const std::string place =
        own.get(memory_key(ranks.front()), deadline, fmt::format("rank {} waits for rank {} to start", rank, ranks.front()));
    file = shm::open_peer_memory(std::stoi(place), std::stoi(place.substr(place.find(' ') + 1)));
  }
  auto rows = std::make_unique<Rows>(std::move(file), ranks, hosts.size());
  return std::shared_ptr<RankTable>(new RankTable(rank, hosts, std::move(rows), store));
}

std::vector<std::shared_ptr<RankTable>> RankTable::threads(const Store& store, const std::vector<std::string>& hosts) {
  std::vector<int> ranks(hosts.size());
  for (size_t rank = 0; rank < ranks.size(); ++rank) ranks[rank] = static_cast<int>(rank);
  const FileDescriptor file = shm::create_memory("waits", Rows::stride_of(hosts.size()) * ranks.size());
  std::vector<std::shared_ptr<RankTable>> tables;
  for (const int rank : ranks) {
    auto rows = std::make_unique<Rows>(FileDescriptor(::dup(file.get())), ranks, hosts.size());
    tables.push_back(std::shared_ptr<RankTable>(new RankTable(rank, hosts, std::move(rows), store)));
  }
  return tables;
}

// The caller of both holds the mutex, or is the constructor.
void RankTable::write(bool waiting, const RankRow& wait) {
  RankRow row = wait;
  row.culprit = own_->row.culprit;
  row.failure = std::move(own_->row.failure);
  own_->waiting = waiting;
  own_->row = std::move(row);
  write();
}

void RankTable::write() { rows_->write(rank_, own_->to_text()); }

void RankTable::begin_meeting(int64_t number) {
  const std::lock_guard lock(mutex_);
  own_->begun = number;
  write();
}

void RankTable::fail(int culprit, const std::string& text) {
  const std::lock_guard lock(mutex_);
  if (own_->failed && own_->failed_in == own_->begun) return;
  own_->failed = true;
  own_->failed_in = past_ = own_->begun;
  own_->row.culprit = culprit;
  own_->row.failure = text;
  write();
}

RankRow RankTable::read(int rank) const {
  std::string text;
  if (local(rank)) {
    text = rows_->read(rank);
  } else if (store_->has(row_key(rank), kPatience).value_or(false)) {
    text = store_->get(row_key(rank), kPatience, "reading who waits");
  }
  const Entry entry = text.empty() ? Entry{} : Entry::from_text(text);
  RankRow row = entry.row;
  row.process = entry.pid > 0 ? fmt::format("process {} on host {}", entry.pid, hosts_[rank]) : "host " + hosts_[rank];
  row.state = entry.waiting ? RankState::waiting : RankState::running;
  if (local(rank) && entry.pid > 0) {
    const ProcessState process = process_state(entry.pid);
    if (process == ProcessState::stopped) row.state = RankState::stopped;
    if (process == ProcessState::ended) row.state = RankState::ended;
  }
  const std::lock_guard lock(mutex_);
  const bool went_on = entry.begun > entry.failed_in && entry.begun <= own_->begun;
  if (entry.failed && entry.failed_in > past_ && !went_on) row.state = RankState::failed;
  return row;
}

std::vector<RankRow> RankTable::read() const {
  std::vector<RankRow> rows;
  rows.reserve(hosts_.size());
  for (int rank = 0; rank < static_cast<int>(hosts_.size()); ++rank) rows.push_back(read(rank));
  return rows;
}

bool RankTable::any_gone(const std::vector<int>& ranks) const {
  return std::any_of(ranks.begin(), ranks.end(), [this](int rank) {
    if (rank == rank_ || !local(rank)) return false;
    const RankState state = read(rank).state;
    return state == RankState::ended || state == RankState::failed;
  });
}

RankTable::Report RankTable::report(const RankRow& wait, double waited_s, milliseconds patience) const {
  const auto end = Clock::now() + patience;
  while (true) {
    std::vector<RankRow> rows = read();
    rows[rank_] = wait;
    rows[rank_].state = RankState::waiting;
    const Cause cause = find_cause(rows, rank_);
    const Report result{cause.state, blamed_rank(rows, cause), describe_cause(rows, cause, waited_s)};
    if (result.evident() || Clock::now() >= end) return result;
    std::this_thread::sleep_for(milliseconds(20));
  }
}

RankTable::Waiting::Waiting(std::shared_ptr<RankTable> table, const RankRow& row) : table_(std::move(table)), row_(row) {
  if (!table_) return;
  const std::lock_guard lock(table_->mutex_);
  if (table_->own_->waiting) return;
  shown_ = true;
  table_->write(true, row_);
}

RankTable::Waiting::~Waiting() {
  if (!shown_) return;
  const std::lock_guard lock(table_->mutex_);
  table_->write(false, {});
}

void RankTable::Waiting::now_awaits(const std::vector<int>& ranks) {
  if (!shown_ || ranks == row_.awaits) return;
  row_.awaits = ranks;
  const std::lock_guard lock(table_->mutex_);
  table_->write(true, row_);
}

}  // namespace weft
