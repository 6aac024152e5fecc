// NumPy's .npy files, as numpy.save() writes them.
#pragma once

#include <fmt/format.h>

#include <string>

namespace weft::test {

/// A file of this dictionary and these values.
inline std::string npy(std::string header, const std::string& values, char version = 1) {
  while ((header.size() + 11) % 64 != 0) header += ' ';
  header += '\n';
  std::string length = {static_cast<char>(header.size() & 255), static_cast<char>(header.size() >> 8)};
  if (version > 1) length += std::string(2, '\0');
  return std::string("\x93NUMPY") + version + '\0' + length + header + values;
}

/// The same, of a type ("<f4") and a shape ("3, 4").
inline std::string npy_of(const std::string& type, const std::string& shape, const std::string& values, char version = 1) {
  return npy(fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", type, shape), values, version);
}

}  // namespace weft::test
