// pack: packs documents of any length into windows of one length with as few cuts as possible: best-fit-decreasing (Ding et al.
// 2024, "Fewer truncations improve language modeling", arXiv:2404.10830). Uses no tensors.
//
// A document of n tokens has n - 1 tokens to predict and takes that many places of a window: its last token is only a target. A
// document longer than a window is cut into pieces, each of which begins with the last token of the piece before: wherever it
// is cut, each token except a document's first is predicted exactly once.
#pragma once

#include <cstdint>
#include <vector>

namespace weft {

/// Tokens of a document in one window: inputs [begin, begin + tokens) of the stream, targets one token later.
struct PackedPiece {
  int64_t begin = 0;   ///< position of its first token in the stream
  int64_t tokens = 0;  ///< places that it takes, at least 1
};

/// Assignment of pieces to windows.
struct Packing {
  std::vector<PackedPiece> pieces;  ///< by window, in their order in it
  std::vector<int64_t> first;       ///< first piece of each window, and finally the number of pieces
  int64_t tokens = 0;               ///< places taken by all pieces

  int64_t num_windows() const { return static_cast<int64_t>(first.size()) - 1; }  ///< windows used
};

/// Packs tokens [begin, end) of a stream, whose documents begin at `starts` (ascending; tokens before the first are a document,
/// too), into windows of `window` places. The windows depend on the lengths alone; `seed` decides among documents of equal
/// length. n pieces take O(n log n) time; 16 bytes per piece and 8 per window are kept, and some 40 more per piece are used
/// while packing. Pieces of a window are in falling order of length. The number of windows is at most 11/9 of the minimum, plus
/// four (Johnson et al. 1974); real texts, mostly shorter than a window, come within a few per mille of the minimum.
Packing pack_documents(const std::vector<int64_t>& starts, int64_t begin, int64_t end, int64_t window, uint64_t seed);

}  // namespace weft
