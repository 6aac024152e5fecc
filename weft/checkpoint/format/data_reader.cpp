#include "weft/checkpoint/format/data_reader.h"

#include <ATen/ops/empty_like.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "weft/base/error.h"
#include "weft/base/math.h"
#include "weft/base/storage_error.h"
#include "weft/checkpoint/format/checksum.h"

namespace weft {
namespace {

constexpr int64_t kWindowBytes = int64_t{8} << 20;  // bytes per read, but at least a chunk

}  // namespace

/// Bytes of a piece to copy to the part's memory.
struct DataReader::Copy {
  int64_t from = 0;  ///< in the piece
  int64_t to = 0;    ///< in memory
  int64_t bytes = 0;
};

namespace {

/// Calls visit(offset in the piece, offset in memory, elements) for each overlap of `piece` with `runs`, sorted by whole_begin.
template <class Visit>
void for_each_overlap(const ElementRuns& piece, const std::vector<StateRun>& runs, const Visit& visit) {
  auto run = runs.begin();
  for (int64_t i = 0; i < piece.count; ++i) {
    const int64_t begin = piece.begin + i * piece.stride, end = begin + piece.length;
    run = std::partition_point(run, runs.end(), [begin](const StateRun& r) { return r.whole_begin + r.numel <= begin; });
    for (auto r = run; r != runs.end() && r->whole_begin < end; ++r) {
      const int64_t from = std::max(begin, r->whole_begin), to = std::min(end, r->whole_begin + r->numel);
      visit(i * piece.length + from - begin, r->memory_begin + from - r->whole_begin, to - from);
    }
  }
}

}  // namespace

DataReader::DataReader(DataFiles& files, std::string checkpoint, const CheckpointIndex& index)
    : data_files_(files), checkpoint_(std::move(checkpoint)), index_(index) {}

void DataReader::read(const StatePart& given) {
  const StatePart part = narrow_to_runs(given);
  const std::string where = data_files_.full(checkpoint_);
  const auto found = index_.tensors.find(part.name);
  if (found == index_.tensors.end()) throw InputError(fmt::format("{}: no tensor '{}'", where, part.name));
  const StoredState& stored = found->second;
  if (stored.shape != part.shape) {
    throw InputError(fmt::format("{}: tensor '{}' is [{}], expected [{}]", where, part.name, fmt::join(stored.shape, ", "),
                                 fmt::join(part.shape, ", ")));
  }
  if (stored.type != part.memory.scalar_type()) {
    throw InputError(fmt::format("{}: tensor '{}' is {}, expected {}", where, part.name, c10::toString(stored.type),
                                 c10::toString(part.memory.scalar_type())));
  }
  c10::NoGradGuard no_grad;
  std::vector<StateRun> runs = part.runs;
  std::sort(runs.begin(), runs.end(), [](const StateRun& a, const StateRun& b) { return a.whole_begin < b.whole_begin; });
  const auto element = static_cast<int64_t>(c10::elementSize(stored.type));
  const at::Tensor memory = part.memory.is_cpu() ? part.memory : part.memory.cpu();
  for (const StoredPiece& piece : stored.pieces) {
    std::vector<Copy> copies;
    for_each_overlap(piece.elements, runs, [&](int64_t from, int64_t to, int64_t numel) {
      copies.push_back({from * element, to * element, numel * element});
    });
    if (!copies.empty()) read_piece(part, piece, copies, static_cast<char*>(memory.mutable_data_ptr()));
  }
  if (!memory.is_same(part.memory)) part.memory.copy_(memory);
}

void DataReader::read_piece(const StatePart& part, const StoredPiece& piece, const std::vector<Copy>& copies, char* to) {
  const int64_t chunk = index_.chunk_bytes, window = std::max(kWindowBytes / chunk, int64_t{1}) * chunk;
  const int64_t end = piece.elements.numel() * static_cast<int64_t>(part.memory.element_size());
  size_t next = 0;  // next copy; copies are in the order of the piece
  for (int64_t begin = 0; next < copies.size();) {
    begin = std::max(begin, copies[next].from / chunk * chunk);
    // As many adjacent needed chunks as fit.
    int64_t until = begin;
    for (size_t i = next; i < copies.size() && (i == next || copies[i].from <= until); ++i) {
      until = std::min(begin + window, std::max(until, round_up(copies[i].from + copies[i].bytes, chunk)));
    }
    const int64_t bytes = std::min(until, end) - begin;
    const Copy& first = copies[next];
    const bool direct = first.from <= begin && first.from + first.bytes >= begin + bytes;
    if (!direct && buffer_.size() < static_cast<size_t>(bytes)) buffer_.resize(static_cast<size_t>(bytes));
    char* data = direct ? to + first.to + begin - first.from : buffer_.data();
    read_checked(part.name, piece, begin, data, bytes);
    for (; next < copies.size() && copies[next].from < begin + bytes; ++next) {
      const Copy& c = copies[next];
      const int64_t from = std::max(c.from, begin), to_end = std::min(c.from + c.bytes, begin + bytes);
      if (!direct) std::memcpy(to + c.to + from - c.from, data + from - begin, static_cast<size_t>(to_end - from));
      if (c.from + c.bytes > begin + bytes) break;  // the rest is in the next window
    }
    begin += bytes;
  }
}

/// Reads whole chunks of a piece; the last may end with the piece.
void DataReader::read_checked(const std::string& tensor, const StoredPiece& piece, int64_t begin, char* data, int64_t bytes) {
  const int64_t chunk = index_.chunk_bytes;
  StorageReader& file = open(piece.file);
  try {
    file.read(piece.offset + begin, data, bytes);
  } catch (const DamageError& error) {
    fail(tensor, piece, error.what());
  }
  bytes_read_ += bytes;
  for (int64_t at = 0; at < bytes; at += chunk) {
    if (xxh3_checksum(data + at, std::min(chunk, bytes - at)) == piece.checksums[static_cast<size_t>((begin + at) / chunk)])
      continue;
    fail(tensor, piece, fmt::format("wrong checksum of its bytes from {} on", piece.offset + begin + at));
  }
}

void DataReader::check(const std::string& name) {
  const StoredState& stored = index_.tensors.at(name);
  const auto element = static_cast<int64_t>(c10::elementSize(stored.type));
  const int64_t window = std::max(kWindowBytes / index_.chunk_bytes, int64_t{1}) * index_.chunk_bytes;
  for (const StoredPiece& piece : stored.pieces) {
    const int64_t end = piece.elements.numel() * element;
    for (int64_t begin = 0; begin < end; begin += window) {
      const int64_t bytes = std::min(window, end - begin);
      if (buffer_.size() < static_cast<size_t>(bytes)) buffer_.resize(static_cast<size_t>(bytes));
      read_checked(name, piece, begin, buffer_.data(), bytes);
    }
  }
}

StorageReader& DataReader::open(const std::string& file) {
  std::unique_ptr<StorageReader>& reader = files_[file];
  if (reader) return *reader;
  const std::string path = checkpoint_.empty() ? file : checkpoint_ + "/" + file;
  std::unique_ptr<StorageReader> opened = data_files_.open(path);
  const int64_t due = index_.files.at(file);
  if (opened->size() != due) {
    throw DamageError(fmt::format("{}: damaged: it has {} bytes, expected {}", data_files_.full(path), opened->size(), due));
  }
  reader = std::move(opened);
  return *reader;
}

void DataReader::fail(const std::string& tensor, const StoredPiece& piece, const std::string& what) const {
  const ElementRuns& e = piece.elements;
  const int64_t last = e.begin + (e.count - 1) * e.stride + e.length;
  throw DamageError(fmt::format("{}: damaged in tensor '{}', within elements [{}, {}): {}",
                                data_files_.full(checkpoint_.empty() ? piece.file : checkpoint_ + "/" + piece.file), tensor,
                                e.begin, last, what));
}

}  // namespace weft
