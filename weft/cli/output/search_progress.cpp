#include "weft/cli/output/search_progress.h"

#include <fmt/format.h>
#include <unistd.h>

namespace weft {

void SearchProgress::operator()(const SearchResult& so_far) {
  constexpr double kEvery_s = 10.0;
  if (isatty(STDERR_FILENO) == 0 || since_.seconds() < kEvery_s) return;
  since_ = Stopwatch();
  fmt::print(stderr, "searching: {} layouts, {} simulated, {} of them over memory\n", so_far.layouts, so_far.simulated,
             so_far.too_large);
}

}  // namespace weft
