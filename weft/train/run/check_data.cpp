#include "weft/train/run/check_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "weft/base/cores.h"
#include "weft/base/error.h"
#include "weft/base/stopwatch.h"
#include "weft/comm/threads/parallel_for.h"
#include "weft/data/bad_data.h"
#include "weft/nn/loss/cross_entropy.h"
#include "weft/recipe/build/build_model.h"
#include "weft/recipe/build/data_checks.h"
#include "weft/recipe/build/open_data.h"
#include "weft/recipe/data_names.h"

namespace weft {

namespace {

/// Reports progress a few times per second.
class Ticker {
 public:
  Ticker(const CheckDataOptions& options, std::string set, int64_t all) : options_(options), set_(std::move(set)), all_(all) {}

  void add(int64_t count) {
    constexpr double kEvery_s = 0.2;
    const int64_t done = done_.fetch_add(count) + count;
    if (!options_.on_progress) return;
    std::unique_lock lock(mutex_, std::defer_lock);
    if (done == all_) {
      lock.lock();
    } else if (!lock.try_lock() || watch_.seconds() < next_s_ || done < reported_) {
      return;
    }
    reported_ = done;
    next_s_ = watch_.seconds() + kEvery_s;
    options_.on_progress(set_, done, all_);
  }

 private:
  const CheckDataOptions& options_;
  const std::string set_;
  const int64_t all_;
  std::atomic<int64_t> done_ = 0;
  std::mutex mutex_;
  const Stopwatch watch_;
  double next_s_ = 0.0;
  int64_t reported_ = 0;
};

/// Calls `work` with pieces [begin, end) of [0, count), from `threads` threads. The first error stops them and is thrown.
template <typename Work>
void in_pieces(int64_t count, int64_t piece, int threads, const Work& work) {
  std::atomic<int64_t> next = 0;
  std::mutex mutex;
  std::exception_ptr error;
  const auto run = [&] {
    try {
      for (int64_t begin = next.fetch_add(piece); begin < count; begin = next.fetch_add(piece)) {
        work(begin, std::min(count, begin + piece));
      }
    } catch (...) {
      next = count;
      const std::lock_guard lock(mutex);
      if (!error) error = std::current_exception();
    }
  };
  std::vector<std::thread> others;
  for (int i = 1; i < threads; ++i) {
    others.emplace_back([&run] {
      use_single_thread();  // operations must start no further threads
      run();
    });
  }
  run();
  for (std::thread& other : others) other.join();
  if (error) std::rethrow_exception(error);
}

SideSizes sizes_of(std::vector<int32_t>& sides) {
  std::erase(sides, 0);
  if (sides.empty()) return {};
  const auto middle = sides.begin() + static_cast<std::ptrdiff_t>((sides.size() - 1) / 2);
  std::nth_element(sides.begin(), middle, sides.end());
  const int64_t median = *middle;
  const auto [least, most] = std::minmax_element(sides.begin(), sides.end());
  return {.least = *least, .median = median, .most = *most};
}

/// Decodes each image as far as needed to know that it is whole: one pixel, and the rest of its file.
void look_at_images(const ImageSource& source, const CheckDataOptions& options, int threads, SetReport& report) {
  report.images = source.size();
  std::vector<int32_t> heights(static_cast<size_t>(report.images)), widths(heights.size());
  std::map<int64_t, std::string> damaged;  // by image
  std::mutex mutex;
  Ticker ticker(options, report.name, report.images);
  for (int64_t i = 0; i < report.images; ++i) {
    const auto label = static_cast<size_t>(source.label(i));
    if (label >= report.class_counts.size()) report.class_counts.resize(label + 1);
    ++report.class_counts[label];
  }
  in_pieces(report.images, 16, threads, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const auto at = static_cast<size_t>(i);
      try {
        int64_t height = 0, width = 0;
        source.decode(i, [&](int64_t h, int64_t w) {
          height = h;
          width = w;
          return Crop{0, 0, 1, 1, 1, 1};
        });
        heights[at] = static_cast<int32_t>(height);
        widths[at] = static_cast<int32_t>(width);
      } catch (const BadDataError& error) {
        const std::lock_guard lock(mutex);
        damaged[i] = error.what();
      } catch (const Error& error) {  // unreadable, which data.skip_bad does not skip
        const std::lock_guard lock(mutex);
        if (report.error.empty()) report.error = error.what();
      }
    }
    ticker.add(end - begin);
  });
  report.height = sizes_of(heights);
  report.width = sizes_of(widths);
  for (auto& [image, reason] : damaged) report.damaged.push_back(std::move(reason));
}

/// Reads every token, and rereads the first too-large one from `strict`, which names its place. A source that checks ids
/// against the vocabulary itself reports too-large ones as damage.
void look_at_tokens(const OpenedSet& set, const CheckDataOptions& options, int threads, SetReport& report) {
  constexpr int64_t kPiece = int64_t{1} << 20;
  const TokenSource& source = *set.tokens;
  report.tokens = source.size();
  std::atomic<int64_t> largest = -1, first = report.tokens;  // piece with the first id that is too large
  Ticker ticker(options, report.name, report.tokens);
  in_pieces(report.tokens, kPiece, threads, [&](int64_t begin, int64_t end) {
    std::vector<int64_t> tokens(static_cast<size_t>(end - begin));
    source.read(begin, end - begin, tokens.data());
    const int64_t most = *std::max_element(tokens.begin(), tokens.end());
    for (int64_t known = largest; known < most && !largest.compare_exchange_weak(known, most);) {
    }
    if (most >= report.vocabulary) {
      for (int64_t known = first; begin < known && !first.compare_exchange_weak(known, begin);) {
      }
    }
    ticker.add(end - begin);
  });
  report.largest_id = largest;
  if (set.strict && first < report.tokens) {
    std::vector<int64_t> tokens(static_cast<size_t>(std::min(kPiece, report.tokens - first)));
    set.strict->read(first, static_cast<int64_t>(tokens.size()), tokens.data());
  }
}

/// Returns the first of int64 targets that the cross entropy of `classes` refuses, if any.
std::optional<int64_t> misfit_target(const at::Tensor& target, int64_t classes) {
  const at::Tensor ids = target.contiguous();
  const int64_t *const begin = ids.const_data_ptr<int64_t>(), *const end = begin + ids.numel();
  const int64_t* const found =
      std::find_if(begin, end, [&](int64_t id) { return id != kIgnoreIndex && (id < 0 || id >= classes); });
  return found == end ? std::nullopt : std::optional(*found);
}

/// Reads every sample; those with a number that is not finite, or a target beyond `classes` (0: any), would stop a training.
void look_at_samples(const Dataset& samples, int64_t classes, const CheckDataOptions& options, int threads, SetReport& report) {
  report.samples = samples.size();
  std::map<int64_t, std::string> damaged;  // by sample
  std::mutex mutex;
  Ticker ticker(options, report.name, report.samples);
  in_pieces(report.samples, 16, threads, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const Batch sample = samples.get({i}, 0);
      Tensors all = sample.inputs;
      all.push_back(sample.target);
      for (const at::Tensor& values : all) {
        if (!values.is_floating_point() || values.isfinite().all().item<bool>()) continue;
        const std::lock_guard lock(mutex);
        damaged[i] = fmt::format("sample {}: a number is not finite", i);
      }
      if (const auto id = classes > 0 ? misfit_target(sample.target, classes) : std::nullopt) {
        const std::lock_guard lock(mutex);
        damaged.try_emplace(i, fmt::format("sample {}: target {} is not one of the model's {} classes", i, *id, classes));
      }
    }
    ticker.add(end - begin);
  });
  for (auto& [sample, reason] : damaged) report.damaged.push_back(std::move(reason));
}

/// Documents matter only for packing; a stream does not need a count.
int64_t count_documents(const TokenSource& source, bool packs) {
  try {
    return static_cast<int64_t>(source.document_starts().size());
  } catch (const InputError&) {
    if (packs) throw;
    return 0;
  }
}

SetReport look_at(const Recipe& recipe, const DataSet& set, const CheckDataOptions& options, int threads) {
  SetReport report{.name = set.name};
  report.vocabulary = recipe.model.vocabulary;
  try {
    const OpenedSet opened = set.open();
    report.class_names = opened.classes;
    report.class_counts.resize(opened.classes.size());
    if (opened.images) {
      report.left_out = opened.images->left_out();
      report.passed_over = opened.images->passed_over();
      look_at_images(*opened.images, options, threads, report);
    } else if (opened.samples) {
      look_at_samples(*opened.samples, array_classes(recipe.model), options, threads, report);
    } else {
      report.left_out = opened.tokens->left_out();
      report.passed_over = opened.tokens->passed_over();
      look_at_tokens(opened, options, threads, report);
      report.documents = count_documents(*opened.tokens, recipe.data.pack == "documents");
    }
  } catch (const Error& error) {
    report.error = error.what();
  }
  return report;
}

/// The error of opening the data as training does, for faults across sets: too few tokens for a sample, differing classes.
std::string error_of_opening(const Recipe& recipe) {
  try {
    open_data(recipe);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

DataReport check_data(const Recipe& recipe, const CheckDataOptions& options) {
  check_model_and_data(recipe);
  const int threads = options.threads > 0 ? options.threads : available_cores();
  DataReport report{.sets = {}, .skip_bad = recipe.data.skip_bad};
  for (const DataSet& set : data_sets(recipe)) report.sets.push_back(look_at(recipe, set, options, threads));
  if (!stops_training(report)) report.error = error_of_opening(recipe);
  return report;
}

}  // namespace weft
