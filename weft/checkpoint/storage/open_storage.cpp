#include "weft/checkpoint/storage/open_storage.h"

#include "weft/checkpoint/storage/bucket.h"
#include "weft/checkpoint/storage/local_storage.h"

namespace weft {

std::unique_ptr<Storage> open_storage(const std::string& name) {
  const size_t scheme = name.find("://");
  if (scheme == std::string::npos) return local_storage(name);
  if (name.starts_with("file://")) return local_storage(name.substr(scheme + 3));
  return open_bucket(name);
}

}  // namespace weft
