// Memory shared by ranks of one host: anonymous files (memfd) without a path, so nothing is left when the ranks die, however
// they end. A rank opens its peer's file through /proc/<pid>/fd/<fd>, even if the peer is a thread.
#pragma once

#include <cstddef>
#include <string>

#include "weft/base/process.h"

namespace weft::shm {

/// A view of shared memory, unmapped on destruction. Pages take no memory until touched.
class Mapping {
 public:
  Mapping() = default;
  Mapping(const FileDescriptor& file, size_t bytes);
  ~Mapping();
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;

  std::byte* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  /// Releases the pages, in all views; they then read as zero.
  void discard();

 private:
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
};

/// Creates zero-filled memory that others can open. Throws CommError on a system error.
FileDescriptor create_memory(const std::string& name, size_t bytes);
/// Opens descriptor `fd` of another process or thread. Throws CommError if it has ended.
FileDescriptor open_peer_memory(int pid, int fd);

/// Returns an address of this process's memory for open_peer_memory() in another process.
std::string memory_address(const FileDescriptor& file);
/// Opens the memory named by memory_address(). Throws CommError for any other text, and if the process has ended.
FileDescriptor open_peer_memory(const std::string& address);

}  // namespace weft::shm
