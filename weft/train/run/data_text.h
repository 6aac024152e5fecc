// A short text that identifies a data set, to compare two of them.
#pragma once

#include <string>

#include "weft/data/dataset.h"

namespace weft {

/// Formats "60000 samples, digest 0f3a...", the digest from a few of its samples.
std::string data_text(const Dataset& data);

}  // namespace weft
