// AppendedFile: a file that grows by whole pieces of text, of one writer.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "weft/base/file_descriptor.h"

namespace weft {

class AppendedFile {
 public:
  /// Creates the file, or goes on at its end. Throws HeldError while another process appends to it, and InputError if it cannot
  /// be written.
  explicit AppendedFile(std::string path);

  const std::string& path() const { return path_; }
  int64_t bytes() const { return bytes_; }
  /// Where the file was removed meanwhile, makes it anew, empty, with its folder, and returns true. Throws as the constructor.
  bool remake_if_removed();
  /// Appends all of the text or, throwing IoError (a full disk), nothing: it may be tried again.
  void append(std::string_view text);
  /// Cuts the end off. Throws IoError.
  void truncate(int64_t bytes);
  /// Calls `visit` with each whole line, without its newline, and where it begins, until it returns false. Returns the end of
  /// the last line visited with true: what follows is cut off by truncate().
  int64_t whole_lines(const std::function<bool(std::string_view line)>& visit) const;

 private:
  void open();
  [[noreturn]] void fail(const char* action, int error) const;

  std::string path_;
  FileDescriptor descriptor_;
  int64_t bytes_ = 0;
};

}  // namespace weft
