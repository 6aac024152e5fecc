#include "weft/train/save/checkpoint_write.h"

#include <fmt/format.h>

#include <utility>

#include "weft/base/error.h"
#include "weft/checkpoint/format/check_index.h"
#include "weft/checkpoint/format/checkpoint_folder.h"
#include "weft/checkpoint/format/index_json.h"
#include "weft/checkpoint/storage/open_storage.h"

namespace weft {

CheckpointWrite::CheckpointWrite(std::string place, std::string checkpoint, RankMeeting& meeting, bool replace)
    : place_(std::move(place)), checkpoint_(std::move(checkpoint)), meeting_(meeting), replace_(replace) {}

int64_t CheckpointWrite::run(const std::function<void(DataWriter&)>& write, const std::map<std::string, std::string>& texts) {
  try {
    return run_all(write, texts);
  } catch (const std::exception& error) {
    try {
      meeting_.fail(error.what());
    } catch (const Error&) {
      // The other ranks detect this like a rank that died.
    }
    clean_up();
    throw;
  }
}

int64_t CheckpointWrite::run_all(const std::function<void(DataWriter&)>& write,
                                 const std::map<std::string, std::string>& texts) {
  storage_ = open_storage(place_);
  if (meeting_.rank() == 0) {
    make_room();
    meeting_.send("ready", "");
  } else {
    meeting_.wait_for("ready", 0);
  }
  has_room_ = true;
  DataWriter writer(*storage_, checkpoint_, data_file(meeting_.rank()));
  write(writer);
  CheckpointIndex index = writer.close();
  if (meeting_.rank() > 0) {
    meeting_.check();  // rank 0 keeps or removes only files reported before a failure
    meeting_.send("part", index_text(index));
    has_reported_ = true;
    meeting_.wait_for("done", 0);
    return 0;
  }
  for (int rank = 1; rank < meeting_.size(); ++rank) {
    index.merge(parse_index(meeting_.take("part", rank), fmt::format("rank {}'s part of {}", rank, storage_->full(checkpoint_)),
                            /*whole=*/false));
  }
  index.texts = texts;
  check_index(index, /*whole=*/true);
  meeting_.check();  // a rank may have given up since it reported its part
  complete_checkpoint(*storage_, checkpoint_, index);
  meeting_.send("done", "");
  return index.bytes();
}

void CheckpointWrite::make_room() {
  if (!replace_ && is_complete(*storage_, checkpoint_)) {
    throw InputError(
        fmt::format("{}: it already is a checkpoint, which a killed save would lose; name a new folder, or "
                    "save with the option replace",
                    storage_->full(checkpoint_)));
  }
  clear_checkpoint(*storage_, checkpoint_);
}

/// Rank 0 removes the folder while the others may still have open files: each also removes its own. Before room was made,
/// nothing in it belongs to this save.
void CheckpointWrite::clean_up() noexcept {
  if (!has_room_) return;
  try {
    if (meeting_.rank() == 0 && !is_complete(*storage_, checkpoint_)) remove_checkpoint(*storage_, checkpoint_);
    if (meeting_.rank() > 0 && !has_reported_) storage_->remove(checkpoint_ + "/" + data_file(meeting_.rank()));
  } catch (const std::exception&) {
    // The next save removes the rest.
  }
}

}  // namespace weft
