// Memory that ranks of one host share: anonymous files (memfd), which have no name anywhere, so that nothing is left when the
// ranks die in whatever way. A rank opens its peer's file through /proc/<pid>/fd/<fd>, also when the peer is a thread.
#pragma once

#include <cstddef>
#include <string>

#include "weft/base/process.h"

namespace weft::shm {

/// A view of shared memory; unmapped with the object. Pages take memory once touched.
class Mapping {
 public:
  Mapping() = default;
  Mapping(const FileDescriptor& file, size_t bytes);
  ~Mapping();
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;

  std::byte* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  /// Gives the pages back, in all views; they read as zero from then on.
  void discard();

 private:
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
};

/// Makes zero-filled memory that others can open. Throws CommError where the system refuses.
FileDescriptor create_memory(const std::string& name, size_t bytes);
/// The memory of another process, or of another thread, that has it as `fd`. Throws CommError where that has ended.
FileDescriptor open_peer_memory(int pid, int fd);

/// This process's memory as a text that open_peer_memory() takes in another one.
std::string memory_address(const FileDescriptor& file);
/// The memory that memory_address() named. Throws CommError for another text, and where its process has ended.
FileDescriptor open_peer_memory(const std::string& address);

}  // namespace weft::shm
