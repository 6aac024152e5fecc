// FileSet: many files that are read repeatedly, of which only a few are open at once.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "weft/base/input_file.h"

namespace weft {

class FileSet {
 public:
  /// Takes over an open file and returns its number, from 0.
  size_t add(std::string path, InputFile file);

  /// Reads from file `number`. Throws InputError, naming the file, if it ends before `offset + bytes`; if it was closed in
  /// between and its path now leads to another or a shorter file; and if reading fails. Thread-safe.
  void read(size_t number, int64_t offset, void* out, int64_t bytes) const;

 private:
  struct Member {
    std::string path;
    dev_t device = 0;
    ino_t inode = 0;
    int64_t bytes = 0;  ///< when it was added
  };
  struct Opened {
    size_t number;
    std::shared_ptr<const InputFile> file;
  };
  [[noreturn]] static void throw_cut_off(const Member& member, int64_t bytes);
  std::shared_ptr<const InputFile> opened(size_t number) const;
  std::shared_ptr<const InputFile> keep(size_t number, InputFile file) const;

  std::vector<Member> members_;
  mutable std::mutex mutex_;
  mutable std::list<Opened> open_;  ///< most recently used first
};

}  // namespace weft
