#include "weft/train/trainer/out_of_memory.h"

#include <c10/util/Exception.h>
#include <fmt/core.h>

#include <new>
#include <string>
#include <string_view>

#include "weft/base/error.h"

namespace weft {

namespace {

std::string remedy(MemoryCategory category, ShardLevel level) {
  switch (category) {
    case MemoryCategory::activations:
      return "use layout.recompute = \"blocks\", or a smaller batch.micro";
    case MemoryCategory::gathered:
      return "set layout.prefetch = 0, or make the largest block smaller";
    default:
      break;
  }
  if (level < ShardLevel::parameters) return "shard more of the state: layout.shard_level = \"parameters\"";
  return "use more ranks, or layout.offload_optimizer and layout.offload_parameters = \"disk\"";
}

}  // namespace

bool is_out_of_memory(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error) || dynamic_cast<const c10::OutOfMemoryError*>(&error)) return true;
  const std::string_view text = error.what();
  return text.find("not enough memory") != std::string_view::npos ||
         text.find("annot allocate memory") != std::string_view::npos ||
         text.find("can't allocate memory") != std::string_view::npos;
}

void explain_memory_error(const std::exception& error, ShardLevel level) {
  // Taken in any case, so that the next error is not reported with this category.
  const MemoryCategory category = MemoryScope::take_failed().value_or(MemoryCategory::activations);
  if (!is_out_of_memory(error)) return;
  throw MemoryError(fmt::format("out of memory for {}; {}. `weft memory RECIPE -n N` estimates memory per rank", name(category),
                                remedy(category, level)));
}

}  // namespace weft
