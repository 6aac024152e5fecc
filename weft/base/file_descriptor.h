// FileDescriptor: owns an open descriptor and closes it.
#pragma once

#include <unistd.h>

#include <utility>

namespace weft {

/// Owns an open descriptor, or none; closes it with the object.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  /// Takes over `fd`; a negative one is none.
  explicit FileDescriptor(int fd) : fd_(fd) {}
  /// Leaves `other` without a descriptor.
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  /// Swaps the two descriptors.
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~FileDescriptor() { close(); }

  /// The descriptor, which stays owned; -1 for none.
  int get() const { return fd_; }
  /// Whether there is one.
  explicit operator bool() const { return fd_ >= 0; }
  /// Gives the descriptor to whoever closes it from now on.
  int release() { return std::exchange(fd_, -1); }
  /// Closes the descriptor now; nothing where there is none.
  void close() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }

 private:
  int fd_ = -1;
};

}  // namespace weft
