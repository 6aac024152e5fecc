// PassedOver: what lies among data and is not read, as it is found: by reason, with how much there is and the first names.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "weft/data/data_note.h"

namespace weft {

/// Whether a name is one that programs give to files and folders of their own, in which nobody keeps data: ".x" (macOS's "._x",
/// ".ipynb_checkpoints"), and macOS's "__MACOSX".
bool is_hidden_name(std::string_view name);

/// Whether a part of a path, "a/b/c.jpg", is hidden. "." and ".." are not.
bool is_hidden_path(std::string_view path);

/// Collects names; memory is that of the first few for each reason, in the order of names.
class PassedOver {
 public:
  /// `reason` in a few words: "hidden".
  void add(const std::string& reason, std::string name);
  /// As Dataset::passed_over(): "a/x.txt (no image)", and of a reason that many have "3980 more, after a/y.txt (no image)".
  DataNotes notes() const;

 private:
  struct Kind {
    int64_t count = 0;
    std::set<std::string> first;
  };
  std::map<std::string, Kind> kinds_;  ///< by reason
};

}  // namespace weft
