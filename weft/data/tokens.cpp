#include "weft/data/tokens.h"

#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "weft/base/error.h"
#include "weft/base/math.h"
#include "weft/data/sampler.h"
#include "weft/data/token_stream.h"

namespace weft {
namespace {

/// Tokens [begin, begin + length) of a stream, in windows.
class TokenDataset final : public Dataset {
 public:
  TokenDataset(const TokenFile& file, int64_t begin, int64_t length, std::shared_ptr<const TokenSource> stream)
      : file_(file), begin_(begin), length_(length), stream_(std::move(stream)) {
    const int64_t predicted = length - 1;
    const int64_t whole = predicted / file.context;
    windows_ = file.shift ? std::max<int64_t>(1, whole - 1) : ceil_divide(predicted, file.context);
  }

  int64_t size() const override { return windows_; }
  std::vector<std::string> left_out() const override { return stream_->left_out(); }

  Batch get(const std::vector<int64_t>& indices, int64_t epoch) const override {
    const auto count = static_cast<int64_t>(indices.size());
    at::Tensor input = at::empty({count, file_.context}, at::kLong);
    at::Tensor target = at::empty({count, file_.context}, at::kLong);
    auto* in = input.mutable_data_ptr<int64_t>();
    auto* out = target.mutable_data_ptr<int64_t>();
    const int64_t shift = offset(epoch);
    for (const int64_t index : indices) {
      if (index < 0 || index >= windows_)
        throw InputError(fmt::format("{}: window {} asked for, there are {}", file_.path, index, windows_));
      fill(shift + index * file_.context, in, out);
      in += file_.context;
      out += file_.context;
    }
    return {.inputs = {input}, .target = target};
  }

 private:
  /// Uniform over all offsets at which the windows still fit, the same for a whole epoch.
  int64_t offset(int64_t epoch) const {
    if (!file_.shift) return 0;
    const int64_t choices = length_ - windows_ * file_.context;
    return Sampler(choices, {.seed = file_.seed}).sample(epoch * choices);
  }

  void fill(int64_t start, int64_t* in, int64_t* out) const {
    const int64_t context = file_.context;
    const int64_t real = std::min(context, length_ - 1 - start);
    std::vector<int64_t> tokens(static_cast<size_t>(real + 1));
    stream_->read(begin_ + start, real + 1, tokens.data());
    std::copy_n(tokens.begin(), real, in);
    std::copy_n(tokens.begin() + 1, real, out);
    std::fill(in + real, in + context, 0);
    std::fill(out + real, out + context, kIgnore);
  }

  TokenFile file_;
  int64_t begin_, length_, windows_;
  std::shared_ptr<const TokenSource> stream_;
};

void check_part(const TokenFile& file) {
  if (file.context < 1) throw InputError(fmt::format("model.context = {}: must be at least 1", file.context));
  if (!(file.begin >= 0 && file.begin < file.end && file.end <= 1)) {
    throw InputError(
        fmt::format("{}: the part [{}, {}) is not one within [0, 1); check data.evaluation", file.path, file.begin, file.end));
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
    throw InputError(
        fmt::format("{}: {} of its {} tokens are in the part [{}, {}), fewer than context + 1 = {}; use more text, a "
                    "smaller model.context or another data.evaluation",
                    file.path, length, source->size(), file.begin, file.end, file.context + 1));
  }
  return std::make_shared<TokenDataset>(file, begin, length, std::move(source));
}

}  // namespace weft
