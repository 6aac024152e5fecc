// The files of a folder that hold tokens.
#pragma once

#include <string>

#include "weft/data/files/folder_files.h"
#include "weft/data/tokens/token_type.h"

namespace weft {

/// Returns files of token ids of one kind: equal in header, width and suffix (suffixes of digits count as equal). Passes over
/// the files that regular_files() does and those known not to be token ids: text, archives, images (base/file_kind.h), scripts
/// and the like by their suffix. Megatron's indexes are read with their .bin. For text (TokenType::u8), returns all files
/// except those known not to be text; a *.dat next to a text is an index for `fortune` and belongs to the text. Throws
/// InputError, naming two files of different kinds, or the training and evaluation parts of one set.
FolderFiles token_files(const std::string& folder, TokenType type);

}  // namespace weft
