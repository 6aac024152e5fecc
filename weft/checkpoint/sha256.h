// SHA-256, by OpenSSL.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace weft {

/// Makes the SHA-256 of bytes that come one after another.
class Sha256 {
 public:
  /// Throws Error where OpenSSL has none.
  Sha256();
  ~Sha256();
  /// Adds bytes.
  void add(const void* data, size_t bytes);
  /// Ends it and returns it, as 64 lower-case hexadecimal digits.
  std::string hex();

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

/// The SHA-256 of a text, as hex() has it.
std::string sha256(std::string_view text);

}  // namespace weft
