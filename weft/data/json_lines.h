// JSON lines: files in which each line is a JSON object, one key of which holds a document, as text or as token ids.
#pragma once

#include <memory>
#include <string>

#include "weft/data/bad_data.h"
#include "weft/data/token_source.h"

namespace weft {

/// Which files, and what of them.
struct JsonLines {
  std::string path;               ///< a file, or a folder whose regular files *.jsonl are read in name order
  std::string column = "text";    ///< the key whose value is the document
  int64_t vocabulary = 256;       ///< ids must be below it; of text at least 256
  BadData bad = BadData::refuse;  ///< what to do with a row that holds no document
};

/// The documents one after another: of text its bytes (UTF-8) and a line break after each document, of lists of ids just these.
/// The files are read once here, to find where each document lies (32 bytes of memory a row), and then as they are asked for.
/// Throws InputError that names file and row: for a line that is no JSON object, lacks the column or has another type there
/// than text or a list of whole numbers, or than the rows before it; for an id out of range; and where there is no document at
/// all. It knows where documents begin.
std::shared_ptr<const TokenSource> open_json_lines(const JsonLines& lines);

}  // namespace weft
