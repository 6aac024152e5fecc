// Packed tokens: windows of several whole documents, instead of windows cut across documents.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "weft/data/dataset.h"
#include "weft/data/tokens/token_source.h"
#include "weft/data/tokens/windows.h"

namespace weft {

/// Samples of `file`: windows of `context` tokens with documents of `source`, packed as in data/tokens/pack.h, the same in
/// every epoch. If the source is read a group at a time, stretches of groups of TokenFile::mix_bytes are packed separately;
/// with `shift`, each epoch draws a new order of stretches and of each one's windows (Dataset::is_ordered()). inputs[0] and
/// target are as in open_tokens(), except that a document's last token predicts nothing; inputs[1] is each token's position in
/// its document or piece, from 0. The unused end of a window has positions from 0, token 0 and kIgnore targets. A document that
/// crosses an edge of the part is cut there. Each token of the part except a document's first is predicted once.
///
/// Documents begin where the source says so or, with `document_end`, after each token with that id; the whole part is then read
/// once, here. Throws InputError for a source without document starts, if no document has two tokens, and as open_tokens().
std::shared_ptr<Dataset> open_packed_tokens(const TokenFile& file, std::shared_ptr<const TokenSource> source,
                                            std::optional<int64_t> document_end = {});

}  // namespace weft
