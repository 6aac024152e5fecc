// From data.path to the files that it stands for, on disk or in an object store.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "weft/checkpoint/storage/storage.h"
#include "weft/data/files/shard_files.h"

namespace weft {

/// The files of a folder that end in `ending` (".tar", in any case) and are not hidden, or those that a pattern stands for:
/// with braces (data/files/shard_pattern.h), and with '*' and '?' in the last part of a name. A URL needs a weft that is built
/// with object stores. Throws InputError where there are none, and for a folder that holds parts for training and for
/// evaluation (data/files/folder_files.h).
std::shared_ptr<const ShardFiles> open_shards(const std::string& pattern, const std::string& ending);

/// Files of a storage; each thread that reads at the same time has one of its own from `open`.
std::shared_ptr<const ShardFiles> storage_shards(std::function<std::unique_ptr<Storage>()> open,
                                                 const std::vector<std::string>& paths, DataNotes passed_over = {});

}  // namespace weft
