// A data set in a few words, to tell whether two are the same.
#pragma once

#include <string>

#include "weft/data/dataset.h"

namespace weft {

/// "60000 samples, digest 0f3a...": of a few of its samples.
std::string data_text(const Dataset& data);

}  // namespace weft
