// CheckpointIndex: what is in a checkpoint and where: the JSON file that a person or another program can read.
//
// A checkpoint is a folder: data files of plain bytes, index.json, and complete.json, written last, which holds the index's
// SHA-256. Without that marker it is none. A tensor has a global shape and pieces, each of which says which of its elements
// (flattened, row-major) stand where in a data file: no rank, mesh or shard is in it. Values are little-endian.
//
//   {"format": "weft checkpoint", "version": 1, "chunk_bytes": 1048576,
//    "files": {"data-00000.bin": 4096}, "clock": {"step": 20, ...}, ...,
//    "tensors": {"model/head.weight": {"type": "F32", "shape": [16, 64], "pieces": [
//        {"elements": [0, 512], "file": "data-00000.bin", "offset": 0, "xxh3": ["85ab..."]},
//        {"elements": [512, 32, 64, 8], ...}]}}}
//
// "elements" is [begin, length], or [begin, length, stride, count] for `count` runs of `length`, `stride` apart: a column of a
// matrix. "xxh3" has the 64-bit XXH3 of each `chunk_bytes` of the piece, so that who needs a part of it reads and checks that.
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace weft {

inline constexpr int kCheckpointVersion = 1;                   ///< that is written; older ones are read
inline constexpr int64_t kChunkBytes = int64_t{1} << 20;       ///< of a piece that have a checksum
inline constexpr const char* kIndexFile = "index.json";        ///< in a checkpoint's folder
inline constexpr const char* kCompleteFile = "complete.json";  ///< in a checkpoint's folder, once it is whole
inline constexpr int64_t kMostIndexBytes = int64_t{1} << 30;   ///< a longer index is refused unread

/// A rank's data file: "data-00003.bin" is rank 3's.
std::string data_file(int rank);

/// Elements of a flattened tensor: `count` runs of `length`, `stride` apart.
struct ElementRuns {
  int64_t begin = 0;   ///< the first element
  int64_t length = 0;  ///< of each run
  int64_t stride = 0;  ///< from one run's begin to the next one's; 0 where there is one
  int64_t count = 1;   ///< runs

  int64_t numel() const { return length * count; }  ///< of all runs
};

/// Elements of a tensor in a data file, run after run without gaps.
struct StoredPiece {
  ElementRuns elements;             ///< which
  std::string file;                 ///< in the checkpoint's folder
  int64_t offset = 0;               ///< its first byte there
  std::vector<uint64_t> checksums;  ///< XXH3 of each chunk_bytes of it, the last of what remains
};

/// A tensor of a checkpoint.
struct StoredState {
  at::ScalarType type = at::kFloat;  ///< of its elements
  std::vector<int64_t> shape;        ///< of the whole
  std::vector<StoredPiece> pieces;   ///< each element is in one
};

/// What is in a checkpoint.
struct CheckpointIndex {
  int64_t chunk_bytes = kChunkBytes;           ///< StoredPiece::checksums
  std::map<std::string, int64_t> files;        ///< data files and their lengths in bytes
  std::map<std::string, std::string> texts;    ///< further entries, by name: JSON texts that others make and read
  std::map<std::string, StoredState> tensors;  ///< by name

  /// Adds the files, pieces and texts of another part of the same checkpoint. Throws Error where a tensor has another type or
  /// shape there.
  void merge(const CheckpointIndex& other);
  int64_t bytes() const;  ///< of all data files
};

}  // namespace weft
