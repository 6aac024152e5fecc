// What a folder on disk and its lock need: folders, and what goes wrong with files, as an error of its kind.
#pragma once

#include <chrono>
#include <string>
#include <thread>

#include "weft/base/storage_error.h"

namespace weft {

/// Throws the error of a file that could not be written: "PATH: could not ACTION: ...".
[[noreturn]] void fail_to_write(const std::string& path, const char* action, int error);
/// Throws the error of one that is read, "PATH: cannot ACTION: ...": what should be there and is not is damage.
[[noreturn]] void fail_to_read(const std::string& path, const char* action, int error);

/// Makes the names in a folder durable. Some file systems cannot, and need not.
void sync_folder(const std::string& folder);
/// Makes the folders, each of which its parent knows durably.
void make_folders(const std::string& folder);

/// Calls again, with growing pauses, what returns errno of a device that fails; returns what it says in the end.
template <class Call>
int tried_again(const Call& call) {
  constexpr int kMost = 4;
  auto pause = std::chrono::milliseconds(50);
  int error = call();
  for (int tries = 1; tries < kMost && is_io_failure(error); ++tries) {
    std::this_thread::sleep_for(pause);
    pause *= 4;
    error = call();
  }
  return error;
}

}  // namespace weft
