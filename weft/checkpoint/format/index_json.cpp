#include "weft/checkpoint/format/index_json.h"

#include <fmt/format.h>

#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "weft/base/error.h"
#include "weft/base/printable.h"
#include "weft/base/storage_error.h"
#include "weft/checkpoint/format/check_index.h"
#include "weft/checkpoint/safetensors_header.h"

namespace weft {
namespace {

using IndexJson = nlohmann::ordered_json;

constexpr const char* kFormat = "weft checkpoint";
const std::set<std::string> kOwnEntries = {"format", "version", "chunk_bytes", "files", "tensors"};

/// Error that does not mean damage: an older checkpoint would not help.
class NewerVersion : public InputError {
 public:
  using InputError::InputError;
};

/// Removes the leading "[json.exception...]".
std::string plain_json_error(const std::string& text) {
  const size_t end = text.starts_with("[json.exception") ? text.find("] ") : std::string::npos;
  return end == std::string::npos ? text : text.substr(end + 2);
}

IndexJson piece_json(const StoredPiece& piece) {
  const ElementRuns& e = piece.elements;
  IndexJson sums = IndexJson::array();
  for (const uint64_t sum : piece.checksums) sums.push_back(fmt::format("{:016x}", sum));
  IndexJson elements = e.count == 1 ? IndexJson{e.begin, e.length} : IndexJson{e.begin, e.length, e.stride, e.count};
  return {{"elements", std::move(elements)}, {"file", piece.file}, {"offset", piece.offset}, {"xxh3", std::move(sums)}};
}

/// Rejects deep nesting: an index is flat, so depth means malice.
bool refuse_depth(int depth, nlohmann::detail::parse_event_t /*event*/, IndexJson& /*parsed*/) {
  constexpr int kDeepest = 64;
  if (depth > kDeepest) throw InputError("it is nested too deeply");
  return true;
}

int64_t integer(const IndexJson& json) {
  constexpr size_t kMostText = 60;
  if (!json.is_number_integer()) throw InputError(fmt::format("{} is not a whole number", shortened(json.dump(), kMostText)));
  return json.get<int64_t>();
}

ElementRuns elements_of(const IndexJson& json) {
  if (json.size() != 2 && json.size() != 4) throw InputError("\"elements\" must have 2 or 4 numbers");
  ElementRuns e{.begin = integer(json.at(0)), .length = integer(json.at(1)), .stride = 0, .count = 1};
  if (json.size() == 4) {
    e.stride = integer(json.at(2));
    e.count = integer(json.at(3));
  }
  return e;
}

uint64_t checksum_of(const IndexJson& json) {
  const auto text = json.get<std::string>();
  uint64_t sum = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), sum, 16);
  if (text.size() != 16 || error != std::errc() || end != text.data() + text.size()) {
    throw InputError(fmt::format("\"{}\" is not a checksum of 16 hexadecimal digits", shortened(text)));
  }
  return sum;
}

StoredState tensor_of(const IndexJson& json) {
  StoredState tensor;
  const auto type = json.at("type").get<std::string>();
  const std::optional<at::ScalarType> known = type_of_safetensors(type);
  if (!known) throw InputError(fmt::format("unknown type \"{}\"", type));
  tensor.type = *known;
  for (const IndexJson& size : json.at("shape")) tensor.shape.push_back(integer(size));
  for (const IndexJson& piece : json.at("pieces")) {
    StoredPiece& stored = tensor.pieces.emplace_back();
    stored.elements = elements_of(piece.at("elements"));
    stored.file = piece.at("file").get<std::string>();
    stored.offset = integer(piece.at("offset"));
    for (const IndexJson& sum : piece.at("xxh3")) stored.checksums.push_back(checksum_of(sum));
  }
  return tensor;
}

CheckpointIndex index_of(const IndexJson& json) {
  if (json.value("format", "") != kFormat) throw InputError(fmt::format("its \"format\" is not \"{}\"", kFormat));
  const int64_t version = integer(json.at("version"));
  if (version < 1 || version > kCheckpointVersion) {
    throw NewerVersion(
        fmt::format("its version is {}, this weft reads up to {}; use a newer weft", version, kCheckpointVersion));
  }
  CheckpointIndex index;
  index.chunk_bytes = integer(json.at("chunk_bytes"));
  for (const auto& [file, bytes] : json.at("files").items()) index.files[file] = integer(bytes);
  for (const auto& [name, tensor] : json.at("tensors").items()) {
    try {
      index.tensors[name] = tensor_of(tensor);
    } catch (const std::exception& error) {
      throw InputError(fmt::format("tensor '{}': {}", shortened(name), plain_json_error(error.what())));
    }
  }
  for (const auto& [name, entry] : json.items()) {
    if (kOwnEntries.count(name) == 0) index.texts[name] = entry.dump();
  }
  return index;
}

}  // namespace

std::string index_text(const CheckpointIndex& index) {
  IndexJson json = {{"format", kFormat}, {"version", kCheckpointVersion}};
  for (const auto& [name, text] : index.texts) json[name] = IndexJson::parse(text);
  json["chunk_bytes"] = index.chunk_bytes;
  json["files"] = index.files;
  IndexJson& tensors = json["tensors"] = IndexJson::object();
  for (const auto& [name, tensor] : index.tensors) {
    IndexJson pieces = IndexJson::array();
    for (const StoredPiece& piece : tensor.pieces) pieces.push_back(piece_json(piece));
    tensors[name] = {{"type", safetensors_type(tensor.type)}, {"shape", tensor.shape}, {"pieces", std::move(pieces)}};
  }
  // One line per tensor: short enough for git diff, long enough to avoid mostly white space.
  std::string text = "{";
  for (const auto& [name, entry] : json.items()) {
    text += text.size() > 1 ? ",\n" : "\n";
    if (name != "tensors") {
      text += fmt::format("{}: {}", IndexJson(name).dump(), entry.dump());
      continue;
    }
    text += "\"tensors\": {";
    const char* separator = "\n";
    for (const auto& [tensor, stored] : entry.items()) {
      text += fmt::format("{}{}: {}", separator, IndexJson(tensor).dump(), stored.dump());
      separator = ",\n";
    }
    text += "}";
  }
  return text + "\n}\n";
}

CheckpointIndex parse_index(const std::string& text, const std::string& where, bool whole) {
  try {
    CheckpointIndex index = index_of(IndexJson::parse(text, refuse_depth));
    check_index(index, whole);
    return index;
  } catch (const NewerVersion& error) {
    throw InputError(fmt::format("{}: {}", where, error.what()));
  } catch (const std::exception& error) {
    throw DamageError(fmt::format("{}: not a checkpoint's index, or damaged: {}", where, plain_json_error(error.what())));
  }
}

}  // namespace weft
