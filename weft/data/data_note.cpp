#include "weft/data/data_note.h"

#include <fmt/format.h>

namespace weft {

int64_t count_of(const DataNotes& notes) {
  int64_t count = 0;
  for (const DataNote& note : notes) count += note.count;
  return count;
}

std::vector<std::string> texts_of(const DataNotes& notes) {
  std::vector<std::string> texts;
  texts.reserve(notes.size());
  for (const DataNote& note : notes) texts.push_back(note.text);
  return texts;
}

void add_note(DataNotes& notes, const std::string& text) {
  constexpr size_t kMost = 1000;
  if (notes.size() < kMost) return notes.emplace_back(text), void();
  const int64_t count = notes.size() == kMost ? 1 : notes.back().count + 1;
  if (notes.size() > kMost) notes.pop_back();
  notes.emplace_back(fmt::format("{} more, the last: {}", count, text), count);
}

std::string first_notes(const DataNotes& left_out, const DataNotes& passed_over) {
  std::string text;
  for (const auto& [what, notes] : {std::pair("left out", &left_out), {"passed over", &passed_over}}) {
    if (!notes->empty()) text += fmt::format("; {}: {}, the first {}", what, count_of(*notes), notes->front().text);
  }
  return text;
}

}  // namespace weft
