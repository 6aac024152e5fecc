#include "weft/data/tokens/token_stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "weft/base/error.h"
#include "weft/data/tokens/megatron_index.h"
#include "weft/data/tokens/token_folder.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

const char* advice_for(TokenType type) {
  return type == TokenType::u8 ? "set data.path to a file or folder (the default corpus of text: apt-get install fortunes)"
                               : "set data.path to a file or folder of token ids";
}

/// Advice for an id that is not below the vocabulary. A slightly larger one suggests a tokenizer with a few more ids; one far
/// above is probably not an id at all.
std::string advice_on(int64_t token, int64_t vocabulary, TokenType type) {
  if (token < vocabulary + std::max<int64_t>(vocabulary / 8, 16)) {
    return fmt::format("set model.vocabulary to at least {}, or check data.tokenizer", token + 1);
  }
  if (type == TokenType::u8) return "set model.vocabulary to at least 256";
  return fmt::format(
      "the file seems to be from another tokenizer, or not plain little-endian {} ids: check data.path and "
      "data.tokenizer",
      type == TokenType::u16 ? "uint16" : "uint32");
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
    FolderFiles files = token_files(path, type_);
    for (const std::string& file : files.taken) add(file);
    passed_over_ = std::move(files.passed_over);
    if (size_ == 0) {
      const std::string there = passed_over_.empty() ? "" : fmt::format(" (there is {})", passed_over_.front().text);
      throw InputError(fmt::format("{}: the folder holds no tokens in regular files{}; {}", path, there, advice_for(type_)));
    }
  } else {
    add(path);
    if (size_ == 0)
      throw InputError(
          fmt::format("{}: {}; {}", path, pieces_.empty() ? "the file is empty" : "it holds no ids", advice_for(type_)));
  }
}

void TokenStream::add(const std::string& path) {
  InputFile file = open_input(path);
  if (!file.reason.empty()) {
    std::error_code ignored;
    const bool is_prefix = fs::exists(path + ".bin", ignored);  // as in Megatron's --data-path
    throw InputError(fmt::format("{}: cannot open it: {}; {}", path, file.reason,
                                 is_prefix ? fmt::format("there is '{}.bin'", path) : advice_for(type_)));
  }
  if (file.bytes == 0) return;
  TokenLayout layout = token_layout(path, file, type_);
  const int64_t count = layout.count;
  pieces_.push_back({path, files_.add(path, std::move(file)), size_, std::move(layout)});
  size_ += count;
}

void TokenStream::read(int64_t begin, int64_t count, int64_t* out) const {
  if (begin < 0 || count < 0 || begin > size_ - count) {
    throw InputError(fmt::format("tokens [{}, {}) requested, but the stream has only {}", begin, begin + count, size_));
  }
  auto piece = std::upper_bound(pieces_.begin(), pieces_.end(), begin, [](int64_t at, const Piece& p) { return at < p.first; });
  for (--piece; count > 0; ++piece) {
    const int64_t offset = begin - piece->first;
    const int64_t part = std::min(count, piece->layout.count - offset);
    read_piece(*piece, offset, part, out);
    begin += part;
    count -= part;
    out += part;
  }
}

std::vector<int64_t> TokenStream::document_starts() const {
  std::vector<int64_t> starts;
  starts.reserve(pieces_.size());
  for (const Piece& piece : pieces_) {
    if (type_ == TokenType::u8) {
      starts.push_back(piece.first);
    } else if (piece.layout.index.empty()) {
      return {};
    } else {
      for (const int64_t start : megatron_documents(piece.layout.index)) starts.push_back(piece.first + start);
    }
  }
  return starts;
}

void TokenStream::read_piece(const Piece& piece, int64_t begin, int64_t count, int64_t* out) const {
  const auto vocabulary = static_cast<uint64_t>(vocabulary_);
  const int64_t width = token_bytes(piece.layout.type);
  std::vector<std::byte> bytes(static_cast<size_t>(count * width));
  files_.read(piece.file, piece.layout.offset + begin * width, bytes.data(), static_cast<int64_t>(bytes.size()));
  int64_t bad = -1;
  switch (piece.layout.type) {
    case TokenType::u8:
      bad = widen<uint8_t>(bytes, count, vocabulary, out);
      break;
    case TokenType::u16:
      bad = widen<uint16_t>(bytes, count, vocabulary, out);
      break;
    case TokenType::u32:
      bad = widen<uint32_t>(bytes, count, vocabulary, out);
      break;
    case TokenType::as_file:  // no layout's
      break;
  }
  if (bad >= 0) {
    throw InputError(fmt::format("{}: token {} at index {} is not below the vocabulary of {}; {}", piece.path, out[bad],
                                 begin + bad, vocabulary_, advice_on(out[bad], vocabulary_, piece.layout.type)));
  }
}

}  // namespace weft
