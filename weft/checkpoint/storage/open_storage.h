// open_storage: the storage that a name stands for.
#pragma once

#include <memory>
#include <string>

#include "weft/checkpoint/storage/storage.h"

namespace weft {

/// The storage that a path or URL names: a folder on disk, which need not be there yet, or "s3://bucket/path", "gs://...",
/// "abfs://..." where weft is built with them. Throws InputError for a URL of something else.
std::unique_ptr<Storage> open_storage(const std::string& name);

/// One text for each place, whatever name it goes by: of a folder its path, without links.
std::string storage_place(const std::string& name);

}  // namespace weft
