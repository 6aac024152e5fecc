#include "weft/base/system_host.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <system_error>

namespace weft {

std::string system_host_name() {
  char name[256] = {};
  return gethostname(name, sizeof(name) - 1) == 0 ? name : "";
}

std::string system_identity() {
  std::ifstream in("/proc/sys/kernel/random/boot_id");
  std::string boot;
  std::error_code error;
  const auto processes = std::filesystem::read_symlink("/proc/self/ns/pid", error);
  return std::getline(in, boot) && !error ? boot + " " + processes.string() : "";
}

}  // namespace weft
