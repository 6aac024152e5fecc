#include "weft/data/tokens/token_layout.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstring>

#include "weft/base/error.h"
#include "weft/base/file_kind.h"
#include "weft/base/printable.h"
#include "weft/data/files/npy_header.h"
#include "weft/data/tokens/megatron_index.h"

namespace weft {
namespace {

[[noreturn]] void misfit(const std::string& path, std::string_view who, int64_t said, int64_t bytes) {
  throw InputError(
      fmt::format("{}: {} says {} bytes, but it has {}; {}", path, who, said, bytes,
                  bytes < said ? "it is truncated, get it again" : "it is damaged, or two files in one: get it again"));
}

// --- llm.c -----------------------------------------------------------------------------------------------------------------

/// 256 numbers of 32 bits: magic, version, number of ids, zeros.
struct LlmcHeader {
  uint32_t magic, version, count;
};

constexpr int64_t kLlmcBytes = 1024;

bool is_llmc(std::string_view head, LlmcHeader& header) {
  constexpr uint32_t kNewestVersion = 16;  // far above any real version
  if (head.size() < sizeof header) return false;
  std::memcpy(&header, head.data(), sizeof header);
  return (header.magic == 20240520 || header.magic == 20240801) && header.version > 0 && header.version <= kNewestVersion;
}

TokenLayout llmc_layout(const std::string& path, const InputFile& file, const LlmcHeader& header) {
  const bool is_wide = header.magic == 20240801;
  const uint32_t version = is_wide ? 7 : 1;
  if (header.version != version) {
    throw InputError(fmt::format("{}: llm.c's header {} has version {}, weft reads {}; write it again", path, header.magic,
                                 header.version, version));
  }
  TokenLayout layout{.format = "llm.c",
                     .type = is_wide ? TokenType::u32 : TokenType::u16,
                     .offset = kLlmcBytes,
                     .count = header.count,
                     .index = {}};
  const int64_t said = kLlmcBytes + layout.count * token_bytes(layout.type);
  if (file.bytes != said) misfit(path, "llm.c's header", said, file.bytes);
  return layout;
}

// --- NumPy -----------------------------------------------------------------------------------------------------------------

TokenLayout npy_layout(const std::string& path, const InputFile& file, std::string_view head) {
  const auto fail = [&](const std::string& what) { throw InputError(fmt::format("{}: a NumPy array {}", path, what)); };
  const NpyHeader header = npy_header(path, head);
  const std::string& type = header.type;
  TokenLayout layout{.format = "npy", .offset = header.offset, .index = {}};
  if (type == "'<u2'" || type == "'<u4'" || type == "'<i4'" || type == "'|u1'") {  // negative <i4 values become far too large
    layout.type = type == "'<u2'" ? TokenType::u16 : type == "'|u1'" ? TokenType::u8 : TokenType::u32;
  } else {
    fail(fmt::format("of type {}; save ids as uint32: array.astype(numpy.uint32)", shortened(type, 100)));
  }
  if (header.shape.size() != 1) {
    fail(fmt::format("of shape ({}); save ids as one dimension: array.reshape(-1)", fmt::join(header.shape, ", ")));
  }
  layout.count = header.shape.front();
  const int64_t said = layout.offset + layout.count * token_bytes(layout.type);
  if (file.bytes != said) misfit(path, "its NumPy header", said, file.bytes);
  return layout;
}

// --- Megatron, and ids alone -------------------------------------------------------------------------------------------------

TokenLayout megatron_layout(const std::string& path, const InputFile& file, std::string index_path) {
  const MegatronIndex index = read_megatron_index(index_path);
  if (file.bytes != index.bytes) misfit(path, fmt::format("its index '{}'", index_path), index.bytes, file.bytes);
  return {
      .format = "megatron", .type = index.type, .count = file.bytes / token_bytes(index.type), .index = std::move(index_path)};
}

TokenLayout plain_layout(const std::string& path, const InputFile& file, TokenType type) {
  if (type == TokenType::as_file && file.bytes > 0) {
    throw InputError(
        fmt::format("{}: it does not say how wide its ids are; set data.tokenizer = \"uint16\" or \"uint32\"", path));
  }
  if (file.bytes % token_bytes(type) != 0) {
    throw InputError(fmt::format("{}: {} bytes, not a multiple of the token size {}; is it truncated, or data.tokenizer wrong?",
                                 path, file.bytes, token_bytes(type)));
  }
  return {.format = "", .type = type, .count = file.bytes / token_bytes(type), .index = {}};
}

}  // namespace

int64_t token_bytes(TokenType type) { return type == TokenType::u8 ? 1 : type == TokenType::u16 ? 2 : 4; }

TokenLayout token_layout(const std::string& path, const InputFile& file, TokenType type) {
  const std::string head = read_head(path, file);
  const bool is_text = type == TokenType::u8;
  LlmcHeader llmc{};
  if (is_llmc(head, llmc)) {
    if (!is_text) return llmc_layout(path, file, llmc);
    throw InputError(fmt::format("{}: it is token ids of llm.c, not text; read it with data.name = \"tokens\"", path));
  }
  if (!is_text && is_npy(head)) return npy_layout(path, file, head);
  std::string index = is_text ? "" : megatron_index_of(path);
  if (!index.empty()) return megatron_layout(path, file, std::move(index));
  const FileKind kind = file_kind(head);
  if (kind && !(is_text && kind.is_text)) {
    throw InputError(
        fmt::format("{}: it is {}, but {} expected; {}", path, kind.what, is_text ? "text is" : "token ids are", kind.advice));
  }
  return plain_layout(path, file, type);
}

}  // namespace weft
