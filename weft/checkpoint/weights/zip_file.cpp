#include "weft/checkpoint/weights/zip_file.h"

#include <archive.h>
#include <archive_entry.h>
#include <fmt/format.h>
#include <unistd.h>

#include <utility>

#include "weft/base/file_error.h"
#include "weft/base/printable.h"

namespace weft {
namespace {

/// The record's name without the archive's folder; empty for the folder itself.
std::string record_name(archive_entry* entry) {
  const char* text = archive_entry_pathname(entry);
  if (text == nullptr) text = archive_entry_pathname_utf8(entry);  // the locale cannot represent it
  const std::string name = text == nullptr ? "" : text;
  return name.substr(name.find('/') == std::string::npos ? 0 : name.find('/') + 1);
}

}  // namespace

struct ZipFile::Reader {
  ~Reader() { archive_read_free(handle); }

  std::string reason() const {
    const char* text = archive_error_string(handle);
    return text == nullptr ? "it cannot be read" : text;
  }

  archive* handle = archive_read_new();
  archive_entry* entry = nullptr;
};

ZipFile::ZipFile(std::string path) : path_(std::move(path)) {
  file_ = open_input(path_);
  if (!file_.reason.empty()) throw FileError(fmt::format("{}: cannot open it: {}", path_, file_.reason));
  open();
  while (true) {
    const int status = archive_read_next_header(reader_->handle, &reader_->entry);
    if (status == ARCHIVE_EOF) break;
    if (status < ARCHIVE_WARN) {
      throw FileError(fmt::format("{}: its list of records is damaged ({}); get the file again", path_, reader_->reason()));
    }
    const std::string name = record_name(reader_->entry);
    if (archive_entry_size(reader_->entry) > file_.bytes) {  // PyTorch stores records as they are
      throw FileError(
          fmt::format("{}: record '{}' is said to have more bytes than the file; get the file again", path_, shortened(name)));
    }
    if (!sizes_.emplace(name, archive_entry_size(reader_->entry)).second) {
      throw FileError(fmt::format("{}: it has two records '{}'; get the file again", path_, shortened(name)));
    }
  }
  open();
}

ZipFile::~ZipFile() = default;

void ZipFile::open() {
  constexpr size_t kBlockBytes = size_t{1} << 20;
  reader_ = std::make_unique<Reader>();
  // The list at the archive's end alone: without it the file is truncated.
  archive_read_support_format_zip_seekable(reader_->handle);
  const bool at_start = lseek(file_.descriptor.get(), 0, SEEK_SET) == 0;
  if (at_start && archive_read_open_fd(reader_->handle, file_.descriptor.get(), kBlockBytes) == ARCHIVE_OK) return;
  throw FileError(fmt::format("{}: it is no zip archive, or truncated ({}); get the file again", path_, reader_->reason()));
}

int64_t ZipFile::size(const std::string& name) const {
  const auto found = sizes_.find(name);
  if (found == sizes_.end()) throw FileError(fmt::format("{}: it has no record '{}'", path_, shortened(name)));
  return found->second;
}

bool ZipFile::find(const std::string& name) {
  while (true) {
    const int status = archive_read_next_header(reader_->handle, &reader_->entry);
    if (status == ARCHIVE_EOF || status < ARCHIVE_WARN) return false;
    if (record_name(reader_->entry) == name) return true;
  }
}

void ZipFile::read(const std::string& name, void* data) {
  const int64_t bytes = size(name);
  if (!find(name)) {
    open();
    if (!find(name)) throw FileError(fmt::format("{}: record '{}' has gone; get the file again", path_, shortened(name)));
  }
  int64_t at = 0;
  char past_the_end = 0;
  while (true) {  // to the end of the record, where its checksum is compared
    char* to = at < bytes ? static_cast<char*>(data) + at : &past_the_end;
    const la_ssize_t got = archive_read_data(reader_->handle, to, at < bytes ? static_cast<size_t>(bytes - at) : 1);
    if (got == 0 && at == bytes) return;
    if (got <= 0 || at == bytes) {
      throw FileError(fmt::format("{}: record '{}' is damaged ({}); get the file again", path_, shortened(name),
                                  got < 0 ? reader_->reason() : fmt::format("not {} bytes", bytes)));
    }
    at += got;
  }
}

std::string ZipFile::read_text(const std::string& name, int64_t most_bytes) {
  const int64_t bytes = size(name);
  if (bytes < 0 || bytes > most_bytes) {
    throw FileError(fmt::format("{}: record '{}' has {} bytes, more than {}; get the file again", path_, shortened(name), bytes,
                                most_bytes));
  }
  std::string text(static_cast<size_t>(bytes), '\0');
  read(name, text.data());
  return text;
}

}  // namespace weft
