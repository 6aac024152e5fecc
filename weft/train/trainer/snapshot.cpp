#include "weft/train/trainer/snapshot.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "weft/base/error.h"
#include "weft/base/file_io.h"
#include "weft/checkpoint/format/check_index.h"
#include "weft/checkpoint/format/data_writer.h"
#include "weft/checkpoint/format/index_json.h"
#include "weft/checkpoint/storage/board_storage.h"
#include "weft/train/trainer/checkpoint_state.h"
#include "weft/train/trainer/finite_state.h"

namespace weft {
namespace {

/// Writes the text behind the data, through the same kind of file.
int64_t append_text(RunBoard& board, int rank, int number, int64_t begin, const std::string& text) {
  const auto bytes = static_cast<int64_t>(text.size());
  if (!write_all(board.file(rank, number), begin, text.data(), bytes)) {
    throw Error("cannot copy the state to memory; save.memory_every = 0 does without");
  }
  return bytes;
}

std::string read_text(const RunBoard& board, int rank, int number) {
  const RunBoard::Copy copy = board.copy(rank, number);
  std::string text(static_cast<size_t>(copy.text_bytes), '\0');
  const int64_t got = read_all(board.file(rank, number), copy.data_bytes, text.data(), copy.text_bytes);
  return got == copy.text_bytes ? text : std::string();
}

/// The snapshot of all copies of that number, where they are of one step of one run.
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
  const std::unique_ptr<Storage> storage = board_storage(board, number);
  DataWriter writer(*storage, "", data_file(world.rank()));
  FiniteState looked(*trainer.model, trainer.steps_done);
  for_each_written(trainer, [&](const StatePart& part) {
    looked.look_at(part);
    writer.add(part);
  });
  if (!looked.error().empty()) throw NumericError("a snapshot in memory: " + looked.error());  // which others then do not load
  CheckpointIndex index = writer.close();
  index.texts = state_texts(trainer);
  const int64_t data_bytes = index.bytes();
  const int64_t text_bytes = append_text(board, world.rank(), number, data_bytes, index_text(index));
  board.set_copy(world.rank(), number,
                 {.step = trainer.steps_done,
                  .ranks = world.size(),
                  .launch = board.launch(),
                  .data_bytes = data_bytes,
                  .text_bytes = text_bytes});
}

}  // namespace weft
