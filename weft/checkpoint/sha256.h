// SHA-256, computed by OpenSSL.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace weft {

/// Computes the SHA-256 of bytes added piece by piece.
class Sha256 {
 public:
  /// Throws Error if OpenSSL has no SHA-256.
  Sha256();
  ~Sha256();
  /// Adds bytes.
  void add(const void* data, size_t bytes);
  /// Finishes the digest and returns it as 64 lower-case hexadecimal digits.
  std::string hex();

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

/// Returns the SHA-256 of a text in the form of hex().
std::string sha256(std::string_view text);

}  // namespace weft
