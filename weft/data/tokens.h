// Token streams: text read as bytes, and memory-mapped files of uint16 or uint32 token ids, cut into windows.
#pragma once

#include <memory>
#include <string>

#include "weft/data/dataset.h"

namespace weft {

enum class TokenType { u8, u16, u32 };

struct TokenFile {
  std::string path;  ///< a file, or a folder whose regular files are read in name order, separated by nothing
  TokenType type = TokenType::u8;
  int64_t vocabulary = 256;  ///< ids must be below it; checked as they are read
  double begin = 0.0;        ///< part of the stream to use, as shares of its length: [begin, end)
  double end = 1.0;
  int64_t context = 0;  ///< tokens a sample
  bool shift = false;   ///< shift the windows by an offset drawn from (seed, epoch), so that epochs differ
  uint64_t seed = 0;
};

/// Sample i is the window of `context` tokens that starts at i * context (+ shift); target is the same one token later. The
/// last, shorter window of an unshifted stream is padded, with kIgnore targets, so that every token is predicted exactly once.
/// Throws InputError for a missing, empty or too short file, a length that is no multiple of the token size, an id out of
/// range.
std::shared_ptr<Dataset> open_tokens(const TokenFile& file);

}  // namespace weft
