#include "weft/train/stopped/evidence.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "weft/base/printable.h"
#include "weft/checkpoint/atomic_file.h"
#include "weft/comm/host/host_name.h"
#include "weft/comm/store/store.h"
#include "weft/comm/wait/rank_table.h"
#include "weft/report/stopped/blame_text.h"
#include "weft/report/stopped/evidence_files.h"
#include "weft/report/stopped/flight_recorder.h"
#include "weft/train/stopped/snapshot.h"

namespace weft {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kLookEvery{100};
constexpr milliseconds kLookElsewhereEvery{1000};
constexpr milliseconds kToBeSeen{1000};       ///< a failing thread waits for its stack to be taken
constexpr milliseconds kForOthers{2500};      ///< for other ranks' files
constexpr milliseconds kForOtherHosts{4000};  ///< which are told within a second or two
constexpr milliseconds kForSummary{1500};     ///< for another rank's summary
constexpr milliseconds kToStop{3000};
constexpr milliseconds kPoll{20};
constexpr int kMostOld = 4;  ///< processes whose evidence is kept

/// Renames the folder of an earlier process: stopped-1, ..., of which the newest are kept. Another host's first rank may do it
/// at the same time.
void put_away(const std::filesystem::path& folder) {
  std::error_code error;
  if (!std::filesystem::exists(folder, error)) return;
  const auto place = [&](int number) { return std::filesystem::path(fmt::format("{}-{}", folder.string(), number)); };
  const int newest = newest_old_evidence(folder.parent_path().string());
  std::filesystem::rename(folder, place(newest + 1), error);  // if it fails, this run's evidence replaces the older one's
  if (!error && newest >= kMostOld) std::filesystem::remove_all(place(newest + 1 - kMostOld), error);
}

}  // namespace

class EvidenceWriter::Thread : public std::enable_shared_from_this<Thread> {
 public:
  Thread(const World& world, std::string run_folder, std::shared_ptr<const CurrentInstruction> current)
      : world_(world),
        table_(world.store().table()),
        run_folder_(std::move(run_folder)),
        folder_(std::filesystem::path(run_folder_) / kStoppedFolder),
        alarms_before_(table_->alarms()) {
    activity_.current = std::move(current);
    for (int rank = 0; rank < world.rank(); ++rank) is_first_of_host_ &= world.host(rank) != world.host(world.rank());
  }

  void start() {
    thread_ = std::thread([self = shared_from_this()] { self->run(); });
    table_->on_alarm(this, [this](int culprit, const std::string& text) { note_failure(culprit, text); });
  }
  /// Leaves a thread behind that a file system holds up.
  void stop() {
    table_->forget_alarms_of(this);
    {
      const std::lock_guard telling(telling_);
      on_summary_ = {};
    }
    std::unique_lock lock(mutex_);
    is_stopping_ = true;
    changed_.notify_all();
    const bool ends = changed_.wait_for(lock, kToStop, [this] { return has_ended_; });
    lock.unlock();
    ends ? thread_.join() : thread_.detach();
  }

  void put_old_away() const {
    if (is_first_of_host_) put_away(folder_);
  }

  void set_blocks(std::vector<std::string> names) {
    const std::lock_guard lock(mutex_);
    activity_.blocks = std::move(names);
  }
  std::string set_activity(std::string text) {
    const std::lock_guard lock(mutex_);
    activity_.thread = static_cast<int>(::gettid());
    return std::exchange(activity_.activity, std::move(text));
  }
  void on_summary(std::function<void(const std::string&)> call) {
    const std::lock_guard lock(telling_);
    on_summary_ = std::move(call);
  }

  std::string conclude(int culprit) {
    std::unique_lock lock(mutex_);
    // Nobody has reported a failure: it is not one of a wait for a rank.
    if (stage_ == Stage::watching && !failure_ && table_->alarms() == alarms_before_) return "";
    if (std::exchange(is_concluded_, true)) return "";
    changed_.wait_for(lock, kForOtherHosts + kForSummary + milliseconds(3000), [this] { return stage_ == Stage::done; });
    if (!has_written_) return "";
    lock.unlock();
    const std::string state = culprit_text(culprit);
    return fmt::format("{}; evidence in {}: weft blame {}", state, printable(folder_.string()), printable(run_folder_));
  }

 private:
  enum class Stage { watching, seen, done };

  /// In the failing thread: it stays where it is until its stack is taken.
  void note_failure(int culprit, const std::string& text) {
    std::unique_lock lock(mutex_);
    if (!failure_) failure_ = GroupFailure{culprit, text};
    changed_.notify_all();
    changed_.wait_for(lock, kToBeSeen, [this] { return stage_ != Stage::watching || is_stopping_; });
  }

  bool is_told() const { return failure_ || table_->alarms() != alarms_before_; }

  void run() {
    try {
      if (await_alarm()) leave_evidence();
    } catch (const std::exception&) {  // such as a full disk: the run's own error says more
    }
    const std::lock_guard lock(mutex_);
    stage_ = Stage::done;
    has_ended_ = true;
    changed_.notify_all();
  }

  /// Returns false when it is to stop.
  bool await_alarm() {
    std::unique_lock lock(mutex_);
    while (!is_told()) {
      changed_.wait_for(lock, kLookEvery, [this] { return is_stopping_ || failure_; });
      if (is_stopping_) return false;
      if (!is_first_of_host_ || Clock::now() < look_elsewhere_) continue;
      lock.unlock();  // the trip may take a second
      table_->look_for_alarms();
      look_elsewhere_ = Clock::now() + kLookElsewhereEvery;
      lock.lock();
    }
    return true;
  }

  void leave_evidence() {
    std::unique_lock lock(mutex_);
    const RankActivity activity = activity_;
    const std::optional<GroupFailure> failure = failure_;
    lock.unlock();
    RankSnapshot snapshot = take_snapshot(world_, activity);
    if (failure) {
      snapshot.evidence.has_failed = true;
      snapshot.evidence.culprit = failure->culprit;
      snapshot.evidence.error = failure->text;
    }
    enter(Stage::seen);
    write(named(std::move(snapshot), world_));
    await_others();
    summarise();
  }

  void enter(Stage stage) {
    const std::lock_guard lock(mutex_);
    stage_ = stage;
    changed_.notify_all();
  }

  void write(const RankEvidence& evidence) {
    std::filesystem::create_directories(folder_ / kFlightRecorderFolder);
    write_file((folder_ / kFlightRecorderFolder / fmt::format("rank_{}", evidence.rank)).string(),
               flight_recorder_dump(evidence));
    write_file((folder_ / evidence_name(evidence.rank)).string(), evidence_json(evidence));
    const std::lock_guard lock(mutex_);
    has_written_ = true;
  }

  /// Until all ranks have written that can.
  void await_others() {
    bool is_one_host = true;
    for (int rank = 0; rank < world_.size(); ++rank) is_one_host &= world_.host(rank) == world_.host(world_.rank());
    const auto end = Clock::now() + (is_one_host ? kForOthers : kForOtherHosts);
    while (Clock::now() < end && !is_stopping()) {
      const std::set<int> written = written_ranks();
      bool is_complete = true;
      for (int rank = 0; rank < world_.size() && is_complete; ++rank) {
        is_complete = written.count(rank) > 0 || (table_->on_this_host(rank) && !is_alive(rank));
      }
      if (is_complete) return;
      std::this_thread::sleep_for(kPoll);
    }
  }

  /// Written since this process began: where hosts do not share the folder, an earlier one's may still be there.
  bool is_new(const std::filesystem::path& file) const {
    std::error_code error;
    const auto time = std::filesystem::last_write_time(file, error);
    return !error && time >= began_;
  }
  std::set<int> written_ranks() const {
    std::set<int> ranks = ranks_with_evidence(folder_.string());
    std::erase_if(ranks, [this](int rank) { return !is_new(folder_ / evidence_name(rank)); });
    return ranks;
  }

  bool is_alive(int rank) const {
    const RankState state = table_->read(rank).state;
    return state != RankState::ended && state != RankState::stopped;
  }

  /// The lowest rank that has written does; another one if it does not.
  void summarise() {
    const std::filesystem::path file = folder_ / kSummaryFile;
    const std::set<int> written = written_ranks();
    const auto end = Clock::now() + kForSummary;
    const bool is_own = !written.empty() && *written.begin() == world_.rank();
    while (!is_own && Clock::now() < end && !is_stopping()) {
      if (is_new(file)) return;
      std::this_thread::sleep_for(kPoll);
    }
    const ReadEvidence read = read_evidence(folder_.string());
    const HangVerdict verdict = who_is_missing(read.evidence);
    {
      const std::lock_guard telling(telling_);
      if (world_.rank() == 0 && on_summary_ && !verdict.text.empty()) on_summary_(verdict.text);
    }
    write_file(file.string(), blame_text(read.evidence, read.problems));
  }

  /// "; it is in forward of block ...", unless the error says all that is known.
  std::string culprit_text(int culprit) const {
    if (culprit < 0) return "";
    const ReadEvidence read = read_evidence(folder_.string(), culprit);
    if (read.evidence.empty()) return "";
    return "; " + state_text(read.evidence, culprit);
  }

  bool is_stopping() {
    const std::lock_guard lock(mutex_);
    return is_stopping_;
  }

  const World world_;
  const std::shared_ptr<RankTable> table_;
  const std::string run_folder_;
  const std::filesystem::path folder_;
  const int64_t alarms_before_;
  /// Clocks of file servers may differ by some seconds.
  const std::filesystem::file_time_type began_ = std::filesystem::file_time_type::clock::now() - std::chrono::seconds(5);
  bool is_first_of_host_ = true;
  Clock::time_point look_elsewhere_ = Clock::now();

  std::mutex mutex_;
  std::condition_variable changed_;
  RankActivity activity_;
  std::optional<GroupFailure> failure_;
  Stage stage_ = Stage::watching;
  bool has_written_ = false, is_concluded_ = false, is_stopping_ = false, has_ended_ = false;
  std::mutex telling_;  ///< held during a call of on_summary_
  std::function<void(const std::string&)> on_summary_;
  std::thread thread_;
};

EvidenceWriter::EvidenceWriter(const World& world, std::string folder, bool keeps_old) {
  if (world.size() == 1 || folder.empty()) return;
  thread_ = std::make_shared<Thread>(world, std::move(folder), current_);
  if (!keeps_old) thread_->put_old_away();
  thread_->start();
}
EvidenceWriter::~EvidenceWriter() {
  if (thread_) thread_->stop();
}

void EvidenceWriter::put_old_away() {
  if (thread_) thread_->put_old_away();
}

const std::shared_ptr<CurrentInstruction>& EvidenceWriter::current() const { return current_; }

void EvidenceWriter::set_blocks(std::vector<std::string> names) {
  if (thread_) thread_->set_blocks(std::move(names));
}

void EvidenceWriter::on_summary(std::function<void(const std::string& line)> call) {
  if (thread_) thread_->on_summary(std::move(call));
}

std::string EvidenceWriter::conclude(int culprit) { return thread_ ? thread_->conclude(culprit) : ""; }

EvidenceWriter::Activity::Activity(EvidenceWriter* writer, std::string text)
    : writer_(writer != nullptr && writer->thread_ ? writer : nullptr) {
  if (writer_ != nullptr) before_ = writer_->thread_->set_activity(std::move(text));
}
EvidenceWriter::Activity::~Activity() {
  if (writer_ != nullptr) writer_->thread_->set_activity(before_);
}

}  // namespace weft
