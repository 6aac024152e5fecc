// FileDescriptor: owns an open descriptor and closes it.
#pragma once

#include <unistd.h>

#include <utility>

namespace weft {

/// Owns at most one open descriptor and closes it on destruction.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  /// Takes ownership of `fd`; a negative value means no descriptor.
  explicit FileDescriptor(int fd) : fd_(fd) {}
  /// Leaves `other` without a descriptor.
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  /// Swaps the two descriptors.
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~FileDescriptor() { close(); }

  /// Returns the descriptor without giving up ownership; -1 if there is no descriptor.
  int get() const { return fd_; }
  /// Returns whether a descriptor is owned.
  explicit operator bool() const { return fd_ >= 0; }
  /// Gives up ownership: the caller closes the descriptor.
  int release() { return std::exchange(fd_, -1); }
  /// Closes the descriptor now, if there is one.
  void close() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }

 private:
  int fd_ = -1;
};

}  // namespace weft
