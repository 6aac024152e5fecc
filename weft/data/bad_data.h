// What becomes of data that is damaged: refused, or passed over and named. Which samples are bad is a matter of their bytes
// alone, so all ranks, workers and restarts agree on it. Reading that fails (a disk, a network, rights) is no such thing, and
// always an error.
#pragma once

#include "weft/base/error.h"

namespace weft {

/// A sample's bytes are not what they should be: reading them again would not help. The text begins with its name.
class BadDataError : public InputError {
 public:
  using InputError::InputError;
};

/// What to do with what is found to be damaged when a set is opened.
enum class BadData {
  refuse,  ///< an error that names it
  skip     ///< the set is opened without it, and names it in left_out()
};

/// What to do with a sample that is found to be damaged when it is read.
enum class BadSample {
  refuse,   ///< an error that names it
  replace,  ///< another one of the set stands in its place, drawn from (seed, epoch, sample): for training
  ignore    ///< its target does not count (kIgnore): for evaluation
};

/// Ends an error that BadData::skip would have spared.
inline constexpr const char* kOrSkip = "or set data.skip_bad = true";

}  // namespace weft
