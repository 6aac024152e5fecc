// The recipes and hardware files shipped with weft.
#pragma once

#include <string>
#include <vector>

namespace weft {

/// Returns the path for a `name` given on a command line. A word without folder and suffix that is not a file here names a
/// shipped one: "gpt" is recipes/gpt.toml of `folder` "recipes", where weft is installed or was built. Anything else is
/// returned unchanged, but for the path of a missing file with a shipped one's name: InputError says what to write.
std::string shipped_or_own(const std::string& folder, const std::string& name);

/// Names of the files in `folder`, in alphabetical order.
std::vector<std::string> shipped_names(const std::string& folder);

}  // namespace weft
