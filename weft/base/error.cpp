#include "weft/base/error.h"

#include "weft/base/printable.h"

namespace weft {

Error::Error(const std::string& text) : std::runtime_error(printable(text)) {}

}  // namespace weft
