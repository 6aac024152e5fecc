// JSON lines: files in which each line is a JSON object, one key of which holds a document, as text or as token ids.
#pragma once

#include <memory>
#include <string>

#include "weft/data/bad_data.h"
#include "weft/data/files/shard_files.h"
#include "weft/data/tokens/token_groups.h"

namespace weft {

/// What is read of the files.
struct JsonLines {
  std::string column = "text";    ///< the key whose value is the document
  int64_t vocabulary = 256;       ///< ids must be below it; of text at least 256
  BadData bad = BadData::refuse;  ///< what to do with a row that holds no document
};

/// The documents one after another: of text its bytes (UTF-8) and a line break after each document, of lists of ids just these;
/// in groups of rows of a megabyte together. The files are read once here, to check each row and find where the groups lie (40
/// bytes of memory a group), and then as they are asked for.
/// Throws InputError that names file and row: for a line that is no JSON object, lacks the column or has another type there
/// than text or a list of whole numbers, or than the rows before it; for an id out of range; and where there is no document at
/// all.
std::shared_ptr<const TokenGroups> open_json_lines(std::shared_ptr<const ShardFiles> files, const JsonLines& lines);

}  // namespace weft
