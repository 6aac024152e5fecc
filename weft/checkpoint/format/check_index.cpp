#include "weft/checkpoint/format/check_index.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "weft/base/error.h"
#include "weft/base/math.h"

namespace weft {
namespace {

constexpr int64_t kMostElements = int64_t{1} << 56;
constexpr int64_t kMostRuns = int64_t{1} << 25;  // per tensor: checking takes memory for each run

void require(bool good, const std::string& what) {
  if (!good) throw InputError(what);
}

/// True for a plain name: the file cannot be outside the checkpoint's folder.
bool is_plain(const std::string& file) {
  return !file.empty() && file != "." && file != ".." && file.find('/') == std::string::npos &&
         file.find('\0') == std::string::npos;
}

using Range = std::pair<int64_t, int64_t>;

/// True if the ranges, once sorted, cover [0, end) without gap or overlap (`whole`), or at least do not overlap.
bool covers(std::vector<Range>& ranges, int64_t end, bool whole) {
  std::sort(ranges.begin(), ranges.end());
  int64_t at = 0;
  for (const auto& [first, last] : ranges) {
    if (whole ? first != at : first < at) return false;
    at = last;
  }
  return whole ? at == end : at <= end;
}

void check_piece(const CheckpointIndex& index, const StoredPiece& piece, int64_t numel, int64_t element_bytes) {
  const ElementRuns& e = piece.elements;
  const bool in_range = e.begin >= 0 && e.length > 0 && e.count > 0 && e.begin < numel && e.length <= numel - e.begin &&
                        (e.count == 1 || (e.stride >= e.length && e.stride <= numel)) &&
                        (e.count == 1 || e.count - 1 <= (numel - e.begin - e.length) / e.stride);
  require(in_range,
          fmt::format("elements [{}, {}, {}, {}] exceed its {} elements", e.begin, e.length, e.stride, e.count, numel));
  const auto file = index.files.find(piece.file);
  require(file != index.files.end(), fmt::format("file '{}' is not in \"files\"", piece.file));
  const int64_t bytes = e.numel() * element_bytes;
  require(piece.offset >= 0 && piece.offset <= file->second && bytes <= file->second - piece.offset,
          fmt::format("{} bytes from offset {} exceed {}", bytes, piece.offset, piece.file));
  const auto sums = static_cast<int64_t>(piece.checksums.size());
  require(sums == ceil_divide(bytes, index.chunk_bytes),
          fmt::format("{} checksums for {} bytes in chunks of {}", sums, bytes, index.chunk_bytes));
}

/// Checks the elements in a tensor's pieces, run by run.
void check_elements(const StoredState& tensor, int64_t numel, bool whole) {
  int64_t runs = 0, elements = 0;
  for (const StoredPiece& piece : tensor.pieces) {
    runs += piece.elements.count;
    require(runs <= kMostRuns, "its pieces are cut into too many runs");
    elements += piece.elements.numel();
    require(elements <= numel, "its pieces have more elements than its shape");
  }
  std::vector<Range> ranges;
  ranges.reserve(static_cast<size_t>(runs));
  for (const StoredPiece& piece : tensor.pieces) {
    const ElementRuns& e = piece.elements;
    for (int64_t i = 0; i < e.count; ++i) ranges.emplace_back(e.begin + i * e.stride, e.begin + i * e.stride + e.length);
  }
  require(covers(ranges, numel, whole), "its pieces overlap or leave elements out");
}

}  // namespace

int64_t checked_numel(const std::vector<int64_t>& shape) {
  int64_t numel = 1, others = 1;  // product of the sizes that are not zero
  for (const int64_t size : shape) {
    require(size >= 0 && (size == 0 || others <= kMostElements / size), "its shape is invalid");
    numel *= size;
    others *= std::max<int64_t>(1, size);
  }
  return numel;
}

void check_index(const CheckpointIndex& index, bool whole) {
  require(index.chunk_bytes >= 4096 && index.chunk_bytes <= (int64_t{1} << 30), "\"chunk_bytes\" is out of range");
  std::map<std::string, std::vector<Range>> used;
  for (const auto& [file, bytes] : index.files) {
    require(is_plain(file) && bytes >= 0, fmt::format("file '{}' has an invalid name or length", file));
    used[file];
  }
  for (const auto& [name, tensor] : index.tensors) {
    try {
      const int64_t numel = checked_numel(tensor.shape);
      const auto element_bytes = static_cast<int64_t>(c10::elementSize(tensor.type));
      for (const StoredPiece& piece : tensor.pieces) {
        check_piece(index, piece, numel, element_bytes);
        used[piece.file].emplace_back(piece.offset, piece.offset + piece.elements.numel() * element_bytes);
      }
      check_elements(tensor, numel, whole);
    } catch (const InputError& error) {
      throw InputError(fmt::format("tensor '{}': {}", name, error.what()));
    }
  }
  for (auto& [file, ranges] : used) {
    require(covers(ranges, index.files.at(file), true), fmt::format("pieces in {} overlap or leave bytes out", file));
  }
}

}  // namespace weft
