// A folder of this machine's files as a Storage.
#pragma once

#include <memory>
#include <string>

#include "weft/checkpoint/storage/storage.h"

namespace weft {

/// The folder, which is made with the first file in it.
std::unique_ptr<Storage> local_storage(const std::string& folder);

}  // namespace weft
