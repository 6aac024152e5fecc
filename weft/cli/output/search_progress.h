// SearchProgress: says on a terminal how far a long search for layouts is.
#pragma once

#include "weft/base/stopwatch.h"
#include "weft/plan/search/layout_search.h"

namespace weft {

/// Writes a line to standard error every ten seconds, if that is a terminal.
class SearchProgress {
 public:
  void operator()(const SearchResult& so_far);

 private:
  Stopwatch since_;
};

}  // namespace weft
