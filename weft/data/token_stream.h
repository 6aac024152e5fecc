// TokenStream: the tokens of one file, or of a folder's files one after another, memory-mapped: nothing is read before it is
// asked for, and ranks on one host share the pages. The files must not shrink while they are mapped.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weft/data/tokens.h"

namespace weft {

class TokenStream {
 public:
  /// Throws InputError for a missing or empty file and for a length that is no multiple of the token size. Of a folder it
  /// takes the regular files in name order; not links, hidden files, subfolders or, as text, the index files (*.dat) that
  /// fortune keeps next to its texts.
  TokenStream(const std::string& path, TokenType type, int64_t vocabulary);
  ~TokenStream();
  TokenStream(const TokenStream&) = delete;
  TokenStream& operator=(const TokenStream&) = delete;

  int64_t size() const { return size_; }
  /// Tokens [begin, begin + count) to out. Throws InputError for an id that is not below the vocabulary. Thread-safe.
  void read(int64_t begin, int64_t count, int64_t* out) const;

 private:
  struct Piece {
    std::string path;
    const void* data = nullptr;
    int64_t bytes = 0;
    int64_t first = 0;  ///< position of its first token in the stream
    int64_t count = 0;
  };
  void open_pieces(const std::string& path);
  void add(const std::string& path);
  void unmap();
  void read_piece(const Piece& piece, int64_t begin, int64_t count, int64_t* out) const;

  TokenType type_;
  int64_t vocabulary_;
  int64_t size_ = 0;
  std::vector<Piece> pieces_;
};

}  // namespace weft
