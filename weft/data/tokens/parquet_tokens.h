// Documents in Parquet files: text or token ids in one of their columns.
#pragma once

#include <memory>
#include <string>

#include "weft/data/bad_data.h"
#include "weft/data/files/shard_files.h"
#include "weft/data/tokens/token_groups.h"

namespace weft {

/// What is read of the files.
struct ParquetText {
  std::string column = "text";    ///< text (string or binary), or lists of whole numbers
  int64_t vocabulary = 256;       ///< ids must be below it; of text at least 256
  BadData bad = BadData::refuse;  ///< what to do with rows that are null or have an id out of range, and with what is damaged
};

/// The documents one after another, a group a row group: of text its bytes and a line break after each, of lists just their
/// ids. Where the files note how much text a row group has (Arrow's do since 19) their metadata is read here, no more;
/// otherwise, and with BadData::skip, the column once, to check each row and count its tokens. Throws InputError as
/// open_parquet() does, and that names file, row group and row (from 0).
std::shared_ptr<const TokenGroups> open_parquet_tokens(std::shared_ptr<const ShardFiles> files, const ParquetText& text);

}  // namespace weft
