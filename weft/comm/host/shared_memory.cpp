#include "weft/comm/host/shared_memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <random>
#include <sstream>
#include <system_error>
#include <utility>

#include "weft/base/error.h"
#include "weft/base/standard_descriptors.h"
#include "weft/base/without_signal.h"

namespace weft::shm {
namespace {

[[noreturn]] void fail(const std::string& action, const std::string& advice) {
  const int error = errno;
  throw CommError(fmt::format("shared memory: cannot {}: {}; {}", action, std::strerror(error), advice));
}

}  // namespace

Mapping::Mapping(const FileDescriptor& file, size_t bytes) : bytes_(bytes) {
  void* address = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (address == MAP_FAILED) fail(fmt::format("map {} bytes", bytes), "is there a limit on address space (ulimit -v)?");
  data_ = static_cast<std::byte*>(address);
}

Mapping::~Mapping() {
  if (data_ != nullptr) ::munmap(data_, bytes_);
}

Mapping::Mapping(Mapping&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

void Mapping::discard() {
  if (data_ != nullptr) ::madvise(data_, bytes_, MADV_REMOVE);
}

FileDescriptor create_memory(const std::string& name, size_t bytes) {
  // The random number lets others verify the file's identity.
  const std::string own_name = fmt::format("weft:{}:{:08x}", name.substr(0, 180), std::random_device()());
  FileDescriptor file(above_standard(::memfd_create(own_name.c_str(), MFD_CLOEXEC)));
  if (!file) fail("create it", "are too many files open (ulimit -n)?");
  const WithoutSignal guard(SIGXFSZ);  // file-size limits apply to memory
  if (::ftruncate(file.get(), static_cast<off_t>(bytes)) != 0) {
    const bool limited = errno == EFBIG;
    fail(fmt::format("reserve {} bytes", bytes),
         limited ? "raise the limit on file sizes (ulimit -f), which counts shared memory too" : "use smaller buffers");
  }
  return file;
}

namespace {

constexpr const char* kApart =
    "the peer has ended, or ranks that share a host name cannot see each other's processes: set different WEFT_HOST names";

std::string path_of(int pid, int fd) { return fmt::format("/proc/{}/fd/{}", pid, fd); }

std::string link_of(int pid, int fd) {
  std::error_code ignored;
  return std::filesystem::read_symlink(path_of(pid, fd), ignored).string();
}

}  // namespace

FileDescriptor open_peer_memory(int pid, int fd) {
  const std::string path = path_of(pid, fd);
  FileDescriptor file(above_standard(::open(path.c_str(), O_RDWR | O_CLOEXEC)));
  if (!file) fail(fmt::format("open a peer's memory {}", path), kApart);
  return file;
}

std::string memory_address(const FileDescriptor& file) {
  return fmt::format("{} {} {}", ::getpid(), file.get(), link_of(::getpid(), file.get()));
}

// A process of another container may have the same pid, and its descriptor may be anything.
FileDescriptor open_peer_memory(const std::string& address) {
  std::istringstream words(address);
  int pid = 0, fd = 0;
  std::string link;
  if (!(words >> pid >> fd)) throw CommError(fmt::format("shared memory: '{}' is not an address of shared memory", address));
  words.ignore();
  std::getline(words, link);
  FileDescriptor file = open_peer_memory(pid, fd);
  if (link_of(pid, fd) != link) {
    throw CommError(fmt::format("shared memory: {} is not a peer's memory: {}", path_of(pid, fd), kApart));
  }
  return file;
}

}  // namespace weft::shm
