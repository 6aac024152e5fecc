// Zip archives whose structure is damaged, around records with correct checksums: what random bytes hardly ever make.
#pragma once

#include "tests/fuzz/data_inputs.h"

namespace weft::fuzz {

/// A sound archive of the records, below one folder, stored as they are.
std::string zip_of(const Members& records);
/// The same with one to three changes of its lists: sizes, offsets, names, methods, flags and checksums of either list, records
/// that are missing, doubled, reordered, packed, links or folders, zip64 fields, the end's counts and places.
std::string damaged_zip(const Members& records, test::Random& random);

}  // namespace weft::fuzz
