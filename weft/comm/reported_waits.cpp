#include "weft/comm/reported_waits.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "weft/base/error.h"
#include "weft/base/parse_number.h"
#include "weft/comm/rank_environment.h"
#include "weft/comm/store/open_store.h"
#include "weft/comm/store/store.h"
#include "weft/comm/wait/rank_rows.h"
#include "weft/comm/wait/rank_table.h"

namespace weft {
namespace {

constexpr size_t kMostNamed = 4, kMostWaits = 2;

/// "rank 3", "ranks 0, 1", "ranks 0, 1, 2, 3 and 12 others"
std::string named_ranks(const std::vector<int>& ranks) {
  const size_t named = std::min(ranks.size(), kMostNamed);
  std::string text = fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s",
                                 fmt::join(ranks.begin(), ranks.begin() + static_cast<std::ptrdiff_t>(named), ", "));
  if (ranks.size() > named) text += fmt::format(" and {} others", ranks.size() - named);
  return text;
}

struct WaitsInOne {
  std::string doing;
  std::vector<int> ranks, lost;
};

/// Store prefix where the ranks of the current turn write; earlier turns may have met in the same store (join.cpp).
Store store_of_turn(const Store& all, int rank, const Deadline& deadline) {
  const std::string key = fmt::format("joined/{}", rank);
  Store asked = all.within(deadline);
  if (!asked.has(key)) return all;
  const auto before = parse_number<int>(asked.get(key, deadline, "reading who waits"));
  return before ? all.below(fmt::format("turn/{}", *before + 1)) : all;
}

}  // namespace

std::string describe_waits_for(const std::vector<RankRow>& rows, const std::vector<int>& lost) {
  std::vector<WaitsInOne> waits;
  for (size_t rank = 0; rank < rows.size(); ++rank) {
    const RankRow& row = rows[rank];
    std::vector<int> missed;
    for (const int other : row.awaits) {
      if (std::find(lost.begin(), lost.end(), other) != lost.end()) missed.push_back(other);
    }
    if (row.state != RankState::waiting || missed.empty()) continue;
    auto same = std::find_if(waits.begin(), waits.end(), [&](const WaitsInOne& wait) { return wait.doing == row.doing; });
    if (same == waits.end()) same = waits.insert(same, {row.doing, {}, {}});
    same->ranks.push_back(static_cast<int>(rank));
    for (const int other : missed) {
      if (std::find(same->lost.begin(), same->lost.end(), other) == same->lost.end()) same->lost.push_back(other);
    }
  }
  if (waits.size() > kMostWaits) waits.resize(kMostWaits);
  std::vector<std::string> texts;
  texts.reserve(waits.size());
  for (const WaitsInOne& wait : waits) {
    texts.push_back(fmt::format("{} waited in {} for {}", named_ranks(wait.ranks), wait.doing, named_ranks(wait.lost)));
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

std::string reported_waits_for(const StoreAddress& address, int size, const std::vector<int>& lost, const Deadline& deadline) {
  std::vector<RankRow> rows(static_cast<size_t>(size));
  try {
    const Store all(connect(address, deadline.left()), key_prefix_from_environment());
    for (int rank = 0; rank < size; ++rank) {
      if (std::find(lost.begin(), lost.end(), rank) != lost.end()) continue;
      Store store = store_of_turn(all, rank, deadline);
      const std::string key = wait_row_key(rank);
      if (store.has(key, deadline) != true) continue;
      const RankEntry entry = RankEntry::from_text(store.get(key, deadline, "reading who waits"));
      rows[static_cast<size_t>(rank)] = entry.row;
      if (entry.waiting) rows[static_cast<size_t>(rank)].state = RankState::waiting;
    }
  } catch (const Error&) {
    // Uses what has been read.
  }
  return describe_waits_for(rows, lost);
}

}  // namespace weft
