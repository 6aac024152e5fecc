#include "weft/data/tokens/pack.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "weft/data/sampler.h"

namespace weft {
namespace {

/// Cuts tokens [begin, end), a document or its share in the part: whole windows first, then the rest.
void cut(int64_t begin, int64_t end, int64_t window, std::vector<PackedPiece>& pieces) {
  for (const int64_t last = end - 1; begin < last; begin += window) pieces.push_back({begin, std::min(window, last - begin)});
}

std::vector<PackedPiece> pieces_of(const std::vector<int64_t>& starts, int64_t begin, int64_t end, int64_t window) {
  std::vector<PackedPiece> pieces;
  pieces.reserve(starts.size());
  auto next = std::upper_bound(starts.begin(), starts.end(), begin);
  for (int64_t from = begin; from < end;) {
    const int64_t to = next == starts.end() ? end : std::min(*next++, end);
    cut(from, to, window, pieces);
    from = to;
  }
  return pieces;
}

/// Sorts by falling length; equal lengths in an order drawn from the seed.
void sort(std::vector<PackedPiece>& pieces, uint64_t seed) {
  if (pieces.empty()) return;
  const Sampler order(static_cast<int64_t>(pieces.size()), {.seed = seed});
  std::vector<PackedPiece> drawn;
  drawn.reserve(pieces.size());
  for (int64_t i = 0; i < order.size(); ++i) drawn.push_back(pieces[static_cast<size_t>(order.sample(i))]);
  std::stable_sort(drawn.begin(), drawn.end(), [](const auto& a, const auto& b) { return a.tokens > b.tokens; });
  pieces = std::move(drawn);
}

/// Returns the window of each piece: the fullest that has room for it.
std::vector<int64_t> fit(const std::vector<PackedPiece>& pieces, int64_t window, int64_t& num_windows) {
  std::map<int64_t, std::vector<int64_t>> by_room;  // windows by number of free places
  std::vector<int64_t> result;
  result.reserve(pieces.size());
  num_windows = 0;
  for (const PackedPiece& piece : pieces) {
    const auto fullest = by_room.lower_bound(piece.tokens);
    int64_t room = window, number = num_windows;
    if (fullest == by_room.end()) {
      ++num_windows;
    } else {
      room = fullest->first;
      number = fullest->second.back();
      fullest->second.pop_back();
      if (fullest->second.empty()) by_room.erase(fullest);
    }
    result.push_back(number);
    if (room > piece.tokens) by_room[room - piece.tokens].push_back(number);
  }
  return result;
}

}  // namespace

Packing pack_documents(const std::vector<int64_t>& starts, int64_t begin, int64_t end, int64_t window, uint64_t seed) {
  std::vector<PackedPiece> pieces = pieces_of(starts, begin, end, window);
  sort(pieces, seed);
  int64_t num_windows = 0;
  const std::vector<int64_t> window_of = fit(pieces, window, num_windows);
  Packing packing;
  packing.first.assign(static_cast<size_t>(num_windows) + 1, 0);
  for (const int64_t number : window_of) ++packing.first[static_cast<size_t>(number) + 1];
  std::partial_sum(packing.first.begin(), packing.first.end(), packing.first.begin());
  packing.pieces.resize(pieces.size());
  std::vector<int64_t> next = packing.first;
  for (size_t i = 0; i < pieces.size(); ++i) {
    packing.pieces[static_cast<size_t>(next[static_cast<size_t>(window_of[i])]++)] = pieces[i];
    packing.tokens += pieces[i].tokens;
  }
  return packing;
}

}  // namespace weft
