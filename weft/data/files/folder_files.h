// Which files of a folder are one set of data, and what lies beside them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "weft/data/data_note.h"

namespace weft {

/// Files of a folder, and what in it is not read.
struct FolderFiles {
  std::vector<std::string> taken;  ///< paths, in the order of their names
  DataNotes passed_over;           ///< as Dataset::passed_over()
};

/// Regular files of a folder that are not hidden: what of it may be data. Links, subfolders and hidden files are passed over,
/// without a word those links that lead to files of the folder itself. Throws InputError for a folder that cannot be listed.
FolderFiles regular_files(const std::string& folder);

/// The first two of `names` that are parts of one set for training and for evaluation, as "train.bin" and "val.bin" or
/// "x-train-00001.parquet" and "x-validation-00000.parquet" are; empty: there are none.
std::vector<std::string> two_parts(const std::vector<std::string>& names);

/// A pattern for a name that tells a part, and for those of the same part: "x-train-*.parquet", "*-val.bin".
std::string part_pattern(const std::string& name);

/// Throws InputError where a folder that is to be one set holds two_parts(); `advice` says what to do about the two.
void check_one_part(const std::string& folder, const std::vector<std::string>& names,
                    const std::function<std::string(const std::string& training, const std::string& evaluation)>& advice);

}  // namespace weft
