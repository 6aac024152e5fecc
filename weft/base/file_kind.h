// What a file is that stands where data was expected, by its first bytes: a pointer of Git LFS, an HTML page, an archive.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "weft/base/input_file.h"

namespace weft {

/// How much of a file's beginning file_kind() looks at.
inline constexpr size_t kHeadBytes = 1024;

/// A kind of file that is known by its first bytes.
struct FileKind {
  std::string_view what;    ///< "a pointer of Git LFS, not the file itself"; empty: none that is known
  std::string_view advice;  ///< "fetch it with `git lfs pull`"
  bool is_text = false;     ///< what it holds is text, of whatever sort

  explicit operator bool() const { return !what.empty(); }
};

/// FileKind::what of some: a tar file, NumPy's array, text that is nothing more particular.
inline constexpr std::string_view kTarArchive = "a tar archive", kNumpyArray = "an array of NumPy (.npy)", kPlainText = "text";

/// What a file is whose first kHeadBytes, or all bytes if it has less, are `head`. Each mark is at least as rare as four given
/// bytes, so that plain token ids and text are not taken for another kind. Text that is nothing more particular is "text":
/// valid UTF-8 of 32 bytes or more without control characters.
FileKind file_kind(std::string_view head);

/// The first kHeadBytes of a file, or all of it. Throws InputError where reading fails.
std::string read_head(const std::string& path, const InputFile& file);

}  // namespace weft
