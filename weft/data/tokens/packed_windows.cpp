#include "weft/data/tokens/packed_windows.h"

#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "weft/base/error.h"
#include "weft/data/group_order.h"
#include "weft/data/tokens/pack.h"

namespace weft {
namespace {

/// Returns the starts of documents that end with `id`, in tokens [begin, end).
std::vector<int64_t> starts_after(int64_t id, const TokenSource& source, int64_t begin, int64_t end) {
  constexpr int64_t kBlock = int64_t{1} << 16;
  std::vector<int64_t> starts, tokens(static_cast<size_t>(std::min(kBlock, end - begin)));
  for (int64_t at = begin; at < end; at += kBlock) {
    const int64_t count = std::min(kBlock, end - at);
    source.read(at, count, tokens.data());
    for (int64_t i = 0; i < count; ++i) {
      if (tokens[static_cast<size_t>(i)] == id) starts.push_back(at + i + 1);
    }
  }
  return starts;
}

/// Returns the ends of the separately packed stretches of tokens [begin, end). If the source is read a group at a time, a
/// stretch is one group, or several of at most `mix_bytes`, and ends with a document; otherwise there is one stretch.
std::vector<int64_t> stretch_ends(const TokenFile& file, const TokenSource& source, const std::vector<int64_t>& starts,
                                  int64_t begin, int64_t end) {
  std::vector<int64_t> ends;
  int64_t first = 0, bytes = 0;  // first token of the group, bytes of the current stretch
  for (const SampleGroup& group : source.grouped() != nullptr ? source.grouped()->groups() : std::vector<SampleGroup>()) {
    const int64_t after = first + group.items;
    if (after > begin && bytes > 0 && bytes + group.bytes > file.mix_bytes) {
      const auto next = std::lower_bound(starts.begin(), starts.end(), first);
      if (next == starts.end() || *next >= end) break;
      if (ends.empty() || *next > ends.back()) ends.push_back(*next);
      bytes = 0;
    }
    if (after > begin) bytes += group.bytes;
    first = after;
  }
  ends.push_back(end);
  return ends;
}

/// Windows of the stretches one after another.
struct Stretches {
  Packing packing = {.pieces = {}, .first = {0}, .tokens = 0};
  std::vector<SampleGroup> windows;  ///< windows per stretch

  void add(const Packing& more) {
    const int64_t pieces = packing.first.back();
    packing.pieces.insert(packing.pieces.end(), more.pieces.begin(), more.pieces.end());
    for (size_t i = 1; i < more.first.size(); ++i) packing.first.push_back(pieces + more.first[i]);
    packing.tokens += more.tokens;
    if (more.num_windows() > 0) windows.push_back({.items = more.num_windows(), .bytes = 1});
  }
};

class PackedTokens : public Dataset {
 public:
  PackedTokens(TokenFile file, Packing packing, std::shared_ptr<const TokenSource> source)
      : file_(std::move(file)), packing_(std::move(packing)), source_(std::move(source)) {}

  int64_t size() const override { return packing_.num_windows(); }
  DataNotes left_out() const override { return source_->left_out(); }
  DataNotes passed_over() const override { return source_->passed_over(); }
  std::string fullness() const override {
    const double places = static_cast<double>(size()) * static_cast<double>(file_.context);
    return fmt::format("windows {:.1f} % full", 100.0 * static_cast<double>(packing_.tokens) / places);
  }

  Batch get(const std::vector<int64_t>& indices, int64_t /*epoch*/) const override {
    const auto count = static_cast<int64_t>(indices.size());
    const auto make = [&] { return at::empty({count, file_.context}, at::kLong); };
    at::Tensor input = make(), places = make(), target = make();
    Row row{input.mutable_data_ptr<int64_t>(), places.mutable_data_ptr<int64_t>(), target.mutable_data_ptr<int64_t>()};
    for (const int64_t index : indices) {
      check(index);
      fill(static_cast<size_t>(index), row);
    }
    return {.inputs = {input, places}, .target = target};
  }

 protected:
  void check(int64_t index) const {
    if (index < 0 || index >= size())
      throw InputError(fmt::format("{}: window {} requested, but there are only {}", file_.path, index, size()));
  }

 private:
  /// Place of the next token.
  struct Row {
    int64_t* input;
    int64_t* place;
    int64_t* target;

    void move(int64_t tokens) {
      input += tokens;
      place += tokens;
      target += tokens;
    }
  };

  void fill(size_t window, Row& row) const {
    int64_t left = file_.context;
    std::vector<int64_t> tokens;
    const auto end = packing_.pieces.begin() + packing_.first[window + 1];
    for (auto piece = packing_.pieces.begin() + packing_.first[window]; piece != end; ++piece) {
      const int64_t count = piece->tokens;
      tokens.resize(static_cast<size_t>(count) + 1);
      source_->read(piece->begin, count + 1, tokens.data());
      std::copy_n(tokens.begin(), count, row.input);
      std::copy_n(tokens.begin() + 1, count, row.target);
      std::iota(row.place, row.place + count, 0);
      row.move(count);
      left -= count;
    }
    std::fill_n(row.input, left, 0);
    std::fill_n(row.target, left, kIgnore);
    std::iota(row.place, row.place + left, 0);
    row.move(left);
  }

  TokenFile file_;
  Packing packing_;
  std::shared_ptr<const TokenSource> source_;
};

/// The same for training, if several stretches are packed separately: each epoch has its own order of the stretches and of the
/// windows within each, so that data read for one window serves the next ones.
class StretchedTokens final : public PackedTokens {
 public:
  StretchedTokens(const TokenFile& file, Stretches stretches, std::shared_ptr<const TokenSource> source)
      : PackedTokens(file, std::move(stretches.packing), std::move(source)),
        order_(stretches.windows, {.seed = file.seed, .window_bytes = 1}),
        cut_{.samples = order_.items()} {
    starts_.reserve(stretches.windows.size());
    int64_t start = 0;
    for (const SampleGroup& stretch : stretches.windows) {
      starts_.push_back(start);
      start += stretch.items;
    }
  }

  bool is_ordered() const override { return true; }
  SampleRange near(int64_t index, int64_t epoch) const override { return order_.epoch(epoch)->window(index, cut_); }

  Batch get(const std::vector<int64_t>& indices, int64_t epoch) const override {
    const std::shared_ptr<const GroupEpoch> order = order_.epoch(epoch);
    std::vector<int64_t> windows;
    windows.reserve(indices.size());
    for (const int64_t index : indices) {
      check(index);
      const auto [turn, offset] = order->place(order->sample(index, cut_));
      windows.push_back(starts_[order->group(turn)] + offset);
    }
    return PackedTokens::get(windows, epoch);
  }

 private:
  const GroupOrder order_;
  const GroupEpoch::Cut cut_;
  std::vector<int64_t> starts_;  ///< first window of each stretch
};

}  // namespace

std::shared_ptr<Dataset> open_packed_tokens(const TokenFile& file, std::shared_ptr<const TokenSource> source,
                                            std::optional<int64_t> document_end) {
  const auto [begin, end] = part_of(file, *source);
  const std::vector<int64_t> starts =
      document_end ? starts_after(*document_end, *source, begin, end) : source->document_starts();
  if (starts.empty() && !document_end) {
    throw InputError(
        fmt::format("{}: its format does not mark documents; set data.document_end, the id that ends a document, "
                    "or use data.pack = \"stream\"",
                    file.path));
  }
  Stretches stretches;
  int64_t from = begin;
  for (const int64_t to : stretch_ends(file, *source, starts, begin, end)) {
    stretches.add(pack_documents(starts, from, to, file.context, file.seed));
    from = to;
  }
  if (stretches.packing.tokens == 0) {
    throw InputError(
        fmt::format("{}: no document in the part [{}, {}) has two tokens; use more text or another data.evaluation", file.path,
                    file.begin, file.end));
  }
  if (file.shift && stretches.windows.size() > 1) {
    return std::make_shared<StretchedTokens>(file, std::move(stretches), std::move(source));
  }
  return std::make_shared<PackedTokens>(file, std::move(stretches.packing), std::move(source));
}

}  // namespace weft
