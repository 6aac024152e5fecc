// CheckpointIndex: names and places of a checkpoint's tensors, as a JSON file that people and other programs can read.
//
// A checkpoint is a folder: data files of plain bytes, index.json, and complete.json, written last, which holds the index's
// SHA-256. Without that marker the checkpoint is incomplete. A tensor has a global shape and pieces. Each piece says which
// elements (flattened, row-major) are where in a data file, independent of rank, mesh and shard. Values are little-endian.
//
//   {"format": "weft checkpoint", "version": 1, "chunk_bytes": 1048576,
//    "files": {"data-00000.bin": 4096}, "clock": {"step": 20, ...}, ...,
//    "tensors": {"model/head.weight": {"type": "F32", "shape": [16, 64], "pieces": [
//        {"elements": [0, 512], "file": "data-00000.bin", "offset": 0, "xxh3": ["85ab..."]},
//        {"elements": [512, 32, 64, 8], ...}]}}}
//
// "elements" is [begin, length], or [begin, length, stride, count] for `count` runs of `length`, `stride` apart: a column of a
// matrix. "xxh3" has the 64-bit XXH3 of each `chunk_bytes` of the piece, so that a reader of a part checks only that part.
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace weft {

inline constexpr int kCheckpointVersion = 1;                   ///< the version written; older ones are read too
inline constexpr int64_t kChunkBytes = int64_t{1} << 20;       ///< bytes of a piece per checksum
inline constexpr const char* kIndexFile = "index.json";        ///< in a checkpoint's folder
inline constexpr const char* kCompleteFile = "complete.json";  ///< in a checkpoint's folder once it is complete
inline constexpr int64_t kMostIndexBytes = int64_t{1} << 30;   ///< limit; a longer index is rejected unread

/// Returns the name of a rank's data file: "data-00003.bin" for rank 3.
std::string data_file(int rank);

/// Elements of a flattened tensor: `count` runs of `length`, `stride` apart.
struct ElementRuns {
  int64_t begin = 0;   ///< first element
  int64_t length = 0;  ///< of each run
  int64_t stride = 0;  ///< distance between the starts of two runs; 0 for one run
  int64_t count = 1;   ///< runs

  int64_t numel() const { return length * count; }  ///< in all runs
};

/// Elements of a tensor in a data file, run after run without gaps.
struct StoredPiece {
  ElementRuns elements;             ///< elements in this piece
  std::string file;                 ///< in the checkpoint's folder
  int64_t offset = 0;               ///< its first byte in the file
  std::vector<uint64_t> checksums;  ///< XXH3 of each chunk_bytes of the piece; the last chunk may be shorter
};

/// One tensor of a checkpoint.
struct StoredState {
  at::ScalarType type = at::kFloat;  ///< element type
  std::vector<int64_t> shape;        ///< global shape
  std::vector<StoredPiece> pieces;   ///< each element is in exactly one
};

/// Content of a checkpoint.
struct CheckpointIndex {
  int64_t chunk_bytes = kChunkBytes;           ///< bytes per entry of StoredPiece::checksums
  std::map<std::string, int64_t> files;        ///< data files and their lengths in bytes
  std::map<std::string, std::string> texts;    ///< further entries by name: JSON texts of other components
  std::map<std::string, StoredState> tensors;  ///< by name

  /// Adds files, pieces and texts of another part of the same checkpoint. Throws Error if a tensor's type or shape differs
  /// there.
  void merge(const CheckpointIndex& other);
  int64_t bytes() const;  ///< total of all data files
};

}  // namespace weft
