#include "weft/checkpoint/format/data_writer.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "weft/checkpoint/format/checksum.h"

namespace weft {

/// Buffers bytes on their way to the file, chunk by chunk.
class DataWriter::Chunks {
 public:
  explicit Chunks(std::unique_ptr<StorageWriter> out) : out_(std::move(out)) {}

  void append(const char* data, int64_t bytes) {
    while (bytes > 0) {
      const int64_t part = std::min(bytes, kChunkBytes - filled_);
      if (part == kChunkBytes) {
        put(data, part);
      } else {
        if (buffer_.empty()) buffer_.resize(static_cast<size_t>(kChunkBytes));
        std::memcpy(buffer_.data() + filled_, data, static_cast<size_t>(part));
        filled_ += part;
        if (filled_ == kChunkBytes) flush();
      }
      data += part;
      bytes -= part;
    }
  }

  /// Ends a piece and returns its checksums.
  std::vector<uint64_t> end_piece() {
    flush();
    return std::exchange(checksums_, {});
  }

  int64_t written() const { return written_; }
  void close() { out_->close(); }

 private:
  void flush() {
    if (filled_ > 0) put(buffer_.data(), std::exchange(filled_, 0));
  }
  void put(const char* data, int64_t bytes) {
    checksums_.push_back(xxh3_checksum(data, bytes));
    out_->write(data, bytes);
    written_ += bytes;
  }

  std::unique_ptr<StorageWriter> out_;
  std::vector<char> buffer_;
  int64_t filled_ = 0;
  int64_t written_ = 0;
  std::vector<uint64_t> checksums_;
};

DataWriter::DataWriter(DataFiles& files, const std::string& checkpoint, const std::string& file)
    : file_(file), out_(std::make_unique<Chunks>(files.create(checkpoint.empty() ? file : checkpoint + "/" + file))) {}

DataWriter::~DataWriter() = default;

std::vector<ElementRuns> join_runs(const std::vector<StateRun>& runs) {
  std::vector<ElementRuns> pieces;
  for (const StateRun& run : runs) {
    if (!pieces.empty()) {
      ElementRuns& last = pieces.back();
      const int64_t step = run.whole_begin - last.begin - (last.count - 1) * last.stride;
      if (run.numel == last.length && step >= last.length && (last.count == 1 || step == last.stride)) {
        last.stride = step;
        ++last.count;
        continue;
      }
    }
    pieces.push_back({.begin = run.whole_begin, .length = run.numel, .stride = 0, .count = 1});
  }
  return pieces;
}

void DataWriter::add(const StatePart& given) {
  const StatePart part = narrow_to_runs(given);
  if (part.runs.empty() && part.whole_numel() > 0) return;
  StoredState& stored =
      index_.tensors.try_emplace(part.name, StoredState{part.memory.scalar_type(), part.shape, {}}).first->second;
  if (part.runs.empty()) return;
  const at::Tensor memory = part.memory.cpu();
  const auto* data = static_cast<const char*>(memory.const_data_ptr());
  const auto element = static_cast<int64_t>(memory.element_size());
  auto run = part.runs.begin();
  for (const ElementRuns& elements : join_runs(part.runs)) {
    StoredPiece piece{elements, file_, out_->written(), {}};
    for (int64_t i = 0; i < elements.count; ++i, ++run) out_->append(data + run->memory_begin * element, run->numel * element);
    piece.checksums = out_->end_piece();
    stored.pieces.push_back(std::move(piece));
  }
}

CheckpointIndex DataWriter::close() {
  out_->close();
  index_.files[file_] = out_->written();
  return std::move(index_);
}

}  // namespace weft
