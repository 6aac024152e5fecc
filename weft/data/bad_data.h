// Policy for damaged data: throw an error, or skip it and report its name. Whether a sample is bad depends on its bytes alone,
// so all ranks, workers and restarts agree. Failed reads (disk, network, permissions) are always errors.
#pragma once

#include "weft/base/error.h"

namespace weft {

/// Error for a sample whose bytes are damaged: reading them again would not help. The text begins with the sample's name.
class BadDataError : public InputError {
 public:
  using InputError::InputError;
};

/// Policy for damage found when a set is opened.
enum class BadData {
  refuse,  ///< an error that names it
  skip     ///< the set opens without it and names it in left_out()
};

/// Policy for damage found when a sample is read.
enum class BadSample {
  refuse,   ///< an error that names it
  replace,  ///< another sample of the set replaces it, drawn from (seed, epoch, sample): for training
  ignore    ///< its target does not count (kIgnore): for evaluation
};

/// Ends the text of an error that BadData::skip would avoid.
inline constexpr const char* kOrSkip = "or set data.skip_bad = true";

}  // namespace weft
