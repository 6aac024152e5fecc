#include "weft/c/caller_memory.h"

#include <fmt/format.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>

namespace weft::c {
namespace {

constexpr size_t kPage = 4096;

/// Pages that this thread has found readable in the current call, as their numbers; the first ones.
struct SeenPages {
  std::array<uintptr_t, 8> pages{};
  size_t count = 0;

  bool has(uintptr_t page) const { return std::find(pages.begin(), pages.begin() + count, page) != pages.begin() + count; }
  void add(uintptr_t page) {
    if (count < pages.size() && !has(page)) pages[count++] = page;
  }
};

thread_local SeenPages seen;

uintptr_t page_of(const char* byte) { return reinterpret_cast<uintptr_t>(byte) / kPage; }

/// Whether a call moved all these bytes, or failed for another reason than the memory.
bool moved(ssize_t count, size_t bytes) { return count == static_cast<ssize_t>(bytes) || (count < 0 && errno != EFAULT); }

}  // namespace

void forget_pages() { seen.count = 0; }

bool is_readable(const void* first, size_t bytes) {
  char* const begin = static_cast<char*>(const_cast<void*>(first));
  char* const last = begin + bytes - 1;
  if (seen.has(page_of(begin)) && seen.has(page_of(last))) return true;
  char copies[2] = {};
  const iovec to{copies, 2}, from[] = {{begin, 1}, {last, 1}};
  if (!moved(::process_vm_readv(::getpid(), &to, 1, from, 2, 0), 2)) return false;
  seen.add(page_of(begin));
  seen.add(page_of(last));
  return true;
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
