// Selects the files of a folder that form one set of data, and lists the others.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "weft/data/data_note.h"

namespace weft {

/// Files selected from a folder, and those in it that are not read.
struct FolderFiles {
  std::vector<std::string> taken;  ///< paths in name order
  DataNotes passed_over;           ///< as in Dataset::passed_over()
};

/// Returns the regular, visible files of a folder, which may be data. Links, subfolders and hidden files are passed over; links
/// to files in the folder itself are not even listed. Throws InputError for a folder that cannot be listed.
FolderFiles regular_files(const std::string& folder);

/// Returns the first two of `names` that are a training and an evaluation part of one set, such as "train.bin" and "val.bin" or
/// "x-train-00001.parquet" and "x-validation-00000.parquet"; empty if there are none.
std::vector<std::string> two_parts(const std::vector<std::string>& names);

/// Returns a pattern for a part's name and others of the same part: "x-train-*.parquet", "*-val.bin".
std::string part_pattern(const std::string& name);

/// Throws InputError if a folder read as one set holds two_parts(); `advice` says what to do about the two.
void check_one_part(const std::string& folder, const std::vector<std::string>& names,
                    const std::function<std::string(const std::string& training, const std::string& evaluation)>& advice);

}  // namespace weft
