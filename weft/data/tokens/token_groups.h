// Token sources that are read in groups of documents: blocks of JSON lines, row groups of Parquet files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "weft/data/tokens/token_source.h"

namespace weft {

/// Tokens of documents one after another, in stored form: text as bytes, with a line break after each document.
struct TokenRun {
  std::vector<uint8_t> text;    ///< tokens that are bytes
  std::vector<uint32_t> ids;    ///< tokens that are ids, instead of text
  std::vector<int64_t> starts;  ///< number of tokens before each document

  int64_t size() const { return static_cast<int64_t>(text.size() + ids.size()); }  ///< tokens
  void begin_document() { starts.push_back(size()); }                              ///< begins a document at the next token
};

/// Documents in groups. Thread-safe.
class TokenGroups {
 public:
  virtual ~TokenGroups() = default;
  /// True if the tokens are bytes of text.
  virtual bool is_text() const = 0;
  /// Number of tokens per group, at least 1 each.
  virtual const std::vector<int64_t>& counts() const = 0;
  /// Reads a group. Throws InputError, naming the file, if it is damaged or has changed.
  virtual TokenRun load(size_t group) const = 0;
  /// See Dataset::left_out().
  virtual DataNotes left_out() const { return {}; }
  /// See Dataset::passed_over().
  virtual DataNotes passed_over() const { return {}; }
};

/// Throws InputError for a vocabulary that exceeds the 32 bits of stored ids, or is below 256 for text.
void check_vocabulary(int64_t vocabulary, bool is_text, const std::string& name);

/// Returns the tokens of all groups one after another. Caches `cache_bytes` of groups, or two groups if they are larger.
std::shared_ptr<const TokenSource> token_source(std::shared_ptr<const TokenGroups> groups, int64_t cache_bytes);

}  // namespace weft
