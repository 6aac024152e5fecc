// Documents in Parquet files: text or token ids in one of their columns.
#pragma once

#include <memory>
#include <string>

#include "weft/data/bad_data.h"
#include "weft/data/files/shard_files.h"
#include "weft/data/tokens/token_groups.h"

namespace weft {

/// Contents to read from the files.
struct ParquetText {
  std::string column = "text";    ///< text (string or binary), or lists of whole numbers
  int64_t vocabulary = 256;       ///< ids must be below it; at least 256 for text
  BadData bad = BadData::refuse;  ///< policy for rows that are null or have an id out of range, and for damage
};

/// Documents one after another, one group per row group: a text is its bytes plus a line break, a list only its ids. If the
/// files record how much text a row group has (Arrow does since version 19), only their metadata is read here; otherwise, and
/// with BadData::skip, the column is read once to check each row and count its tokens. Throws InputError as open_parquet()
/// does, and, naming file, row group and row (from 0), for bad rows.
std::shared_ptr<const TokenGroups> open_parquet_tokens(std::shared_ptr<const ShardFiles> files, const ParquetText& text);

}  // namespace weft
