// TokenStream: the tokens of one file, or of a folder's files one after another. Data is read on request and stays in the
// kernel's cache, which ranks on one host share. Files are not mapped into memory: truncation of a mapped file while it is in
// use would kill the process silently (SIGBUS); here it is an error that names the file.
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
  /// Throws InputError for a missing or empty file, one that is not regular (a FIFO would block, a device has no end), and one
  /// that holds something else (data/tokens/token_layout.h). From a folder it takes the files selected by
  /// data/tokens/token_folder.h, in name order.
  TokenStream(const std::string& path, TokenType type, int64_t vocabulary);

  int64_t size() const override { return size_; }
  void read(int64_t begin, int64_t count, int64_t* out) const override;
  /// For text, each file is a document; for ids, Megatron's indexes give the documents, if all files have one.
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
