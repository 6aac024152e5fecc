// The files of a folder that hold tokens.
#pragma once

#include <string>

#include "weft/data/files/folder_files.h"
#include "weft/data/tokens/token_type.h"

namespace weft {

/// Files of token ids of one kind: alike in header, width and suffix (those of digits are alike). Passed over are what
/// regular_files() passes over and what is known to be no token ids: text, archives, images (base/file_kind.h), scripts and the
/// like by their suffix. Indexes of Megatron's are read with their .bin. Of text (TokenType::u8): files but those that are
/// known to be no text; the *.dat beside a text, an index that `fortune` keeps, belongs to it. Throws InputError that names two
/// files of different kinds, or the parts for training and evaluation of one set.
FolderFiles token_files(const std::string& folder, TokenType type);

}  // namespace weft
