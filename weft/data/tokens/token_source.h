// TokenSource: a stream of tokens that can be read anywhere.
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
  /// How many there are.
  virtual int64_t size() const = 0;
  /// Reads tokens [begin, begin + count) into `out`. Throws InputError for a range that is not within size(), for an id that is
  /// not below the vocabulary, and for a file that is not what it was any more.
  virtual void read(int64_t begin, int64_t count, int64_t* out) const = 0;
  /// Where each document begins, in order; empty where it does not know of documents. 8 bytes a document.
  virtual std::vector<int64_t> document_starts() const { return {}; }
  /// As Dataset::left_out().
  virtual DataNotes left_out() const { return {}; }
  /// As Dataset::passed_over().
  virtual DataNotes passed_over() const { return {}; }
  /// Where tokens are read a group at a time, so that an order by groups is better (data/group_order.h): the groups, whose
  /// items are tokens, one after another. Null: any part costs the same.
  virtual const GroupReader* grouped() const { return nullptr; }
};

}  // namespace weft
