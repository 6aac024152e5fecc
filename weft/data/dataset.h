// Dataset: samples by index, fetched in batches, so that a dataset can gather a batch in one go.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "weft/data/data_note.h"

namespace weft {

/// Batch of samples along the first dimension, in the order requested.
struct Batch {
  /// Images [n, channels, height, width] float32, or token ids [n, tokens] int64. If samples hold several documents, a second
  /// input has each token's position within its document, from 0, [n, tokens] int64.
  std::vector<at::Tensor> inputs;
  /// Labels [n] int64; or next tokens [n, tokens] int64, kIgnore where absent; or class probabilities [n, classes] float32.
  at::Tensor target;
  int64_t first_sample = 0;  ///< position of its first sample in the run or set, set by a loader for information only
  std::vector<std::string> skipped = {};  ///< names of bad samples that were replaced or whose targets do not count
};

/// Describes the first tensor of the batch that does not have `samples` samples, "input 1 has 16 samples"; empty if all do.
std::string samples_misfit(const Batch& batch, int64_t samples);

/// True if rows of both fit in one tensor: equal type, and equal sizes except the first.
bool have_like_rows(const at::Tensor& a, const at::Tensor& b);

/// Value of targets that are not counted.
inline constexpr int64_t kIgnore = -100;

/// Samples [first, first + count).
struct SampleRange {
  int64_t first = 0;  ///< index of the first
  int64_t count = 0;  ///< number of samples
};

/// Samples by index.
class Dataset {
 public:
  virtual ~Dataset() = default;
  /// Number of samples. Thread-safe.
  virtual int64_t size() const = 0;
  /// Returns the samples with these indices, each in [0, size()), in their order. Also called from a loader's background
  /// threads, so it must be thread-safe and draw random numbers from its own generators. `epoch` lets a dataset vary (shifted
  /// text windows); evaluation passes 0.
  virtual Batch get(const std::vector<int64_t>& indices, int64_t epoch) const = 0;
  /// Bad data in its files that is not among the samples (data/bad_data.h), one name each. Thread-safe.
  virtual DataNotes left_out() const { return {}; }
  /// Files at its path that are not read although they are not damaged: hidden files, files of another kind; each a path with
  /// the reason ("owt/readme.md (text)"). Logged at the start of a run. Thread-safe.
  virtual DataNotes passed_over() const { return {}; }
  /// Share of its samples that is not padding, for users: "windows 97.3 % full"; empty: nothing to report. Thread-safe.
  virtual std::string fullness() const { return {}; }
  /// True if its samples are already in training order and must not be shuffled.
  virtual bool is_ordered() const { return false; }
  /// Range of samples, including `index`, that are cheap to read once sample `index` is read. Thread-safe.
  virtual SampleRange near(int64_t /*index*/, int64_t /*epoch*/) const { return {0, size()}; }
};

/// Interface of datasets whose samples have one size and are slow to make (images, which are decoded). It lets a loader's
/// workers fill one micro-batch together instead of one each. get() returns the same samples.
class FillsRows {
 public:
  virtual ~FillsRows() = default;
  /// Allocates space for `count` samples.
  virtual Batch make_rows(int64_t count) const = 0;
  /// Writes sample `index` into row `row`; appends names of bad samples to `skipped`. Called from several threads, each with a
  /// different row.
  virtual void fill_row(int64_t index, int64_t epoch, Batch& rows, int64_t row, std::vector<std::string>& skipped) const = 0;
};

}  // namespace weft
