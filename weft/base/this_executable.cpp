#include "weft/base/this_executable.h"

#include <filesystem>
#include <system_error>

namespace weft {

std::string this_executable() {
  std::error_code error;
  const std::filesystem::path path = std::filesystem::read_symlink("/proc/self/exe", error);
  return !error && std::filesystem::exists(path) ? path.string() : "/proc/self/exe";
}

}  // namespace weft
