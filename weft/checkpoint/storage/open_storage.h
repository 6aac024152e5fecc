// open_storage: opens the storage that a path or URL names.
#pragma once

#include <memory>
#include <string>

#include "weft/checkpoint/storage/storage.h"

namespace weft {

/// Opens the storage at a path or URL: a folder on disk, which need not exist yet, or "s3://bucket/path", "gs://...",
/// "abfs://..." if weft is built with them. Throws InputError for any other URL.
std::unique_ptr<Storage> open_storage(const std::string& name);

/// Returns the same text for all names of one place; for a folder, its path with links resolved.
std::string storage_place(const std::string& name);

}  // namespace weft
