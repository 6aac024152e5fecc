#include "weft/checkpoint/storage/local_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "weft/base/file_descriptor.h"

namespace weft {

namespace fs = std::filesystem;

void fail_to_write(const std::string& path, const char* action, int error) {
  const char* advice = error == ENOSPC || error == EDQUOT ? "free some space, or keep fewer checkpoints (save.keep)"
                       : error == EFBIG                   ? "raise the limit on file sizes (ulimit -f)"
                                                          : "check the folder, or name another (save.folder)";
  throw_storage_error(error,
                      fmt::format("{}: could not {}: {}; {}", path, action, std::system_category().message(error), advice));
}

void fail_to_read(const std::string& path, const char* action, int error) {
  const std::string text = fmt::format("{}: cannot {}: {}", path, action, std::system_category().message(error));
  if (error == ENOENT || error == ENOTDIR || error == ELOOP) throw DamageError(text);
  throw_storage_error(error, is_io_failure(error) ? text + " (retried); check the disk or the network" : text);
}

void sync_folder(const std::string& folder) {
  const FileDescriptor descriptor(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (descriptor) fsync(descriptor.get());
}

void make_folders(const std::string& folder) {
  std::error_code code;
  if (fs::is_directory(folder, code)) return;
  const std::string parent = fs::path(folder).parent_path().string();
  if (!parent.empty()) make_folders(parent);
  fs::create_directory(folder, code);
  std::error_code ignored;
  if (code && !fs::is_directory(folder, ignored)) fail_to_write(folder, "make the folder", code.value());
  sync_folder(parent.empty() ? "." : parent);
}

}  // namespace weft
