#include "weft/checkpoint/storage/storage.h"

#include <fmt/format.h>

#include "weft/base/storage_error.h"
#include "weft/base/units.h"

namespace weft {

std::string Storage::read_text(const std::string& path, int64_t most_bytes) {
  const std::unique_ptr<StorageReader> file = open(path);
  if (file->size() > most_bytes) {
    throw DamageError(fmt::format("{}: damaged: it has {}, more than the allowed {}", full(path), format_bytes(file->size()),
                                  format_bytes(most_bytes)));
  }
  std::string text(static_cast<size_t>(file->size()), '\0');
  file->read(0, text.data(), file->size());
  return text;
}

}  // namespace weft
