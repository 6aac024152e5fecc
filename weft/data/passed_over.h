// PassedOver: counts and first names, by reason, of files among the data that are not read.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "weft/data/data_note.h"

namespace weft {

/// True for names that programs give to their own files and folders, never to data: ".x" (macOS's "._x", ".ipynb_checkpoints"),
/// and macOS's "__MACOSX".
bool is_hidden_name(std::string_view name);

/// True if a part of a path, "a/b/c.jpg", is hidden. "." and ".." are not.
bool is_hidden_path(std::string_view path);

/// Collects names; memory: the first few names per reason, in name order.
class PassedOver {
 public:
  /// Adds a name; `reason` is a few words: "hidden".
  void add(const std::string& reason, std::string name);
  /// Notes for Dataset::passed_over(): "a/x.txt (no image)", for frequent reasons also "3980 more, after a/y.txt (no image)".
  DataNotes notes() const;

 private:
  struct Kind {
    int64_t count = 0;
    std::set<std::string> first;
  };
  std::map<std::string, Kind> kinds_;  ///< by reason
};

}  // namespace weft
