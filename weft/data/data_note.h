// DataNote: names an item of data that is not used (bad, or of another kind), with the reason, or counts further such items.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace weft {

/// One item, or a summary of many further items.
struct DataNote {
  int64_t count = 1;  ///< items covered
  std::string text;   ///< "owt/readme.md (text)", "80 more, after a/y.txt (no image)"

  DataNote(std::string text, int64_t count = 1) : count(count), text(std::move(text)) {}  // NOLINT: implicit on purpose
  auto operator<=>(const DataNote&) const = default;                                      ///< notes of many items come last
};
using DataNotes = std::vector<DataNote>;

/// Number of items covered by all notes.
int64_t count_of(const DataNotes& notes);

/// Texts of the notes, in order.
std::vector<std::string> texts_of(const DataNotes& notes);

/// Adds one item. From the thousandth on, items share one note with their count and the last text.
void add_note(DataNotes& notes, const std::string& text);

/// Ends the error of a set without samples: "; left out: 3, the first a.jsonl, row 1: it has no 'text'; passed over: ...".
std::string first_notes(const DataNotes& left_out, const DataNotes& passed_over);

}  // namespace weft
