// Header of NumPy's .npy files (numpy.lib.format, versions 1 to 3): a Python dictionary before the values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

/// What the values are.
struct NpyHeader {
  std::string type;            ///< as in the file: "'<f4'"
  std::vector<int64_t> shape;  ///< no size is negative, and their product fits
  bool is_fortran = false;     ///< the first index runs fastest
  int64_t offset = 0;          ///< bytes before the values
};

/// Returns whether a file that begins so is one.
bool is_npy(std::string_view head);

/// Returns the header in `head` (base/file_kind.h). Throws InputError for one that is damaged, or too long for plain numbers.
NpyHeader npy_header(const std::string& path, std::string_view head);

}  // namespace weft
