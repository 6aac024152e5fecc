// Finds the files of data.path, on disk or in an object store.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "weft/checkpoint/storage/storage.h"
#include "weft/data/files/shard_files.h"

namespace weft {

/// The files of a folder that end in `ending` (".tar", in any case) and are not hidden, or the files that a pattern matches:
/// braces (data/files/shard_pattern.h), and '*' and '?' in the last part of a name. A URL needs a weft built with object
/// stores. Throws InputError if nothing matches, and for a folder that holds both training and evaluation parts
/// (data/files/folder_files.h).
std::shared_ptr<const ShardFiles> open_shards(const std::string& pattern, const std::string& ending);

/// Files of a storage; each concurrent reader thread gets its own storage from `open`.
std::shared_ptr<const ShardFiles> storage_shards(std::function<std::unique_ptr<Storage>()> open,
                                                 const std::vector<std::string>& paths, DataNotes passed_over = {});

}  // namespace weft
