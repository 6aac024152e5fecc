// Quoting text for a shell script.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace weft {

/// Quotes `word` so that a POSIX shell reads it as one word; plain words stay as they are.
std::string shell_word(std::string_view word);

/// Quotes the words as needed and joins them with blanks.
std::string shell_words(const std::vector<std::string>& words);

}  // namespace weft
