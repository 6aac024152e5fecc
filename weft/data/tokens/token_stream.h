// TokenStream: the tokens of one file, or of a folder's files one after another. Nothing is read before it is asked for, and
// what is read stays in the kernel's cache, which ranks on one host share. Not mapped into memory: a file that is cut off while
// it is in use would end the process without a word (SIGBUS), and it is an error with a name here.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weft/data/files/file_set.h"
#include "weft/data/tokens/token_layout.h"
#include "weft/data/tokens/token_source.h"
#include "weft/data/tokens/token_type.h"

namespace weft {

class TokenStream final : public TokenSource {
 public:
  /// Throws InputError for a missing or empty file, one that is not regular (a FIFO would be waited for, a device has no end),
  /// and one that holds something else (data/tokens/token_layout.h). Of a folder it takes the files that
  /// data/tokens/token_folder.h tells, in name order.
  TokenStream(const std::string& path, TokenType type, int64_t vocabulary);

  int64_t size() const override { return size_; }
  void read(int64_t begin, int64_t count, int64_t* out) const override;
  /// Of text each file is a document; of ids they are those of Megatron's indexes, where all files have one.
  std::vector<int64_t> document_starts() const override;
  DataNotes passed_over() const override { return passed_over_; }

 private:
  struct Piece {
    std::string path;
    size_t file = 0;
    int64_t first = 0;  ///< position of its first token in the stream
    TokenLayout layout;
  };
  void open_pieces(const std::string& path);
  void add(const std::string& path);
  void read_piece(const Piece& piece, int64_t begin, int64_t count, int64_t* out) const;

  TokenType type_;
  int64_t vocabulary_;
  int64_t size_ = 0;
  std::vector<Piece> pieces_;
  DataNotes passed_over_;
  FileSet files_;
};

}  // namespace weft
