// Recognises a wrong kind of data file from its first bytes: a Git LFS pointer, an HTML page, an archive.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "weft/base/input_file.h"

namespace weft {

/// Bytes that file_kind() examines.
inline constexpr size_t kHeadBytes = 1024;

/// A kind of file, recognised from its first bytes.
struct FileKind {
  std::string_view what;    ///< "a Git LFS pointer, not the file itself"; empty: unknown
  std::string_view advice;  ///< "fetch it with `git lfs pull`"
  bool is_text = false;     ///< the content is text of any sort

  explicit operator bool() const { return !what.empty(); }
};

/// FileKind::what of a tar file, a NumPy array and plain text.
inline constexpr std::string_view kTarArchive = "a tar archive", kNumpyArray = "a NumPy array (.npy)", kPlainText = "text";

/// Returns the kind of a file from `head`, its first kHeadBytes or the whole shorter file. Every signature is at least as
/// unlikely as four fixed bytes, so plain token ids and text are not mistaken for another kind. The last kind tried is
/// kPlainText: at least 32 bytes of valid UTF-8 without control characters.
FileKind file_kind(std::string_view head);

/// Reads the first kHeadBytes of a file, or the whole shorter file. Throws InputError if reading fails.
std::string read_head(const std::string& path, const InputFile& file);

}  // namespace weft
