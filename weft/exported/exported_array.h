// The arrays of an exported program: values whose samples lead and whose other sizes are fixed.
#pragma once

#include <string>

#include "weft/exported/exported_options.h"
#include "weft/exported/graph.h"

namespace weft {

/// Returns a value of a program as an array; narrow ones are float32. Throws InputError, which calls it `what` and tells to
/// export it by `call`, if samples do not lead or another size varies.
ExportedArray array_of(const ExportedGraph& graph, const std::string& value, const std::string& what,
                       const std::string& call = kExportCall);

/// "Float [samples, 3, 4]"
std::string text_of(const ExportedArray& array);

}  // namespace weft
