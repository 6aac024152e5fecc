// pack: documents of any length in windows of one length, as whole as they can be: best-fit-decreasing (Ding et al. 2024,
// "Fewer truncations improve language modeling", arXiv:2404.10830). Free of tensors.
//
// A document of n tokens has n - 1 to predict, and takes as many places of a window: its last token is only a target. One that
// has more than a window takes is cut into pieces, of which each begins with the last token of the one before: whatever the
// cuts, each token but a document's first is predicted exactly once.
#pragma once

#include <cstdint>
#include <vector>

namespace weft {

/// Tokens of a document that lie in one window: inputs [begin, begin + tokens) of the stream, targets one token later.
struct PackedPiece {
  int64_t begin = 0;   ///< position of its first token in the stream
  int64_t tokens = 0;  ///< places that it takes, at least 1
};

/// Which pieces lie in which window.
struct Packing {
  std::vector<PackedPiece> pieces;  ///< by window, in the order in which they lie in it
  std::vector<int64_t> first;       ///< of each window its first piece, and at the end how many there are
  int64_t tokens = 0;               ///< places that all pieces take

  int64_t num_windows() const { return static_cast<int64_t>(first.size()) - 1; }  ///< of all pieces
};

/// Packs what tokens [begin, end) of a stream hold of the documents that begin at `starts` (ascending; what lies before the
/// first is one too) into windows of `window` places. Which windows there are depends on the lengths alone, which of several
/// documents of one length go where on `seed` too. n pieces take O(n log n) time; 16 bytes a piece and 8 a window are kept, and
/// some 40 a piece more are in use meanwhile. A window has pieces in falling order of their lengths. There are at most 11/9 as
/// many windows as there must be, and four (Johnson et al. 1974); real texts, most of which are shorter than a window, come
/// within a few in a thousand.
Packing pack(const std::vector<int64_t>& starts, int64_t begin, int64_t end, int64_t window, uint64_t seed);

}  // namespace weft
