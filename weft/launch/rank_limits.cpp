#include "weft/launch/rank_limits.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>

#include "weft/base/cores.h"
#include "weft/base/error.h"
#include "weft/base/units.h"

namespace weft {

void check_rank_count(int num_ranks) {
  constexpr int kFewRanks = 256, kMostRanksACore = 64;
  if (num_ranks < 1) throw InputError(fmt::format("-n {}: the number of ranks must be at least 1", num_ranks));
  const int cores = available_cores(), most = std::max(kFewRanks, kMostRanksACore * cores);
  if (num_ranks > most) {
    throw InputError(
        fmt::format("-n {}: at most {} ranks start on a host with {}, to keep a typo from "
                    "overloading it",
                    num_ranks, most, counted(cores, "core")));
  }
}

void provide_descriptors(int num_ranks) {
  const rlim_t needed = 64 + 8 * static_cast<rlim_t>(num_ranks);
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= needed) return;
  if (limit.rlim_max < needed) {
    throw Error(fmt::format("{} need about {} open files per process, but at most {} are allowed; raise the limit (ulimit -n)",
                            counted(num_ranks, "rank"), needed, limit.rlim_max));
  }
  limit.rlim_cur = needed;
  setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace weft
