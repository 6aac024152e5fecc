#include "weft/base/token.h"

#include <fmt/format.h>
#include <sys/random.h>

#include <cerrno>
#include <cstring>

#include "weft/base/error.h"
#include "weft/base/uninterrupted.h"

namespace weft {

std::string random_bytes(int count) {
  std::string bytes(static_cast<size_t>(count), '\0');
  for (size_t have = 0; have < bytes.size();) {
    const ssize_t more = uninterrupted([&] { return getrandom(bytes.data() + have, bytes.size() - have, 0); });
    if (more < 0) throw Error(fmt::format("the system gives no random bytes: {}", std::strerror(errno)));
    have += static_cast<size_t>(more);
  }
  return bytes;
}

std::string make_token() {
  std::string text;
  for (const char byte : random_bytes(32)) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

}  // namespace weft
