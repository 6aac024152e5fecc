// Text as a word of a shell script.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace weft {

/// `word` so that a POSIX shell reads it as that one word, whatever is in it; as it is where that is plain.
std::string shell_word(std::string_view word);

/// The words, each quoted where it must be, with blanks between.
std::string shell_words(const std::vector<std::string>& words);

}  // namespace weft
