#include "weft/c/caller_memory.h"

#include <fmt/format.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>

namespace weft::c {
namespace {

/// Whether a call moved all these bytes, or failed for another reason than the memory.
bool moved(ssize_t count, size_t bytes) { return count == static_cast<ssize_t>(bytes) || (count < 0 && errno != EFAULT); }

}  // namespace

bool is_readable(const void* first, size_t bytes) {
  char copies[2] = {};
  char* const begin = static_cast<char*>(const_cast<void*>(first));
  const iovec to{copies, 2}, from[] = {{begin, 1}, {begin + bytes - 1, 1}};
  return moved(::process_vm_readv(::getpid(), &to, 1, from, 2, 0), 2);
}

bool is_writable(void* first, size_t bytes) {
  char copies[2] = {};
  char* const begin = static_cast<char*>(first);
  const iovec here{copies, 2}, there[] = {{begin, 1}, {begin + bytes - 1, 1}};
  const ssize_t read = ::process_vm_readv(::getpid(), &here, 1, there, 2, 0);
  if (read != 2) return moved(read, 2);
  return moved(::process_vm_writev(::getpid(), &here, 1, there, 2, 0), 2);  // what is there
}

std::string text_of(const char* text, const char* name) {
  constexpr size_t kPage = 4096;
  std::string all;
  for (const char* at = given(text, name); all.size() <= kLongestText;) {
    char part[kPage];
    const size_t to_end_of_page = kPage - reinterpret_cast<uintptr_t>(at) % kPage;
    const iovec to{part, to_end_of_page}, from{const_cast<char*>(at), to_end_of_page};
    const ssize_t count = ::process_vm_readv(::getpid(), &to, 1, &from, 1, 0);
    if (!moved(count, to_end_of_page)) throw InputError(fmt::format("{} is no memory that can be read", name));
    const char* const begin = count < 0 ? at : part;
    const size_t length = strnlen(begin, to_end_of_page);
    all.append(begin, length);
    if (length < to_end_of_page && all.size() <= kLongestText) return all;
    at += length;
  }
  throw InputError(fmt::format("{} is longer than {} bytes", name, kLongestText));
}

}  // namespace weft::c
