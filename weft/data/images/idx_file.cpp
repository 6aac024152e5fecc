#include "weft/data/images/idx_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <new>
#include <system_error>

#include "weft/base/error.h"
#include "weft/base/file_kind.h"
#include "weft/base/input_file.h"

namespace weft {
namespace {

constexpr const char* kGetImages = "for Fashion-MNIST: apt-get install dataset-fashion-mnist; else set data.path";
constexpr const char* kGetAgain = "get the file again (Fashion-MNIST: apt-get install --reinstall dataset-fashion-mnist)";

struct CloseGz {
  void operator()(gzFile file) const { gzclose(file); }
};
using GzFile = std::unique_ptr<gzFile_s, CloseGz>;

GzFile open_gz(const std::string& path, const std::string& what) {
  const InputFile input = open_input(path);
  if (!input.reason.empty()) {
    throw InputError(fmt::format("{}: cannot open the {} file: {}; {}", path, what, input.reason, kGetImages));
  }
  const std::string head = read_head(path, input);
  const FileKind kind = file_kind(head);
  if (kind && !head.starts_with("\x1f\x8b")) {
    throw InputError(fmt::format("{}: it is {}, where IDX {} are expected; {}", path, kind.what, what, kind.advice));
  }
  if (input.bytes == 0) throw InputError(fmt::format("{}: the {} file is empty; {}", path, what, kGetAgain));
  const int descriptor = ::fcntl(input.descriptor.get(), F_DUPFD_CLOEXEC, STDERR_FILENO + 1);  // for zlib, which closes it
  GzFile file(descriptor < 0 ? nullptr : gzdopen(descriptor, "rb"));
  if (!file) {
    throw InputError(fmt::format("{}: cannot open the {} file: {}", path, what, std::system_category().message(errno)));
  }
  gzbuffer(file.get(), 1 << 17);
  if (path.ends_with(".gz") && gzdirect(file.get())) {
    throw InputError(fmt::format("{}: named .gz but not gzip; {}", path, kGetAgain));
  }
  return file;
}

/// Reads up to `count` bytes; fewer at the end of the file, and from a gzip stream that ends early if `bad` allows it.
size_t read_some(gzFile file, uint8_t* out, size_t count, const std::string& path, BadData bad) {
  size_t done = 0;
  while (done < count) {
    const auto chunk = static_cast<unsigned>(std::min<size_t>(count - done, 1 << 24));
    const int got = gzread(file, out + done, chunk);
    if (got > 0 && done + static_cast<size_t>(got) == count) return count;  // errors further on surface when read
    // zlib reports a truncated stream as a separate error only after its last bytes.
    int code = Z_OK;
    const char* text = gzerror(file, &code);
    if (code == Z_BUF_ERROR && bad == BadData::skip) return done + static_cast<size_t>(std::max(got, 0));
    if (got < 0 || (code != Z_OK && code != Z_STREAM_END)) {
      if (code == Z_BUF_ERROR)
        throw InputError(fmt::format("{}: truncated: the gzip stream ends early; {}, {}", path, kGetAgain, kOrSkip));
      const char* colon = std::strstr(text, ": ");  // text before it: the descriptor's number
      const std::string reason = code == Z_ERRNO ? std::system_category().message(errno) : colon ? colon + 2 : text;
      throw InputError(fmt::format("{}: corrupt gzip ({}); {}", path, reason, kGetAgain));
    }
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  return done;
}

uint32_t big_endian(const uint8_t* bytes) {
  return uint32_t{bytes[0]} << 24 | uint32_t{bytes[1]} << 16 | uint32_t{bytes[2]} << 8 | uint32_t{bytes[3]};
}

/// Returns the sizes, and their product in `total`.
std::vector<int64_t> read_header(gzFile file, int dims, const std::string& path, const std::string& what, int64_t& total) {
  uint8_t bytes[4 * 4] = {};
  const size_t header = 4 + 4 * static_cast<size_t>(dims);
  const size_t got = read_some(file, bytes, header, path, BadData::refuse);
  const uint32_t magic = big_endian(bytes), expected = 0x800u + static_cast<uint32_t>(dims);
  if (got >= 4 && magic != expected) {
    throw InputError(
        fmt::format("{}: magic number 0x{:08x} is not that of IDX {} (0x{:08x}); check that this is the idx{}-ubyte file", path,
                    magic, what, expected, dims));
  }
  if (got < header) throw InputError(fmt::format("{}: truncated: {} bytes are not an IDX header; {}", path, got, kGetAgain));
  constexpr int64_t kLargest = int64_t{1} << 48;
  std::vector<int64_t> sizes;
  total = 1;
  for (int d = 0; d < dims; ++d) {
    sizes.push_back(big_endian(bytes + 4 + 4 * d));
    if (sizes.back() == 0) throw InputError(fmt::format("{}: holds no {} (dimension {} is 0); {}", path, what, d, kGetAgain));
    if (sizes.back() > kLargest / total) {
      throw InputError(fmt::format("{}: corrupt header: its sizes multiply to more than 2^48 bytes; {}", path, kGetAgain));
    }
    total *= sizes.back();
  }
  return sizes;
}

void make_room(std::vector<uint8_t>& values, size_t bytes, const std::string& path) {
  try {
    values.resize(bytes);
  } catch (const std::bad_alloc&) {
    throw MemoryError(fmt::format("{}: out of memory: it has more than {} bytes", path, bytes));
  }
}

/// Keeps the whole items of a file with `have` of the `total` bytes that its header says.
void keep_whole(IdxFile& file, size_t have, int64_t total) {
  const auto whole = static_cast<int64_t>(have) / (total / file.sizes[0]);
  file.missing = file.sizes[0] - whole;
  file.sizes[0] = whole;
  file.values.resize(static_cast<size_t>(total / (whole + file.missing) * whole));
}

}  // namespace

IdxFile read_idx(const std::string& path, int dims, const std::string& what, BadData bad) {
  const GzFile file = open_gz(path, what);
  IdxFile out;
  int64_t total = 0;
  out.sizes = read_header(file.get(), dims, path, what, total);
  // Grown as data arrives: a corrupt header must not allocate terabytes. One byte more detects a file that is too long.
  const auto wanted = static_cast<size_t>(total) + 1;
  size_t have = 0;
  while (have < wanted) {
    const size_t step = std::min<size_t>(wanted - have, std::max<size_t>(have, size_t{1} << 24));
    make_room(out.values, have + step, path);
    const size_t got = read_some(file.get(), out.values.data() + have, step, path, bad);
    have += got;
    if (got < step) break;
  }
  const bool short_of_it = have < static_cast<size_t>(total);
  if (have > static_cast<size_t>(total) || (short_of_it && bad == BadData::refuse)) {
    throw InputError(fmt::format("{}: {}: its header says {} bytes of {}, it has {}{}; {}{}", path,
                                 short_of_it ? "truncated" : "too long", total, what, short_of_it ? "" : "at least ", have,
                                 kGetAgain, short_of_it ? std::string(", ") + kOrSkip : ""));
  }
  out.values.resize(have);
  if (short_of_it) keep_whole(out, have, total);
  return out;
}

}  // namespace weft
