// How a Trainer saves and loads a checkpoint, and what came of loading.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace weft {

/// How a checkpoint is saved.
struct SaveOptions {
  bool replace = false;              ///< a checkpoint that is there already
  std::function<void()> after = {};  ///< run on rank 0's saving thread once the checkpoint is whole
};

/// How a checkpoint is loaded.
struct LoadOptions {
  /// Tensors and registered states that the checkpoint has and the trainer lacks, or the other way round, are an error. false:
  /// they are left out, and told.
  bool strict = true;
};

/// What came of loading a checkpoint.
struct LoadReport {
  int64_t step = 0;                       ///< steps that were done when it was saved
  int64_t bytes_read = 0;                 ///< of data files, by this rank
  std::vector<std::string> skipped = {};  ///< what strict = false left out, or that an average begins anew, a line each
};

}  // namespace weft
