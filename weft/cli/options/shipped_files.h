// The recipes and hardware files that come with weft.
#pragma once

#include <string>
#include <vector>

namespace weft {

/// The path of what `told` names on a command line. A word without folder and suffix that is no file here is one that comes
/// with weft: "gpt" is recipes/gpt.toml of `folder` "recipes", where weft is installed or was built. Anything else stays as it
/// is told.
std::string shipped_or_own(const std::string& folder, const std::string& told);

/// The names of those of `folder`, by the alphabet.
std::vector<std::string> shipped_names(const std::string& folder);

}  // namespace weft
