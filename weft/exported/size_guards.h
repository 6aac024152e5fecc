// Conditions on the number of samples under which a program is the forward that was exported: torch.export takes one side of a
// branch, and writes down when it holds ("L['x'].size()[0] <= 3").
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

namespace weft {

class SizeGuards {
 public:
  /// `texts` are in Python, as the file at `path` has them. Throws InputError for those that are more than arithmetic on sizes.
  SizeGuards(std::string path, std::vector<std::string> texts);

  /// Throws InputError if one does not hold for batches of this many samples. Thread-safe.
  void check(int64_t samples) const;

 private:
  std::string path_;
  std::vector<std::string> texts_;
  mutable std::atomic<int64_t> known_ = -1;  ///< a number for which all hold
};

}  // namespace weft
