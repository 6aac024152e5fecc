#include "weft/comm/c10d/device_engines.h"

#include <mutex>
#include <utility>

namespace weft {
namespace {

struct Engines {
  std::mutex mutex;
  std::map<at::DeviceType, DeviceEngine> by_type = built_in_engines();
};

Engines& engines() {
  static Engines all;
  return all;
}

}  // namespace

void register_device_engine(at::DeviceType type, DeviceEngine engine) {
  const std::lock_guard lock(engines().mutex);
  engines().by_type.insert_or_assign(type, std::move(engine));
}

DeviceEngine device_engine(at::DeviceType type) {
  const std::lock_guard lock(engines().mutex);
  const auto found = engines().by_type.find(type);
  return found == engines().by_type.end() ? DeviceEngine() : found->second;
}

}  // namespace weft
