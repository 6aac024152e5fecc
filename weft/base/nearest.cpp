#include "weft/base/nearest.h"

#include <algorithm>

namespace weft {
namespace {

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return result;
}

}  // namespace

int edit_distance(std::string_view a, std::string_view b) {
  // Three rows of the table: a swap of neighbours looks two rows back.
  std::vector<int> before(b.size() + 1), above(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) above[j] = static_cast<int>(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = static_cast<int>(i);
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before.swap(above);
    above.swap(row);
  }
  return above[b.size()];
}

std::string nearest(std::string_view word, const std::vector<std::string>& candidates, int most) {
  constexpr size_t kLetters = 200;  // longer than any name; a word of a megabyte takes seconds
  const std::string wanted = lower(word.substr(0, kLetters));
  const std::string* best = nullptr;
  int best_distance = 0;
  for (const std::string& candidate : candidates) {
    const int distance = edit_distance(wanted, lower(candidate));
    if (distance > most || (best != nullptr && distance >= best_distance)) continue;
    best = &candidate;
    best_distance = distance;
  }
  return best == nullptr ? std::string() : *best;
}

}  // namespace weft
