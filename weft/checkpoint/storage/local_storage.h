// Folder on this machine as a Storage.
#pragma once

#include <memory>
#include <string>

#include "weft/checkpoint/storage/storage.h"

namespace weft {

/// Opens the folder, which is created with its first file.
std::unique_ptr<Storage> local_storage(const std::string& folder);

}  // namespace weft
