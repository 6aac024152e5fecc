// Token sources that are read a group of documents at a time: a block of JSON lines, a Parquet file's row group.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "weft/data/tokens/token_source.h"

namespace weft {

/// Tokens of documents one after another, as they are kept: of text its bytes, with a line break after each document.
struct TokenRun {
  std::vector<uint8_t> text;    ///< bytes
  std::vector<uint32_t> ids;    ///< in place of text
  std::vector<int64_t> starts;  ///< how many tokens come before each document

  int64_t size() const { return static_cast<int64_t>(text.size() + ids.size()); }  ///< tokens
  void begin_document() { starts.push_back(size()); }                              ///< with the next token
};

/// Documents in groups. Thread-safe.
class TokenGroups {
 public:
  virtual ~TokenGroups() = default;
  /// Whether the tokens are bytes of text.
  virtual bool is_text() const = 0;
  /// How many tokens each group has: at least 1.
  virtual const std::vector<int64_t>& counts() const = 0;
  /// Reads a group. Throws InputError that names the file: where it is damaged, or not what it was any more.
  virtual TokenRun load(size_t group) const = 0;
  /// As Dataset::left_out().
  virtual DataNotes left_out() const { return {}; }
  /// As Dataset::passed_over().
  virtual DataNotes passed_over() const { return {}; }
};

/// Ids are kept in 32 bits: more are refused with an InputError, as are less than 256 for text.
void check_vocabulary(int64_t vocabulary, bool is_text, const std::string& name);

/// The tokens of all groups one after another. Of what was read it keeps `cache_bytes` of memory, or two groups where these
/// have more.
std::shared_ptr<const TokenSource> token_source(std::shared_ptr<const TokenGroups> groups, int64_t cache_bytes);

}  // namespace weft
