// Dataset: samples by index, handed out a batch at a time so that a dataset can gather them in one go.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "weft/data/data_note.h"

namespace weft {

/// Samples side by side, first dimension = samples, in the order they were asked for.
struct Batch {
  /// Images [n, channels, height, width] float32, or token ids [n, tokens] int64; beside these, where a sample holds several
  /// documents, each token's place within its own from 0 on, [n, tokens] int64.
  std::vector<at::Tensor> inputs;
  /// Labels [n] int64, or next tokens [n, tokens] int64, kIgnore where there is none; or how likely each class is to be right,
  /// [n, classes] float32.
  at::Tensor target;
  int64_t first_sample = 0;  ///< position of its first sample in the run or set, as a loader tells; nothing is keyed by it
  std::vector<std::string> skipped = {};  ///< names of bad samples in whose places others stand, or targets that do not count
};

/// The first tensor of the batch that has not `samples` samples, in words: "input 1 has 16 samples"; empty where all have.
std::string samples_misfit(const Batch& batch, int64_t samples);

/// Whether rows of both may stand in one tensor: sizes but for the first, and type.
bool have_like_rows(const at::Tensor& a, const at::Tensor& b);

/// Targets with this value are not counted.
inline constexpr int64_t kIgnore = -100;

/// Samples [first, first + count).
struct SampleRange {
  int64_t first = 0;  ///< an index
  int64_t count = 0;  ///< samples
};

/// Samples by index.
class Dataset {
 public:
  virtual ~Dataset() = default;
  /// How many samples there are. Thread-safe.
  virtual int64_t size() const = 0;
  /// The samples with these indices, each in [0, size()), in their order. Called from a loader's background thread too, so it
  /// must be thread-safe, and draws random numbers from generators of its own. `epoch` lets a dataset vary (shifted text
  /// windows); evaluation passes 0.
  virtual Batch get(const std::vector<int64_t>& indices, int64_t epoch) const = 0;
  /// What its files hold that is bad and no sample of it (data/bad_data.h), a name each. Thread-safe.
  virtual DataNotes left_out() const { return {}; }
  /// What lies among its files and is not read, though nothing about it is bad: hidden files, those of another kind, a path
  /// each with the reason ("owt/readme.md (text)"). Told at the start of a run. Thread-safe.
  virtual DataNotes passed_over() const { return {}; }
  /// How much of its samples is no padding, for people: "windows 97.3 % full"; empty: nothing to tell. Thread-safe.
  virtual std::string fullness() const { return {}; }
  /// Whether its samples stand in the order to train in already, so that nobody is to shuffle them.
  virtual bool is_ordered() const { return false; }
  /// The samples that cost little to read when sample `index` is read: it is one of them. Thread-safe.
  virtual SampleRange near(int64_t /*index*/, int64_t /*epoch*/) const { return {0, size()}; }
};

/// Of a dataset whose samples are of one size and take long each (images, which are decoded): what lets a loader's workers fill
/// one micro-batch together, where otherwise each makes one of its own. get() gives the same.
class FillsRows {
 public:
  virtual ~FillsRows() = default;
  /// Room for `count` samples, with nothing in it yet.
  virtual Batch make_rows(int64_t count) const = 0;
  /// Puts sample `index` into that row of it; names of bad samples go to `skipped`. From several threads, each with another
  /// row.
  virtual void fill_row(int64_t index, int64_t epoch, Batch& rows, int64_t row, std::vector<std::string>& skipped) const = 0;
};

}  // namespace weft
