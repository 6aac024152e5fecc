// TokenSource: a stream of tokens with random access.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weft/data/data_note.h"

namespace weft {

class GroupReader;

/// Tokens by position, one document after another. Thread-safe.
class TokenSource {
 public:
  virtual ~TokenSource() = default;
  /// Number of tokens.
  virtual int64_t size() const = 0;
  /// Reads tokens [begin, begin + count) into `out`. Throws InputError for a range outside size(), for an id that is not below
  /// the vocabulary, and for a file that has changed.
  virtual void read(int64_t begin, int64_t count, int64_t* out) const = 0;
  /// Start of each document, in order; empty if the source has no document boundaries. 8 bytes per document.
  virtual std::vector<int64_t> document_starts() const { return {}; }
  /// See Dataset::left_out().
  virtual DataNotes left_out() const { return {}; }
  /// See Dataset::passed_over().
  virtual DataNotes passed_over() const { return {}; }
  /// Groups of the source, whose items are tokens, one group after another. Non-null if tokens are read a group at a time, and
  /// an order by groups is therefore better (data/group_order.h). Null: any part costs the same.
  virtual const GroupReader* grouped() const { return nullptr; }
};

}  // namespace weft
