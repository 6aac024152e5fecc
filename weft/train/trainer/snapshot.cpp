#include "weft/train/trainer/snapshot.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "weft/base/error.h"
#include "weft/base/file_io.h"
#include "weft/base/storage_error.h"
#include "weft/checkpoint/format/check_index.h"
#include "weft/checkpoint/format/data_writer.h"
#include "weft/checkpoint/format/index_json.h"
#include "weft/checkpoint/storage/data_files.h"
#include "weft/train/trainer/checkpoint_state.h"
#include "weft/train/trainer/finite_state.h"

namespace weft {
namespace {

/// Overwrites an earlier copy, so that pages are allocated once.
class SnapshotWriter : public StorageWriter {
 public:
  SnapshotWriter(int file, int64_t begin) : file_(file), at_(begin) {}
  void write(const void* data, int64_t bytes) override {
    if (!write_all(file_, at_, data, bytes)) {
      throw Error(fmt::format("cannot copy the state to memory: {}; save.memory_every = 0 disables it", std::strerror(errno)));
    }
    at_ += bytes;
  }
  void close() override {}

 private:
  int file_;
  int64_t at_;
};

class SnapshotReader : public StorageReader {
 public:
  SnapshotReader(int file, int64_t bytes) : file_(file), bytes_(bytes) {}
  int64_t size() const override { return bytes_; }
  void read(int64_t offset, void* data, int64_t bytes) override {
    if (read_all(file_, offset, data, bytes) != bytes) throw DamageError("a copy of the state in memory ends too early");
  }

 private:
  int file_;
  int64_t bytes_;
};

/// Data of the ranks' copies with that number.
class SnapshotFiles : public DataFiles {
 public:
  SnapshotFiles(RunBoard& board, int number) : board_(board), number_(number) {}
  const std::string& name() const override { return name_; }
  std::unique_ptr<StorageWriter> create(const std::string& path) override {
    return std::make_unique<SnapshotWriter>(board_.file(rank_of(path), number_), 0);
  }
  std::unique_ptr<StorageReader> open(const std::string& path) override {
    const int rank = rank_of(path);
    return std::make_unique<SnapshotReader>(board_.file(rank, number_), board_.copy(rank, number_).data_bytes);
  }

 private:
  int rank_of(const std::string& path) const {
    for (int rank = 0; rank < board_.most_ranks(); ++rank) {
      if (path == data_file(rank)) return rank;
    }
    throw Error(fmt::format("'{}' is not a rank's copy of its state", path));
  }

  RunBoard& board_;
  int number_;
  std::string name_ = "the copy of the state in memory";
};

/// The text after the data.
std::string read_text(const RunBoard& board, int rank, int number) {
  const RunBoard::Copy copy = board.copy(rank, number);
  std::string text(static_cast<size_t>(copy.text_bytes), '\0');
  SnapshotReader(board.file(rank, number), copy.data_bytes + copy.text_bytes)
      .read(copy.data_bytes, text.data(), copy.text_bytes);
  return text;
}

/// The snapshot formed by all copies with that number, if they are from one step of one run.
std::optional<Snapshot> whole_snapshot(RunBoard& board, int number) {
  const RunBoard::Copy first = board.copy(0, number);
  if (first.step < 0 || first.ranks < 1 || first.ranks > board.most_ranks()) return std::nullopt;
  Snapshot snapshot{.number = number, .step = first.step};
  for (int rank = 0; rank < first.ranks; ++rank) {
    const RunBoard::Copy copy = board.copy(rank, number);
    if (copy.step != first.step || copy.ranks != first.ranks || copy.launch != first.launch) return std::nullopt;
    snapshot.index.merge(parse_index(read_text(board, rank, number), fmt::format("rank {}'s copy", rank), /*whole=*/false));
  }
  check_index(snapshot.index, /*whole=*/true);
  return snapshot;
}

}  // namespace

std::optional<Snapshot> newest_snapshot(RunBoard& board) {
  std::optional<Snapshot> newest;
  for (int number = 0; number < kStateCopies && board.most_ranks() > 0; ++number) {
    std::optional<Snapshot> snapshot = whole_snapshot(board, number);
    if (snapshot && (!newest || snapshot->step > newest->step)) newest = std::move(snapshot);
  }
  return newest;
}

void take_snapshot(TrainerState& trainer, RunBoard& board, int number) {
  const World& world = trainer.mesh.world();
  board.set_copy(world.rank(), number, {});
  SnapshotFiles files(board, number);
  DataWriter writer(files, "", data_file(world.rank()));
  FiniteState looked(*trainer.model, trainer.steps_done);
  for_each_written(trainer, [&](const StatePart& part) {
    looked.look_at(part);
    writer.add(part);
  });
  if (!looked.error().empty()) throw NumericError("a snapshot in memory: " + looked.error());  // then nobody loads it
  CheckpointIndex index = writer.close();
  index.texts = state_texts(trainer);
  const int64_t data_bytes = index.bytes();
  const std::string text = index_text(index);
  const auto text_bytes = static_cast<int64_t>(text.size());
  SnapshotWriter(board.file(world.rank(), number), data_bytes).write(text.data(), text_bytes);
  board.set_copy(world.rank(), number,
                 {.step = trainer.steps_done,
                  .ranks = world.size(),
                  .launch = board.launch(),
                  .data_bytes = data_bytes,
                  .text_bytes = text_bytes});
}

LoadReport load_snapshot(TrainerState& trainer, RunBoard& board, const Snapshot& snapshot) {
  SnapshotFiles files(board, snapshot.number);
  return load_state(trainer, files, "", snapshot.index, {});
}

}  // namespace weft
