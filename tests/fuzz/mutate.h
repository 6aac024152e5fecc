// Damaged copies of good inputs: what a slip of the hand, a cut-off copy or a broken disk makes of a file. By words and lines
// for text, which gets further into a reader than random bytes do.
#pragma once

#include <string>
#include <vector>

#include "tests/support/seeds.h"

namespace weft::fuzz {

/// One to four changes, mostly one: a number or a word made another (`words` are those that the format knows), a line dropped,
/// doubled or swapped, a stretch of `other` put in, bytes flipped, put in or taken out, the end cut off.
std::string damaged(const std::string& good, const std::string& other, const std::vector<std::string>& words,
                    test::Random& random);

/// The same for files of bytes: one to four of bits flipped, bytes and fields of 2, 4 or 8 bytes set to what a reader should
/// think about, stretches cut out, doubled, zeroed or taken from `other`, the end cut off.
std::string damaged_bytes(const std::string& good, const std::string& other, test::Random& random);

/// One that a reader of numbers should think about, or any at all.
std::string any_number(test::Random& random);

}  // namespace weft::fuzz
