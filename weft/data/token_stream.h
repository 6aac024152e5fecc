// TokenStream: the tokens of one file, or of a folder's files one after another. Nothing is read before it is asked for, and
// what is read stays in the kernel's cache, which ranks on one host share. Not mapped into memory: a file that is cut off while
// it is in use would end the process without a word (SIGBUS), and it is an error with a name here.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weft/data/file_set.h"
#include "weft/data/token_source.h"
#include "weft/data/token_type.h"

namespace weft {

class TokenStream final : public TokenSource {
 public:
  /// Throws InputError for a missing or empty file, one that is not regular (a FIFO would be waited for, a device has no end)
  /// and for a length that is no multiple of the token size. Of a folder it
  /// takes the regular files in name order; not links, hidden files, subfolders or, as text, the index files (*.dat) that
  /// fortune keeps next to its texts.
  TokenStream(const std::string& path, TokenType type, int64_t vocabulary);

  int64_t size() const override { return size_; }
  void read(int64_t begin, int64_t count, int64_t* out) const override;
  /// Each file is a document.
  std::vector<int64_t> document_starts() const override;

 private:
  struct Piece {
    std::string path;
    size_t file = 0;
    int64_t first = 0;  ///< position of its first token in the stream
    int64_t count = 0;
  };
  void open_pieces(const std::string& path);
  void add(const std::string& path);
  void read_piece(const Piece& piece, int64_t begin, int64_t count, int64_t* out) const;

  TokenType type_;
  int64_t vocabulary_;
  int64_t size_ = 0;
  std::vector<Piece> pieces_;
  FileSet files_;
};

}  // namespace weft
