#include "weft/data/tokens/windows.h"

#include <ATen/ops/empty.h>
#include <c10/util/FunctionRef.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "weft/base/error.h"
#include "weft/base/math.h"
#include "weft/data/group_order.h"
#include "weft/data/sampler.h"
#include "weft/data/tokens/token_stream.h"

namespace weft {
namespace {

/// Tokens [begin, begin + length) of a stream, in windows.
class TokenDataset : public Dataset {
 public:
  TokenDataset(const TokenFile& file, int64_t begin, int64_t length, std::shared_ptr<const TokenSource> stream)
      : file_(file), begin_(begin), length_(length), stream_(std::move(stream)) {
    const int64_t predicted = length - 1;
    const int64_t whole = predicted / file.context;
    windows_ = file.shift ? std::max<int64_t>(1, whole - 1) : ceil_divide(predicted, file.context);
  }

  int64_t size() const override { return windows_; }
  DataNotes left_out() const override { return stream_->left_out(); }
  DataNotes passed_over() const override { return stream_->passed_over(); }

  Batch get(const std::vector<int64_t>& indices, int64_t epoch) const override {
    return get_windows(indices, offset(epoch),
                       [&](int64_t at, int64_t count, int64_t* out) { stream_->read(begin_ + at, count, out); });
  }

 protected:
  /// Reads tokens of the part.
  using Read = c10::function_ref<void(int64_t at, int64_t count, int64_t* out)>;

  Batch get_windows(const std::vector<int64_t>& windows, int64_t shift, Read read) const {
    const auto count = static_cast<int64_t>(windows.size());
    at::Tensor input = at::empty({count, file_.context}, at::kLong);
    at::Tensor target = at::empty({count, file_.context}, at::kLong);
    auto* in = input.mutable_data_ptr<int64_t>();
    auto* out = target.mutable_data_ptr<int64_t>();
    for (const int64_t window : windows) {
      check(window);
      fill(shift + window * file_.context, read, in, out);
      in += file_.context;
      out += file_.context;
    }
    return {.inputs = {input}, .target = target};
  }

  void check(int64_t index) const {
    if (index < 0 || index >= windows_)
      throw InputError(fmt::format("{}: window {} requested, but there are only {}", file_.path, index, windows_));
  }

  /// Returns an epoch's offset, uniform over all offsets at which the windows still fit.
  int64_t offset(int64_t epoch) const {
    if (!file_.shift) return 0;
    const int64_t choices = length_ - windows_ * file_.context;
    return Sampler(choices, {.seed = file_.seed}).sample(epoch * choices);
  }

  const TokenFile& file() const { return file_; }
  const TokenSource& stream() const { return *stream_; }

 private:
  void fill(int64_t start, Read read, int64_t* in, int64_t* out) const {
    const int64_t context = file_.context;
    const int64_t real = std::min(context, length_ - 1 - start);
    std::vector<int64_t> tokens(static_cast<size_t>(real + 1));
    read(start, real + 1, tokens.data());
    std::copy_n(tokens.begin(), real, in);
    std::copy_n(tokens.begin() + 1, real, out);
    std::fill(in + real, in + context, 0);
    std::fill(out + real, out + context, kIgnore);
  }

  TokenFile file_;
  int64_t begin_, length_, windows_;
  std::shared_ptr<const TokenSource> stream_;
};

/// Share of each group in tokens [begin, begin + length): its begin and length.
struct Parts {
  Parts(const std::vector<SampleGroup>& groups, int64_t begin, int64_t length) {
    int64_t first = 0;  // first token of the group
    for (size_t group = 0; group < groups.size(); first += groups[group++].items) {
      const int64_t from = std::max(first, begin), to = std::min(first + groups[group].items, begin + length);
      if (from >= to) continue;
      numbers.push_back(group);
      begins.push_back(from);
      sizes.push_back({to - from, groups[group].bytes});
    }
  }
  std::vector<size_t> numbers;
  std::vector<int64_t> begins;
  std::vector<SampleGroup> sizes;
};

/// The same for training, from a source read a group at a time: each epoch has its own order of the groups in the stream and of
/// the windows.
class GroupedTokenDataset final : public TokenDataset, private GroupReader {
 public:
  GroupedTokenDataset(const TokenFile& file, int64_t begin, int64_t length, const std::shared_ptr<const TokenSource>& stream)
      : TokenDataset(file, begin, length, stream),
        parts_(stream->grouped()->groups(), begin, length),
        order_(parts_.sizes, {.seed = file.seed, .window_bytes = file.mix_bytes}) {}

  bool is_ordered() const override { return true; }

  SampleRange near(int64_t index, int64_t epoch) const override { return order_.epoch(epoch)->window(index, cut_of(epoch)); }

  Batch get(const std::vector<int64_t>& indices, int64_t epoch) const override {
    const std::shared_ptr<const GroupEpoch> order = order_.epoch(epoch);
    const GroupEpoch::Cut cut = cut_of(epoch);
    std::vector<int64_t> windows;
    windows.reserve(indices.size());
    int64_t first = size();
    for (const int64_t index : indices) {
      check(index);
      windows.push_back(order->sample(index, cut));
      first = std::min(first, index);
    }
    const auto read = [&](int64_t at, int64_t count, int64_t* out) { read_in_order(*order, at, count, out); };
    Batch batch = get_windows(windows, cut.shift, read);
    order->read_ahead(cut.shift + first * cut.unit, *this, *order_.epoch(epoch + 1));
    return batch;
  }

 private:
  std::vector<SampleGroup> groups() const override { return parts_.sizes; }
  bool holds(size_t part) const override { return stream().grouped()->holds(parts_.numbers[part]); }
  void load(size_t part) const override { stream().grouped()->load(parts_.numbers[part]); }

  GroupEpoch::Cut cut_of(int64_t epoch) const { return {.samples = size(), .unit = file().context, .shift = offset(epoch)}; }

  void read_in_order(const GroupEpoch& order, int64_t at, int64_t count, int64_t* out) const {
    auto [turn, offset] = order.place(at);
    for (; count > 0; ++turn, offset = 0) {
      const size_t part = order.group(turn);
      const int64_t here = std::min(count, parts_.sizes[part].items - offset);
      stream().read(parts_.begins[part] + offset, here, out);
      out += here;
      count -= here;
    }
  }

  const Parts parts_;
  const GroupOrder order_;
};

void check_part(const TokenFile& file) {
  if (file.context < 1) throw InputError(fmt::format("model.context = {}: must be at least 1", file.context));
  if (!(file.begin >= 0 && file.begin < file.end && file.end <= 1)) {
    throw InputError(
        fmt::format("{}: the part [{}, {}) is not within [0, 1); check data.evaluation", file.path, file.begin, file.end));
  }
}

}  // namespace

std::shared_ptr<Dataset> open_tokens(const TokenFile& file) {
  check_part(file);
  return open_tokens(file, std::make_shared<TokenStream>(file.path, file.type, file.vocabulary));
}

std::pair<int64_t, int64_t> part_of(const TokenFile& file, const TokenSource& source) {
  check_part(file);
  const auto cut = [&](double share) { return static_cast<int64_t>(std::floor(share * static_cast<double>(source.size()))); };
  return {cut(file.begin), cut(file.end)};
}

std::shared_ptr<Dataset> open_tokens(const TokenFile& file, std::shared_ptr<const TokenSource> source) {
  const auto [begin, end] = part_of(file, *source);
  const int64_t length = end - begin;
  if (length < file.context + 1) {
    const bool is_whole = file.begin == 0.0 && file.end == 1.0;
    const std::string part = is_whole ? "" : fmt::format(" are in the part [{}, {})", file.begin, file.end);
    throw InputError(fmt::format("{}: {}{} tokens{}, fewer than context + 1 = {}; use more text{} a smaller model.context{}",
                                 file.path, length, is_whole ? "" : fmt::format(" of its {}", source->size()), part,
                                 file.context + 1, is_whole ? " or" : ",", is_whole ? "" : " or another data.evaluation"));
  }
  if (file.shift && source->grouped() != nullptr) return std::make_shared<GroupedTokenDataset>(file, begin, length, source);
  return std::make_shared<TokenDataset>(file, begin, length, std::move(source));
}

}  // namespace weft
