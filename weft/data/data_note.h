// DataNote: what is told of data that is no sample, bad or none of the kind: a name with its reason, or of many how many more.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace weft {

/// One thing, or what many others have in common.
struct DataNote {
  int64_t count = 1;  ///< things that it tells of
  std::string text;   ///< "owt/readme.md (text)", "80 more, after a/y.txt (no image)"

  DataNote(std::string text, int64_t count = 1) : count(count), text(std::move(text)) {}  // NOLINT: a text is one
  auto operator<=>(const DataNote&) const = default;                                      ///< many come last
};
using DataNotes = std::vector<DataNote>;

/// Things that all notes tell of.
int64_t count_of(const DataNotes& notes);

/// The texts, in order.
std::vector<std::string> texts_of(const DataNotes& notes);

/// Adds one thing. From the thousandth on they are counted in one note, which tells the last.
void add_note(DataNotes& notes, const std::string& text);

/// Ends the error of a set without samples: "; left out: 3, the first a.jsonl, row 1: it has no 'text'; passed over: ...".
std::string first_notes(const DataNotes& left_out, const DataNotes& passed_over);

}  // namespace weft
