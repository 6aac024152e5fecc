// Creates and syncs folders, and throws file errors by kind, for a storage on disk and its lock.
#pragma once

#include <chrono>
#include <string>
#include <thread>

#include "weft/base/storage_error.h"

namespace weft {

/// Throws the error for a failed write: "PATH: could not ACTION: ...".
[[noreturn]] void fail_to_write(const std::string& path, const char* action, int error);
/// Throws the error for a failed read, "PATH: cannot ACTION: ..."; a missing file counts as damage.
[[noreturn]] void fail_to_read(const std::string& path, const char* action, int error);

/// Makes the names in a folder durable. Ignores errors: some file systems cannot do this, and need not.
void sync_folder(const std::string& folder);
/// Creates missing folders, each durable in its parent.
void make_folders(const std::string& folder);

/// Retries, with growing pauses, a call that fails with the errno of a failing device; returns its last result.
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
