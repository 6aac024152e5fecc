// Packed tokens: windows of whole documents side by side, in place of windows that are cut across them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "weft/data/dataset.h"
#include "weft/data/tokens/token_source.h"
#include "weft/data/tokens/windows.h"

namespace weft {

/// The samples of `file`: windows of `context` tokens that hold documents of `source` as data/tokens/pack.h says, the same in
/// every epoch. Of a source that is read a group at a time, stretches of groups of TokenFile::mix_bytes are packed by
/// themselves; with `shift` they come one after another in an order that is drawn anew each epoch, and the windows of each in
/// an order of their own (Dataset::is_ordered()). inputs[0] and target are as open_tokens() has them, but for a document's last
/// token, which predicts nothing; inputs[1] is each token's place within its document or piece of one, from 0 on. What stays
/// empty of a window is at its end: places of their own, token 0 and kIgnore targets. A document that an edge of the part falls
/// into is cut there. In all, each token of the part but a document's first is predicted exactly once.
///
/// Documents begin where the source says so or, with `document_end`, after each token of that id: then the whole part is read
/// once here. Throws InputError for a source that does not know of documents, where there is none with two tokens, and as
/// open_tokens() does.
std::shared_ptr<Dataset> open_packed_tokens(const TokenFile& file, std::shared_ptr<const TokenSource> source,
                                            std::optional<int64_t> document_end = {});

}  // namespace weft
