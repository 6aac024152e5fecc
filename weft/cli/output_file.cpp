#include "weft/cli/output_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "weft/base/error.h"

namespace weft {

namespace {

[[noreturn]] void fail(const std::string& option, const std::string& path, int reason) {
  throw InputError(fmt::format("{}: cannot write '{}': {}", option, path, std::strerror(reason)));
}

}  // namespace

void check_output_path(const std::string& option, const std::string& path) {
  const std::filesystem::path parent = std::filesystem::path(path).parent_path();
  const std::string folder = parent.empty() ? "." : parent.string();
  if (path.empty()) fail(option, path, ENOENT);
  if (std::filesystem::is_directory(path)) fail(option, path, EISDIR);
  if (!std::filesystem::is_directory(folder)) fail(option, path, std::filesystem::exists(folder) ? ENOTDIR : ENOENT);
  if (access(folder.c_str(), W_OK | X_OK) != 0) fail(option, path, errno);
}

void write_output(const std::string& option, const std::string& path, const std::string& text) {
  const std::string beside = fmt::format("{}.{}.tmp", path, getpid());
  std::FILE* file = std::fopen(beside.c_str(), "w");
  if (file == nullptr) fail(option, path, errno);
  const bool written =
      std::fwrite(text.data(), 1, text.size(), file) == text.size() && std::fflush(file) == 0 && fsync(fileno(file)) == 0;
  const int reason = errno;
  std::fclose(file);
  if (written && std::rename(beside.c_str(), path.c_str()) == 0) return;
  const int why = written ? errno : reason;
  std::remove(beside.c_str());
  fail(option, path, why);
}

}  // namespace weft
