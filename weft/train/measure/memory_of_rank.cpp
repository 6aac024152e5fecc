#include "weft/train/measure/memory_of_rank.h"

#include <unistd.h>

#include "weft/engine/device_memory.h"

namespace weft {

double memory_of_rank(const World& world, c10::Device device) {
  if (const std::optional<int64_t> bytes = device_bytes(device)) return static_cast<double>(*bytes);
  const double host = static_cast<double>(::sysconf(_SC_PHYS_PAGES)) * static_cast<double>(::sysconf(_SC_PAGESIZE));
  return host / world.local_size();
}

}  // namespace weft
