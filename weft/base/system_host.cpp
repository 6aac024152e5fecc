#include "weft/base/system_host.h"

#include <unistd.h>

namespace weft {

std::string system_host_name() {
  char name[256] = {};
  return gethostname(name, sizeof(name) - 1) == 0 ? name : "";
}

}  // namespace weft
