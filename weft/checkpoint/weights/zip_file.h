// ZipFile: records of a zip archive, by name, with their checksums. For archives whose records lie below one folder, as PyTorch
// writes them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "weft/base/input_file.h"

namespace weft {

/// Reads records of one archive. Records that are read in the archive's order are found at once; any other order scans its list
/// again.
class ZipFile {
 public:
  /// Lists the archive. Throws FileError, naming `path`, for a missing or truncated file and for one that is no zip archive.
  explicit ZipFile(std::string path);
  ~ZipFile();

  const std::string& path() const { return path_; }                           ///< as given
  std::string state() const { return state_of(file_); }                       ///< of the file now (base/input_file.h)
  bool has(const std::string& name) const { return sizes_.count(name) > 0; }  ///< there is such a record
  /// Bytes of a record. Throws FileError for one that is not there.
  int64_t size(const std::string& name) const;
  /// Reads a whole record, of size() bytes, to `data`. Throws FileError for damage, which its checksum shows.
  void read(const std::string& name, void* data);
  /// Returns a record of at most `most_bytes`.
  std::string read_text(const std::string& name, int64_t most_bytes);

 private:
  struct Reader;
  void open();
  bool find(const std::string& name);  ///< scans on to the record; false at the end of the list

  std::string path_;
  InputFile file_;
  std::map<std::string, int64_t> sizes_;
  std::unique_ptr<Reader> reader_;
};

}  // namespace weft
