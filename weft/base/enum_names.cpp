#include "weft/base/enum_names.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "weft/base/error.h"
#include "weft/base/printable.h"

namespace weft {

void throw_not_among(std::string_view what, std::string_view name, std::span<const std::string_view> names) {
  throw InputError(fmt::format("{} = \"{}\" is not one of {}", what, shortened(name), fmt::join(names, ", ")));
}

}  // namespace weft
