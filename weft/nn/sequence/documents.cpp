#include "weft/nn/sequence/documents.h"

#include <fmt/format.h>

#include "weft/base/error.h"
#include "weft/nn/host_values.h"
#include "weft/nn/tensor_checks.h"

namespace weft {

Documents::Documents(const Tensors& inputs, const Context& context, const std::string& what) : what_(what) {
  if (inputs.size() < 2) return;
  places_ = inputs[1];
  if (context.cp.size() > 1) {
    throw InputError(
        fmt::format("{}: input 1 has positions within documents, which cannot be combined with sequences shared by ranks "
                    "(layout.cp = {}); use cp = 1",
                    what, context.cp.size()));
  }
  if (!places_.defined() || places_.scalar_type() != at::kLong || places_.dim() != 2) {
    throw InputError(fmt::format("{}: input 1 (each token's position in its document) must be int64 [batch, tokens]; it is {}",
                                 what, type_and_shape(places_)));
  }
  if (places_.is_meta()) {  // unknown there: packed, with one run in place of all
    is_packed_ = true;
    runs_.push_back({.sample = 0, .samples = places_.size(0), .begin = 0, .tokens = places_.size(1)});
  } else {
    find_runs();
  }
}

void Documents::check_beside(const at::Tensor& ids) const {
  if (!places_.defined() || (ids.defined() && places_.sizes() == ids.sizes())) return;
  throw InputError(fmt::format("{}: input 1 (each token's position in its document) is {}, but the token ids are {}", what_,
                               type_and_shape(places_), type_and_shape(ids)));
}

void Documents::find_runs() {
  const at::Tensor here = host_values(places_);
  const auto* places = here.const_data_ptr<int64_t>();
  const int64_t samples = here.size(0), tokens = here.size(1);
  const auto refuse = [&](int64_t sample, int64_t token, const std::string& found) {
    throw InputError(fmt::format("{}: input 1, sample {}, token {}: {}; positions in a document are 0, 1, 2, ...", what_,
                                 sample, token, found));
  };
  for (int64_t sample = 0; sample < samples; ++sample, places += tokens) {
    if (tokens > 0 && places[0] != 0) refuse(sample, 0, fmt::format("position {} begins a sample", places[0]));
    int64_t begin = 0;
    for (int64_t token = 1; token < tokens; ++token) {
      if (places[token] == places[token - 1] + 1) continue;
      if (places[token] != 0) refuse(sample, token, fmt::format("position {} after {}", places[token], places[token - 1]));
      runs_.push_back({.sample = sample, .begin = begin, .tokens = token - begin});
      begin = token;
    }
    const bool is_whole = begin == 0;
    is_packed_ = is_packed_ || !is_whole;
    if (is_whole && !runs_.empty() && runs_.back().begin == 0 && runs_.back().tokens == tokens) {
      ++runs_.back().samples;
    } else {
      runs_.push_back({.sample = sample, .begin = begin, .tokens = tokens - begin});
    }
  }
  if (!is_packed_) runs_.clear();
}

Tensors Documents::outputs_with_places(const at::Tensor& x) const {
  if (!places_.defined()) return {x};
  return {x, places_};
}

}  // namespace weft
