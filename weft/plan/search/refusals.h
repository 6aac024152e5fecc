// Refusals: what a search leaves out, in groups with a reason each.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace weft {

/// A group of layouts that the result leaves out.
struct LeftOut {
  std::string text;     ///< what: "ZeRO-1, recompute none"
  std::string why;      ///< "over memory by 3.1 GiB or more", "batch.global = 30 does not divide over 8 ranks; ..."
  int64_t layouts = 0;  ///< how many
};

/// "ZeRO-1, recompute none: over memory by 3.1 GiB or more", of the first group; empty if there is none.
std::string closest_text(const std::vector<LeftOut>& groups);

class Refusals {
 public:
  /// Layouts that no run accepts; `why` is the error. Those of one `key` make a group, with the first one's text and error.
  void add_illegal(const std::string& key, const std::string& text, const std::string& why, int64_t layouts);
  /// Layouts that need `bytes` more than a rank has, or more than that.
  void add_over_memory(const std::string& text, int64_t bytes, int64_t layouts = 1);

  int64_t illegal() const { return illegal_; }
  int64_t over_memory() const { return over_memory_; }
  /// The groups: over memory, the closest to fit first, then illegal, the largest first.
  std::vector<LeftOut> groups() const;

 private:
  struct OverMemory {
    int64_t least_bytes = 0;
    int64_t layouts = 0;
  };
  std::map<std::string, LeftOut> illegal_groups_;
  std::map<std::string, OverMemory> memory_groups_;
  int64_t illegal_ = 0, over_memory_ = 0;
};

}  // namespace weft
