// JSON lines: files with one JSON object per line, in which one key holds a document, as text or as token ids.
#pragma once

#include <memory>
#include <string>

#include "weft/data/bad_data.h"
#include "weft/data/files/shard_files.h"
#include "weft/data/tokens/token_groups.h"

namespace weft {

/// Contents to read from the files.
struct JsonLines {
  std::string column = "text";    ///< key whose value is the document
  int64_t vocabulary = 256;       ///< ids must be below it; at least 256 for text
  BadData bad = BadData::refuse;  ///< policy for a row without a document
};

/// Returns the documents in groups of about 1 MiB of rows. A document of text is its UTF-8 bytes plus a line break; a list is
/// its ids. Reads the files once, to check each row and find the groups (40 bytes of memory per group); load() reads a group
/// again. Throws InputError, naming file and row, for a line that is not a JSON object or lacks the column; for a value that is
/// neither text nor a list of whole numbers, or whose type differs from earlier rows'; for an id out of range; and if there is
/// no document at all.
std::shared_ptr<const TokenGroups> open_json_lines(std::shared_ptr<const ShardFiles> files, const JsonLines& lines);

}  // namespace weft
