#include "weft/train/save/checkpoint_write.h"

#include <fmt/format.h>

#include <utility>

#include "weft/base/error.h"
#include "weft/checkpoint/format/check_index.h"
#include "weft/checkpoint/format/checkpoint_folder.h"
#include "weft/checkpoint/format/index_json.h"

namespace weft {

CheckpointWrite::CheckpointWrite(Storage& storage, std::string checkpoint, RankMeeting& meeting, bool replace)
    : storage_(storage), checkpoint_(std::move(checkpoint)), meeting_(meeting), replace_(replace) {}

int64_t CheckpointWrite::run(const std::function<void(DataWriter&)>& write, const std::map<std::string, std::string>& texts) {
  try {
    return run_all(write, texts);
  } catch (const std::exception& error) {
    try {
      meeting_.fail(error.what());
    } catch (const Error&) {
      // The others learn of it as they do of a rank that died.
    }
    clean_up();
    throw;
  }
}

int64_t CheckpointWrite::run_all(const std::function<void(DataWriter&)>& write,
                                 const std::map<std::string, std::string>& texts) {
  if (meeting_.rank() == 0) {
    make_room();
    meeting_.tell("ready", "");
  } else {
    meeting_.wait_for("ready", 0);
  }
  has_room_ = true;
  DataWriter writer(storage_, checkpoint_, data_file(meeting_.rank()));
  write(writer);
  CheckpointIndex index = writer.close();
  if (meeting_.rank() > 0) {
    meeting_.tell("part", index_text(index));
    has_told_ = true;
    meeting_.wait_for("done", 0);
    return 0;
  }
  for (int rank = 1; rank < meeting_.size(); ++rank) {
    index.merge(parse_index(meeting_.take("part", rank), fmt::format("rank {}'s part of {}", rank, storage_.full(checkpoint_)),
                            /*whole=*/false));
  }
  index.texts = texts;
  check_index(index, /*whole=*/true);
  meeting_.check();  // a rank may have given up since it told its part
  complete_checkpoint(storage_, checkpoint_, index);
  meeting_.tell("done", "");
  return index.bytes();
}

void CheckpointWrite::make_room() {
  if (!replace_ && is_complete(storage_, checkpoint_)) {
    throw InputError(
        fmt::format("{}: it is a checkpoint already, which a save that is killed would lose; name a new folder, or "
                    "replace it knowingly",
                    storage_.full(checkpoint_)));
  }
  clear_checkpoint(storage_, checkpoint_);
}

/// Rank 0 removes the folder, the others may still be at their files: each sees to its own as well. Before there was room
/// nothing in it is this save's.
void CheckpointWrite::clean_up() noexcept {
  if (!has_room_) return;
  try {
    if (meeting_.rank() == 0 && !is_complete(storage_, checkpoint_)) remove_checkpoint(storage_, checkpoint_);
    if (meeting_.rank() > 0 && !has_told_) storage_.remove(checkpoint_ + "/" + data_file(meeting_.rank()));
  } catch (const std::exception&) {
    // What cannot be removed now the next save removes.
  }
}

}  // namespace weft
