// Token streams cut into windows: text read as bytes, and files of uint16 or uint32 token ids.
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
  std::string path;                ///< a file, or a folder whose regular files are concatenated in name order
  TokenType type = TokenType::u8;  ///< u8: text, whose bytes are the tokens
  int64_t vocabulary = 256;        ///< ids must be below it; checked on reading
  double begin = 0.0;              ///< start of the part of the stream used, as a fraction of its length
  double end = 1.0;                ///< end of that part
  int64_t context = 0;             ///< tokens per sample
  bool shift = false;              ///< shift the windows by an offset drawn from (seed, epoch), so that epochs differ
  uint64_t seed = 0;               ///< for the shifts, the order of groups, and which documents share a window
  int64_t mix_bytes =
      int64_t{128} << 20;  ///< memory of groups whose windows are mixed (GroupOrderOptions::window_bytes), with `shift`
};

/// Folder where Debian's fortunes puts its texts: the default corpus. Links and *.dat index files in it are skipped.
inline constexpr const char* kDefaultTextFolder = "/usr/share/games/fortunes";

/// Positions [begin, end) of the part used. Throws InputError for invalid fractions and a context below 1.
std::pair<int64_t, int64_t> part_of(const TokenFile& file, const TokenSource& source);

/// Samples of `file`: inputs[0] and target int64 [n, context]. Sample i is the window of `context` tokens from token i *
/// context; target is the same, one token later. The last, shorter window is padded, with kIgnore targets, so that every token
/// except the first is predicted exactly once. With `shift` there is one window fewer (but at least one), none is padded, and
/// all start later by an offset that is fixed for an epoch. Throws InputError for a missing, empty or too short file, a length
/// that is not a multiple of the token size, or an id out of range.
std::shared_ptr<Dataset> open_tokens(const TokenFile& file);

/// The same for tokens of another source; `file` says how they are cut into samples, and its path names them in errors. If the
/// source is read a group at a time, with `shift`, the stream has the groups in a new random order each epoch, and the windows
/// have their own order (Dataset::is_ordered(), data/group_order.h).
std::shared_ptr<Dataset> open_tokens(const TokenFile& file, std::shared_ptr<const TokenSource> source);

}  // namespace weft
