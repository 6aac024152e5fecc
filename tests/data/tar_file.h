// Tar files made in memory (POSIX 1988, "ustar").
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

namespace weft::test {

inline constexpr size_t kTarBlock = 512;

/// Header and bytes of a member, in whole blocks; kind '1' is a hard link, '2' a symbolic one.
inline std::string tar_member(const std::string& name, const std::string& bytes, char kind = '0') {
  std::string header(kTarBlock, '\0');
  const auto put = [&](size_t at, const std::string& text) { header.replace(at, text.size(), text); };
  put(0, name);
  put(100, "0000644");
  put(108, "0000000");
  put(116, "0000000");
  put(124, fmt::format("{:011o}", bytes.size()));
  put(136, "00000000000");
  put(148, "        ");
  put(156, std::string(1, kind));
  if (kind != '0') put(157, "elsewhere");
  put(257, std::string("ustar\0", 6) + "00");
  unsigned sum = 0;
  for (const char c : header) sum += static_cast<unsigned char>(c);
  put(148, fmt::format("{:06o}", sum) + std::string("\0 ", 2));
  return header + bytes + std::string((kTarBlock - bytes.size() % kTarBlock) % kTarBlock, '\0');
}

/// Whole file of members (name, bytes).
inline std::string tar_of(const std::vector<std::pair<std::string, std::string>>& members) {
  std::string out;
  for (const auto& [name, bytes] : members) out += tar_member(name, bytes);
  return out + std::string(2 * kTarBlock, '\0');
}

}  // namespace weft::test
