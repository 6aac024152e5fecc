// The lock of a folder on disk: flock() where the file system has it, else a ClaimLock.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "weft/checkpoint/storage/storage.h"

namespace weft {

/// Locks the folder, which is made where it is not there, as Storage::lock() says. `open` makes a Storage of it.
std::shared_ptr<StorageLock> lock_folder(const std::string& folder, const LockOptions& options,
                                         const std::function<std::unique_ptr<Storage>()>& open);

}  // namespace weft
