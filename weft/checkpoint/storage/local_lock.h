// Lock of a folder on disk: flock() if the file system has it, otherwise a ClaimLock.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "weft/checkpoint/storage/storage.h"

namespace weft {

/// Locks the folder, creating it if needed, as Storage::lock() specifies. `open` makes a Storage for the folder.
std::shared_ptr<StorageLock> lock_folder(const std::string& folder, const LockOptions& options,
                                         const std::function<std::unique_ptr<Storage>()>& open);

}  // namespace weft
