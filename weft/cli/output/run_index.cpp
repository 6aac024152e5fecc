#include "weft/cli/output/run_index.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>

#include "weft/base/error.h"
#include "weft/base/local_time.h"
#include "weft/base/parse_number.h"
#include "weft/base/printable.h"
#include "weft/cli/output/run_reader.h"
#include "weft/report/records/record_files.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFile = "runs.sqlite";
constexpr int kVersion = 2;               ///< of the tables; another one is made anew
constexpr int kApplication = 0x77656674;  ///< "weft"
constexpr const char* kTables = R"(BEGIN IMMEDIATE; PRAGMA application_id = {}; PRAGMA user_version = {};
CREATE TABLE IF NOT EXISTS runs (path TEXT PRIMARY KEY, stamp TEXT NOT NULL, name TEXT, standing TEXT, started TEXT,
  steps INTEGER, steps_in_all INTEGER, loss REAL, evaluation_loss REAL, accuracy REAL, samples_per_s REAL, hours REAL);
CREATE TABLE IF NOT EXISTS keys (path TEXT NOT NULL REFERENCES runs(path) ON DELETE CASCADE, key TEXT NOT NULL, value TEXT,
  PRIMARY KEY (path, key));
CREATE INDEX IF NOT EXISTS keys_by_value ON keys (key, value); COMMIT)";
const std::vector<std::string> kStepValues = {"loss", "samples_per_s", "seconds"};  ///< that a summary is made of
constexpr std::array<const char*, 10> kRunColumns = {
    "path", "name", "standing", "started", "steps", "loss", "evaluation_loss", "accuracy", "samples_per_s", "hours"};

/// Changes with a run's records.
std::string stamp_of(const fs::path& run) {
  std::string stamp;
  for (const char* name : {kMetricsFile, kEventsFile}) {
    struct stat status {};
    if (stat((run / name).c_str(), &status) == 0) {
      stamp += fmt::format("{} {}.{:09d} ", status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec);
    }
  }
  return stamp;
}

std::optional<double> best_of(const Metrics& metrics, const char* name, bool least) {
  std::optional<double> best;
  for (const EvaluationRecord& evaluation : metrics.evaluations) {
    if (evaluation.set != metrics.evaluations.front().set) continue;
    const auto value = value_of(evaluation.values, name);
    if (value && std::isfinite(*value) && (!best || (least ? *value < *best : *value > *best))) best = value;
  }
  return best;
}

IndexedRun summary_of(const RunHistory& run, const std::string& path, double now_s) {
  const Metrics& metrics = run.metrics();
  IndexedRun row{.path = path,
                 .name = name_of(run),
                 .standing = standing_name(standing_of(run, now_s)),
                 .started = run.events.empty() ? "" : local_time_text(run.events.front().time_s),
                 .steps = metrics.steps.empty() ? 0 : metrics.steps.back(),
                 .steps_in_all = steps_in_all(run),
                 .loss = last_value(metrics, "loss"),
                 .evaluation_loss = best_of(metrics, "loss", true),
                 .accuracy = best_of(metrics, "accuracy", false),
                 .samples_per_s = median_value(metrics, "samples_per_s"),
                 .hours = last_value(metrics, "seconds")};
  if (row.hours) *row.hours /= 3600.0;
  row.keys = start_details(run, "recipe.");
  for (const auto& [key, value] : start_details(run, "layout.")) row.keys.emplace_back("planned." + key, value);
  return row;
}

void remove_database(const std::string& path) {
  for (const char* end : {"", "-journal", "-wal", "-shm"}) unlink((path + end).c_str());
}

}  // namespace

/// SQLite's handle, with statements whose values are bound in order.
struct RunIndex::Database {
  sqlite3* handle = nullptr;
  bool is_another = false;  ///< another program's
  ~Database() { sqlite3_close(handle); }

  [[noreturn]] void fail() const { throw Error(fmt::format("the index of runs: {}", cause())); }

  /// Why the last call failed.
  std::string cause() const {
    if (is_another) return "another program's file";
    const int code = sqlite3_errcode(handle), error = sqlite3_system_errno(handle);
    if (code == SQLITE_FULL || error == ENOSPC || error == EDQUOT) return "disk full";
    return is_busy() ? "another process writes it" : sqlite3_errmsg(handle);
  }
  bool is_busy() const { return sqlite3_errcode(handle) == SQLITE_BUSY; }

  void run(const std::string& statements) const {
    if (sqlite3_exec(handle, statements.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) fail();
  }

  class Statement {
   public:
    Statement(const Database& database, const std::string& text) : database_(database) {
      if (sqlite3_prepare_v2(database.handle, text.c_str(), -1, &statement_, nullptr) != SQLITE_OK) database.fail();
    }
    ~Statement() { sqlite3_finalize(statement_); }
    Statement(const Statement&) = delete;
    Statement& operator=(const Statement&) = delete;
    Statement& operator<<(const std::string& text) {
      sqlite3_bind_text(statement_, ++bound_, text.c_str(), -1, SQLITE_TRANSIENT);
      return *this;
    }
    Statement& operator<<(int64_t number) {
      sqlite3_bind_int64(statement_, ++bound_, number);
      return *this;
    }
    Statement& operator<<(std::optional<double> number) {
      ++bound_;
      number ? sqlite3_bind_double(statement_, bound_, *number) : sqlite3_bind_null(statement_, bound_);
      return *this;
    }
    bool next() {
      const int code = sqlite3_step(statement_);
      if (code != SQLITE_ROW && code != SQLITE_DONE) database_.fail();
      return code == SQLITE_ROW;
    }
    std::string text(int column) const {
      const unsigned char* text = sqlite3_column_text(statement_, column);
      return text == nullptr ? "" : reinterpret_cast<const char*>(text);
    }
    int64_t integer(int column) const { return sqlite3_column_int64(statement_, column); }
    std::optional<double> number(int column) const {
      if (sqlite3_column_type(statement_, column) == SQLITE_NULL) return std::nullopt;
      return sqlite3_column_double(statement_, column);
    }

   private:
    const Database& database_;
    sqlite3_stmt* statement_ = nullptr;
    int bound_ = 0;
  };

  /// Makes the tables. Another program's file is left alone, as is one that another process writes for long; one that is
  /// damaged or of another version is made anew: it follows from the records.
  enum class Opened { yes, no, made_anew };
  Opened open(const std::string& path) {
    constexpr int kWait_ms = 5000;  // for another process that writes
    if (sqlite3_open(path.c_str(), &handle) != SQLITE_OK) return Opened::no;
    sqlite3_busy_timeout(handle, kWait_ms);
    try {
      const int64_t owner = pragma("application_id"), version = pragma("user_version"), pages = pragma("page_count");
      if (is_another = owner != kApplication && pages > 0; is_another) return Opened::no;
      if (owner == kApplication && version != kVersion) return Opened::made_anew;
      if (pages == 0) run(fmt::format(kTables, kApplication, kVersion));
      return Opened::yes;
    } catch (const Error&) {
      const int code = sqlite3_errcode(handle);
      return code == SQLITE_NOTADB || code == SQLITE_CORRUPT ? Opened::made_anew : Opened::no;
    }
  }
  int64_t pragma(const char* name) const {
    Statement statement(*this, fmt::format("PRAGMA {}", name));
    return statement.next() ? statement.integer(0) : 0;
  }

  void write(const IndexedRun& row, const std::string& stamp) const {
    Statement(*this, "DELETE FROM keys WHERE path = ?").operator<<(row.path).next();
    (Statement(*this, "INSERT OR REPLACE INTO runs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")
     << row.path << stamp << row.name << row.standing << row.started << row.steps << row.steps_in_all << row.loss
     << row.evaluation_loss << row.accuracy << row.samples_per_s << row.hours)
        .next();
    for (const auto& [key, value] : row.keys) {
      (Statement(*this, "INSERT OR REPLACE INTO keys VALUES (?, ?, ?)") << row.path << key << value).next();
    }
  }
};

RunIndex::RunIndex(const std::string& folder) : folder_(folder), path_((fs::path(folder) / kFile).string()) {
  if (!fs::is_directory(folder)) throw InputError(fmt::format("{} is not a folder", printable(folder)));
  using Opened = Database::Opened;
  const bool may_write = access(folder.c_str(), W_OK) == 0;
  Opened opened = may_write ? Opened::made_anew : Opened::no;
  for (int tries = 0; tries < 2 && opened == Opened::made_anew; ++tries) {
    if (tries > 0) remove_database(path_);
    is_new_ = !fs::exists(path_);
    database_ = std::make_unique<Database>();
    opened = database_->open(path_);
  }
  if (opened != Opened::yes) keep_in_memory(may_write ? database_->cause() : "no permission to write there");
}

/// Goes on without a file, and leaves none that was made here, unless another process writes it.
void RunIndex::keep_in_memory(const std::string& cause) {
  note_ = fmt::format("no index is kept in {}: {}; all runs are read", printable(path_), cause);
  const bool is_removed = is_new_ && !(database_ && database_->is_busy());
  database_ = std::make_unique<Database>();
  if (is_removed) remove_database(path_);
  if (database_->open(":memory:") != Database::Opened::yes) database_->fail();
}

RunIndex::~RunIndex() = default;

int64_t RunIndex::refresh() {
  try {
    return read_changed();
  } catch (const Error&) {
    if (!note_.empty()) throw;
    keep_in_memory(database_->cause());
    return read_changed();
  }
}

int64_t RunIndex::read_changed() {
  const double now = unix_time_s();
  std::map<std::string, std::pair<std::string, bool>> known;  // stamp, and whether it may change without records
  {
    Database::Statement all(*database_, "SELECT path, stamp, standing FROM runs");
    while (all.next()) known[all.text(0)] = {all.text(1), all.text(2) == standing_name(RunStanding::running)};
  }
  int64_t count = 0;
  std::vector<std::pair<IndexedRun, std::string>> read;  // with stamps; before others have to wait
  for (const fs::path& run : runs_below(folder_, std::numeric_limits<int>::max())) {
    const std::string path = run.string(), stamp = stamp_of(folder_ / run);
    const auto before = known.find(path);
    const bool is_same = before != known.end() && before->second.first == stamp && !before->second.second;
    try {
      if (!is_same)
        read.emplace_back(summary_of(RunReader((fs::path(folder_) / run).string(), kStepValues).run(), path, now), stamp);
    } catch (const Error&) {
      continue;  // it was removed meanwhile, or cannot be read now
    }
    ++count;
    if (before != known.end()) known.erase(before);
  }
  database_->run("BEGIN IMMEDIATE");
  for (const auto& [row, stamp] : read) database_->write(row, stamp);
  for (const auto& [path, rest] : known) {
    (Database::Statement(*database_, "DELETE FROM keys WHERE path = ?") << path).next();
    (Database::Statement(*database_, "DELETE FROM runs WHERE path = ?") << path).next();
  }
  database_->run("COMMIT");
  return count;
}

bool RunIndex::has_key(const std::string& name) {
  Database::Statement exists(*database_, "SELECT 1 FROM keys WHERE key = ? LIMIT 1");
  return (exists << name).next();
}

std::vector<IndexedRun> RunIndex::find(const RunQuery& query) {
  std::string text =
      "SELECT path, name, standing, started, steps, steps_in_all, loss, evaluation_loss, accuracy, samples_per_s, hours FROM "
      "runs";
  std::vector<std::string> values;
  for (const std::string& condition : query.where) {
    const size_t equals = condition.find('=');
    if (equals == std::string::npos || equals == 0) {
      throw InputError(fmt::format("--where {}: write KEY=VALUE, such as optimizer.lr=0.1", printable(condition)));
    }
    text += values.empty() ? " WHERE" : " AND";
    const std::string key = condition.substr(0, equals), value = condition.substr(equals + 1);
    if (!has_key(key)) {
      throw InputError(fmt::format("--where {}: no recipe key of these runs is {}", printable(condition), printable(key)));
    }
    const auto number = parse_number<double>(value);
    const bool is_number = number && std::isfinite(*number);
    text += fmt::format(" path IN (SELECT path FROM keys WHERE key = ? AND value = {})",
                        is_number ? "CAST(? AS REAL)" : "?");  // SQLite compares texts that are numbers by value then
    values.push_back(key);
    values.push_back(value);
  }
  const bool is_column = std::count(kRunColumns.begin(), kRunColumns.end(), query.sort) > 0;
  text += is_column ? fmt::format(" ORDER BY {}", query.sort)
                    : fmt::format(" ORDER BY (SELECT CAST(value AS REAL) {0}) {1}, (SELECT value {0})",
                                  "FROM keys WHERE keys.path = runs.path AND key = ?", query.reverse ? "DESC" : "");
  if (!is_column) {
    if (!has_key(query.sort)) {
      throw InputError(fmt::format("--sort {}: no column and no recipe key of these runs; columns: {}", printable(query.sort),
                                   fmt::join(kRunColumns, ", ")));
    }
    values.insert(values.end(), 2, query.sort);
  }
  Database::Statement rows(*database_, text + (query.reverse ? " DESC" : "") + ", path");
  for (const std::string& value : values) rows << value;
  std::vector<IndexedRun> found;
  while (rows.next()) {
    found.push_back({.path = rows.text(0),
                     .name = rows.text(1),
                     .standing = rows.text(2),
                     .started = rows.text(3),
                     .steps = rows.integer(4),
                     .steps_in_all = rows.integer(5),
                     .loss = rows.number(6),
                     .evaluation_loss = rows.number(7),
                     .accuracy = rows.number(8),
                     .samples_per_s = rows.number(9),
                     .hours = rows.number(10)});
    Database::Statement keys(*database_, "SELECT key, value FROM keys WHERE path = ? ORDER BY key");
    keys << found.back().path;
    while (keys.next()) found.back().keys.emplace_back(keys.text(0), keys.text(1));
  }
  return found;
}

}  // namespace weft
