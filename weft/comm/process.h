// Other processes on this host: whether they still live. File descriptors that close themselves.
#pragma once

namespace weft {

class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) : fd_(fd) {}
  ~FileDescriptor();
  FileDescriptor(FileDescriptor&& other) noexcept;
  FileDescriptor& operator=(FileDescriptor&& other) noexcept;

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

/// To be asked has_ended(). Empty, and never ended, for this process itself.
FileDescriptor watch_process(int pid);
bool has_ended(const FileDescriptor& watched);

}  // namespace weft
