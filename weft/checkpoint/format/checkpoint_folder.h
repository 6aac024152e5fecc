// Checkpoints within a storage: folders "step-00000500", each complete once its marker exists.
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

/// Returns the folder name of the checkpoint after `step` steps.
std::string checkpoint_name(int64_t step);
/// Returns the step in a folder's name; nullopt for other names.
std::optional<int64_t> checkpoint_step(const std::string& name);

/// Completes the checkpoint in folder `path` once its data files are written: writes the index, checks that each file exists
/// with all its bytes, and writes the marker. Throws Error if a file is still missing or short after `late`, the time that a
/// file system may take to show another host's writes.
void complete_checkpoint(Storage& storage, const std::string& path, const CheckpointIndex& index,
                         std::chrono::milliseconds late = std::chrono::seconds(5));
/// True if the folder has a marker.
bool is_complete(Storage& storage, const std::string& path);
/// Reads the index of a checkpoint. Throws InputError for a folder that is not a complete checkpoint, DamageError if the index
/// is not the one that was written.
CheckpointIndex read_checkpoint(Storage& storage, const std::string& path);

/// Returns the complete checkpoints of the storage by step, ascending.
std::vector<int64_t> complete_checkpoints(Storage& storage);
/// Removes a checkpoint, complete or not: its marker first, so that a kill leaves an incomplete one. Other files in its folder
/// stay, and the folder with them.
void remove_checkpoint(Storage& storage, const std::string& path);
/// Empties the folder, which may hold an older checkpoint, for a new one. Throws InputError if it holds anything else.
void clear_checkpoint(Storage& storage, const std::string& path);
/// Removes checkpoint folders without a marker, left by killed saves.
void remove_incomplete(Storage& storage);

/// Copies a complete checkpoint to the folder of the same name in another storage, its marker last. Memory: 8 MiB. Calls
/// `between` after each 8 MiB; it may throw to abort.
void copy_checkpoint(Storage& from, Storage& to, const std::string& path, const std::function<void()>& between = {});

/// Folder of a checkpoint and the storage that holds it.
struct CheckpointPath {
  std::string storage;     ///< for open_storage()
  std::string checkpoint;  ///< name below the storage
};
/// Splits off the last part of a path or URL. Throws InputError if there is none: "/", "s3://bucket".
CheckpointPath parent_and_name(const std::string& path);

}  // namespace weft
