// Token streams: text read as bytes, and memory-mapped files of uint16 or uint32 token ids, cut into windows.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "weft/data/dataset.h"
#include "weft/data/tokens/token_source.h"
#include "weft/data/tokens/token_type.h"

namespace weft {

/// A stream of tokens, and how it is cut into samples.
struct TokenFile {
  std::string path;                ///< a file, or a folder whose regular files are read in name order, separated by nothing
  TokenType type = TokenType::u8;  ///< u8: text, whose bytes are the tokens
  int64_t vocabulary = 256;        ///< ids must be below it; checked as they are read
  double begin = 0.0;              ///< where the part of the stream that is used begins, as a share of its length
  double end = 1.0;                ///< where that part ends
  int64_t context = 0;             ///< tokens a sample
  bool shift = false;              ///< shift the windows by an offset drawn from (seed, epoch), so that epochs differ
  uint64_t seed = 0;               ///< of the shifts, of the order of groups, and of which documents share a window
  int64_t mix_bytes =
      int64_t{128} << 20;  ///< of groups whose windows are mixed (GroupOrderOptions::window_bytes), with `shift`
};

/// Where Debian's fortunes puts its texts: the default corpus. Links and *.dat index files in it are skipped.
inline constexpr const char* kDefaultTextFolder = "/usr/share/games/fortunes";

/// The positions [begin, end) of the part that is used. Throws InputError for shares that are none, and a context below 1.
std::pair<int64_t, int64_t> part_of(const TokenFile& file, const TokenSource& source);

/// The samples of `file`: inputs[0] and target int64 [n, context]. Sample i is the window of `context` tokens from token
/// i * context on; target is the same one token later. The last, shorter window is padded, with kIgnore targets, so that every
/// token but the first is predicted exactly once. With `shift` there is one window less (if there are two), none is padded, and
/// all start later by an offset that is fixed for an epoch.
/// Throws InputError for a missing, empty or too short file, a length that is no multiple of the token size, an id out of
/// range.
std::shared_ptr<Dataset> open_tokens(const TokenFile& file);

/// The same of tokens from elsewhere; `file` tells how they are cut into samples, and what errors call them. Of a source that
/// is read a group at a time, with `shift`, the windows are of the groups one after another in an order that is drawn anew each
/// epoch, and in an order of their own (Dataset::is_ordered(), data/group_order.h).
std::shared_ptr<Dataset> open_tokens(const TokenFile& file, std::shared_ptr<const TokenSource> source);

}  // namespace weft
