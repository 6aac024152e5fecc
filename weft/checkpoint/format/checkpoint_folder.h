// Checkpoints within a storage: folders "step-00000500", each whole once its marker is there.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "weft/checkpoint/format/index.h"
#include "weft/checkpoint/storage/storage.h"

namespace weft {

/// The folder of the checkpoint after so many steps.
std::string checkpoint_name(int64_t step);
/// The steps in a folder's name; none for other names.
std::optional<int64_t> checkpoint_step(const std::string& name);

/// Makes a checkpoint of the folder `path`, whose data files are there: writes the index, sees to it that each file is there
/// with all of its bytes, and writes the marker. Throws Error where one is not, also after `late`, which a file system may take
/// to show what another host wrote.
void complete_checkpoint(Storage& storage, const std::string& path, const CheckpointIndex& index,
                         std::chrono::milliseconds late = std::chrono::seconds(5));
/// Whether the folder has a marker.
bool is_complete(Storage& storage, const std::string& path);
/// The index of a checkpoint. Throws InputError for a folder that is none, DamageError where the index is not the one that was
/// written.
CheckpointIndex read_checkpoint(Storage& storage, const std::string& path);

/// The complete checkpoints of the storage, by steps, fewest first.
std::vector<int64_t> complete_checkpoints(Storage& storage);
/// Removes a checkpoint, whole or not: its marker first, so that what is left of it at a kill is none. Files in its folder that
/// are none of a checkpoint stay, and the folder with them.
void remove_checkpoint(Storage& storage, const std::string& path);
/// Makes the folder ready for a new checkpoint, over an older one. Throws InputError for a folder that holds anything else.
void clear_checkpoint(Storage& storage, const std::string& path);
/// Removes folders of checkpoints that have no marker: what a save that was killed left.
void remove_incomplete(Storage& storage);

/// Copies a complete checkpoint to the folder of the same name in another storage, its marker last. Memory: 8 MiB, after each
/// of which `between` is called, which may throw to give up.
void copy_checkpoint(Storage& from, Storage& to, const std::string& path, const std::function<void()>& between = {});

/// A folder and the storage that it is in.
struct CheckpointPath {
  std::string storage;     ///< for open_storage()
  std::string checkpoint;  ///< below it
};
/// Cuts the last part off a path or URL. Throws InputError where there is none: "/", "s3://bucket".
CheckpointPath parent_and_name(const std::string& path);

}  // namespace weft
