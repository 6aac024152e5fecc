#include "weft/data/token_stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "weft/base/error.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

constexpr const char* kGetText = "set data.path to a file or folder (the default corpus of text: apt-get install fortunes)";

int64_t token_bytes(TokenType type) { return type == TokenType::u8 ? 1 : type == TokenType::u16 ? 2 : 4; }

[[noreturn]] void fail_to_open(const std::string& path, const std::string& reason) {
  throw InputError(fmt::format("{}: cannot open it: {}; {}", path, reason, kGetText));
}

std::vector<std::string> files_of(const fs::path& folder, TokenType type) {
  std::vector<std::string> paths;
  std::error_code code;
  for (fs::directory_iterator it(folder, code), end; !code && it != end; it.increment(code)) {
    std::error_code status;
    const bool regular = it->symlink_status(status).type() == fs::file_type::regular;
    const bool hidden = it->path().filename().string().starts_with('.');
    const bool index = type == TokenType::u8 && it->path().extension() == ".dat";
    if (regular && !hidden && !index) paths.push_back(it->path().string());
  }
  if (code) fail_to_open(folder.string(), code.message());
  std::sort(paths.begin(), paths.end());
  return paths;
}

/// Widens `count` tokens; returns the position of the first that is not below the vocabulary, or -1.
template <typename Token>
int64_t widen(const std::vector<std::byte>& bytes, int64_t count, uint64_t vocabulary, int64_t* out) {
  uint64_t largest = 0;
  for (int64_t i = 0; i < count; ++i) {
    Token token = 0;
    std::memcpy(&token, bytes.data() + static_cast<size_t>(i) * sizeof token, sizeof token);
    largest = std::max<uint64_t>(largest, token);
    out[i] = static_cast<int64_t>(token);
  }
  if (largest < vocabulary) return -1;
  return std::find_if(out, out + count, [&](int64_t token) { return static_cast<uint64_t>(token) >= vocabulary; }) - out;
}

}  // namespace

TokenStream::TokenStream(const std::string& path, TokenType type, int64_t vocabulary) : type_(type), vocabulary_(vocabulary) {
  if (vocabulary < 1) throw InputError(fmt::format("model.vocabulary = {}: must be at least 1", vocabulary));
  open_pieces(path);
}

void TokenStream::open_pieces(const std::string& path) {
  std::error_code code;
  if (fs::is_directory(path, code)) {
    for (const std::string& file : files_of(path, type_)) add(file);
    if (size_ == 0) throw InputError(fmt::format("{}: the folder holds no tokens in regular files; {}", path, kGetText));
  } else {
    add(path);
    if (size_ == 0) throw InputError(fmt::format("{}: the file is empty; {}", path, kGetText));
  }
}

void TokenStream::add(const std::string& path) {
  InputFile file = open_input(path);
  if (!file.reason.empty()) fail_to_open(path, file.reason);
  if (file.bytes == 0) return;
  if (file.bytes % token_bytes(type_) != 0) {
    throw InputError(
        fmt::format("{}: {} bytes are no multiple of the token size {}; the file is cut off, or data.tokenizer is wrong", path,
                    file.bytes, token_bytes(type_)));
  }
  const int64_t count = file.bytes / token_bytes(type_);
  pieces_.push_back({path, files_.add(path, std::move(file)), size_, count});
  size_ += count;
}

void TokenStream::read(int64_t begin, int64_t count, int64_t* out) const {
  if (begin < 0 || count < 0 || begin > size_ - count) {
    throw InputError(fmt::format("tokens [{}, {}) asked for, the stream has {}", begin, begin + count, size_));
  }
  auto piece = std::upper_bound(pieces_.begin(), pieces_.end(), begin, [](int64_t at, const Piece& p) { return at < p.first; });
  for (--piece; count > 0; ++piece) {
    const int64_t offset = begin - piece->first;
    const int64_t part = std::min(count, piece->count - offset);
    read_piece(*piece, offset, part, out);
    begin += part;
    count -= part;
    out += part;
  }
}

std::vector<int64_t> TokenStream::document_starts() const {
  std::vector<int64_t> starts;
  starts.reserve(pieces_.size());
  for (const Piece& piece : pieces_) starts.push_back(piece.first);
  return starts;
}

void TokenStream::read_piece(const Piece& piece, int64_t begin, int64_t count, int64_t* out) const {
  const auto vocabulary = static_cast<uint64_t>(vocabulary_);
  std::vector<std::byte> bytes(static_cast<size_t>(count * token_bytes(type_)));
  files_.read(piece.file, begin * token_bytes(type_), bytes.data(), static_cast<int64_t>(bytes.size()));
  int64_t bad = -1;
  switch (type_) {
    case TokenType::u8:
      bad = widen<uint8_t>(bytes, count, vocabulary, out);
      break;
    case TokenType::u16:
      bad = widen<uint16_t>(bytes, count, vocabulary, out);
      break;
    case TokenType::u32:
      bad = widen<uint32_t>(bytes, count, vocabulary, out);
      break;
  }
  if (bad >= 0) {
    throw InputError(
        fmt::format("{}: token {} at index {} is not below the vocabulary of {}; set model.vocabulary to at least {}, or "
                    "check data.tokenizer",
                    piece.path, out[bad], begin + bad, vocabulary_, out[bad] + 1));
  }
}

}  // namespace weft
