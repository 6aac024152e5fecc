// RunIndex: the runs below a folder, in an SQLite database there: runs.sqlite, which follows from their records and may be
// removed at any time. Read it with SQLite's own shell too: tables `runs` and `keys`.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace weft {

/// A run as the index knows it.
struct IndexedRun {
  std::string path;  ///< below the folder
  std::string name;
  std::string standing;  ///< RunStanding's name when it was read
  std::string started;   ///< "2026-12-01 10:12:13", local time
  int64_t steps = 0, steps_in_all = 0;
  std::optional<double> loss, evaluation_loss, accuracy, samples_per_s, hours;  ///< the last ones; accuracy, loss: the best
  std::vector<std::pair<std::string, std::string>> keys = {};                   ///< of the recipe and layout
};

struct RunQuery {
  std::vector<std::string> where = {};  ///< "optimizer.lr=0.1": values of recipe keys, all of which must hold
  std::string sort = "started";         ///< a column, or a recipe key
  bool reverse = false;
};

class RunIndex {
 public:
  /// Opens the index of a folder; in memory where it cannot be kept there, which `note` says with the cause. Throws InputError
  /// if it is no folder.
  explicit RunIndex(const std::string& folder);
  ~RunIndex();

  /// Reads runs whose files have changed, finds new ones and forgets those that are gone. Returns how many runs there are. Goes
  /// on in memory where the index cannot be written.
  int64_t refresh();
  /// Throws InputError for a column that is none.
  std::vector<IndexedRun> find(const RunQuery& query);
  const std::string& note() const { return note_; }

 private:
  struct Database;
  int64_t read_changed();
  bool has_key(const std::string& name);  ///< of a recipe, in any run
  void keep_in_memory(const std::string& cause);

  std::string folder_, path_, note_;
  bool is_new_ = false;  ///< its file was made here
  std::unique_ptr<Database> database_;
};

}  // namespace weft
