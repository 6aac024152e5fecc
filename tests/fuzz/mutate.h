// Damaged copies of good inputs: the results of a typo, a truncated copy or a broken disk. Text changes by words and lines,
// which gets further into a reader than random bytes do.
#pragma once

#include <string>
#include <vector>

#include "tests/support/seeds.h"

namespace weft::fuzz {

/// One to four changes, mostly one: a number or a word replaced (`words`: those that the format knows), a line dropped, doubled
/// or swapped, a stretch of `other` inserted, bytes flipped, inserted or removed, the end cut off.
std::string damaged(const std::string& good, const std::string& other, const std::vector<std::string>& words,
                    test::Random& random);

/// The same for binary files, with one to four changes: bits flipped, bytes and fields of 2, 4 or 8 bytes set to boundary
/// values, stretches removed, doubled, zeroed or taken from `other`, the end cut off.
std::string damaged_bytes(const std::string& good, const std::string& other, test::Random& random);

/// A boundary value for a reader of numbers, or a random number.
std::string any_number(test::Random& random);

}  // namespace weft::fuzz
