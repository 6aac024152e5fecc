#include "weft/data/files/tar_members.h"

#include <archive.h>
#include <archive_entry.h>
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <exception>
#include <memory>
#include <vector>

#include "weft/base/error.h"

namespace weft {
namespace {

constexpr int64_t kMostText = 64, kBlock = 512;

/// Source of bytes for libarchive, which is C: exceptions are stored, and rethrown after it returns.
struct Source {
  const ShardFiles& files;
  size_t number;
  int64_t at = 0;
  std::vector<char> buffer;
  std::exception_ptr error;
};

la_ssize_t read_block(archive* /*reader*/, void* data, const void** buffer) {
  Source& source = *static_cast<Source*>(data);
  const int64_t bytes =
      std::min<int64_t>(static_cast<int64_t>(source.buffer.size()), source.files.size(source.number) - source.at);
  try {
    source.files.read(source.number, source.at, source.buffer.data(), bytes);
  } catch (...) {
    source.error = std::current_exception();
    return ARCHIVE_FATAL;
  }
  source.at += bytes;
  *buffer = source.buffer.data();
  return bytes;
}

la_int64_t skip_bytes(archive* /*reader*/, void* data, la_int64_t request) {
  Source& source = *static_cast<Source*>(data);
  const int64_t bytes = std::clamp<int64_t>(source.files.size(source.number) - source.at, 0, request);
  source.at += bytes;
  return bytes;
}

struct FreeReader {
  void operator()(archive* reader) const { archive_read_free(reader); }
};

std::string reason(archive* reader) {
  const char* text = archive_error_string(reader);
  return text == nullptr ? "it cannot be read" : text;
}

std::string text_of(archive* reader, int64_t bytes) {
  std::string text(static_cast<size_t>(bytes), '\0');
  const la_ssize_t got = archive_read_data(reader, text.data(), text.size());
  text.resize(static_cast<size_t>(std::max<la_ssize_t>(got, 0)));
  return text;
}

/// Ignores case.
bool ends_with_any_case(const std::string& name, const std::string& ending) {
  const auto alike = [](unsigned char a, unsigned char b) { return std::tolower(a) == std::tolower(b); };
  return name.size() >= ending.size() && std::equal(ending.rbegin(), ending.rend(), name.rbegin(), alike);
}

/// End of a run of zeros from `at`, in whole blocks.
int64_t end_of_zeros(const Source& source, int64_t at) {
  const int64_t size = source.files.size(source.number), most = source.files.block_bytes();
  for (std::vector<char> bytes; at < size; at += static_cast<int64_t>(bytes.size())) {
    bytes.resize(static_cast<size_t>(std::min(most, size - at)));
    source.files.read(source.number, at, bytes.data(), static_cast<int64_t>(bytes.size()));
    const auto other = std::find_if(bytes.begin(), bytes.end(), [](char c) { return c != '\0'; });
    if (other != bytes.end()) return at + (other - bytes.begin()) / kBlock * kBlock;
  }
  return size;
}

/// Looks for the end mark: two blocks of zeros, or one from some writers. Without it the file may be truncated.
TarEnd find_end(const Source& source, int64_t end) {
  const int64_t size = source.files.size(source.number), zeros = end_of_zeros(source, end);
  if (zeros < end + kBlock || end + kBlock > size) return {.cut = "it has no end mark"};
  return {.bytes_behind = std::max<int64_t>(0, size - zeros)};
}

}  // namespace

TarEnd read_tar(const ShardFiles& files, size_t number, const std::string& text_ending,
                c10::function_ref<void(TarMember)> take) {
  Source source{files, number, 0, std::vector<char>(static_cast<size_t>(files.block_bytes())), {}};
  const std::unique_ptr<archive, FreeReader> reader(archive_read_new());
  if (!reader) throw MemoryError(fmt::format("{}: out of memory for reading its index", files.name(number)));
  archive_read_support_format_tar(reader.get());
  archive_read_set_read_callback(reader.get(), read_block);
  archive_read_set_skip_callback(reader.get(), skip_bytes);
  archive_read_set_callback_data(reader.get(), &source);
  const auto failed = [&] {
    if (source.error) std::rethrow_exception(source.error);
    const FileKind kind = kind_of(files, number);
    return TarEnd{.cut = kind && kind.what != kTarArchive ? fmt::format("it is {}; {}", kind.what, kind.advice)
                                                          : reason(reader.get())};
  };
  if (archive_read_open1(reader.get()) != ARCHIVE_OK) return failed();
  int64_t end = 0;  // end of the members read, in whole blocks
  while (true) {
    archive_entry* entry = nullptr;
    const int status = archive_read_next_header(reader.get(), &entry);
    if (status == ARCHIVE_EOF) return find_end(source, end);
    if (status < ARCHIVE_WARN) return failed();
    const char* name = archive_entry_pathname(entry);
    if (name == nullptr) name = archive_entry_pathname_utf8(entry);  // the locale cannot represent it
    TarMember member{.name = name == nullptr ? "" : name,
                     .offset = archive_filter_bytes(reader.get(), 0),
                     .bytes = archive_entry_size(entry),
                     .text = {},
                     .is_link = archive_entry_filetype(entry) == AE_IFLNK || archive_entry_hardlink(entry) != nullptr};
    const bool has_bytes = archive_entry_filetype(entry) == AE_IFREG && !member.is_link;
    if (has_bytes && archive_entry_sparse_count(entry) > 0) return {.cut = fmt::format("{} has holes (sparse)", member.name)};
    const int64_t bytes = has_bytes ? member.bytes : 0;
    if (bytes < 0 || bytes > files.size(number) - member.offset) return {.cut = fmt::format("it ends within {}", member.name)};
    end = member.offset + (bytes + kBlock - 1) / kBlock * kBlock;
    if (member.is_link) take(member);
    if (!has_bytes) continue;
    if (ends_with_any_case(member.name, text_ending) && member.bytes <= kMostText)
      member.text = text_of(reader.get(), member.bytes);
    take(std::move(member));
  }
}

}  // namespace weft
