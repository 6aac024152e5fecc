#include "weft/data/images/parquet_images.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "weft/base/error.h"
#include "weft/data/group_cache.h"
#include "weft/data/group_order.h"
#include "weft/data/images/decode_image.h"
#include "weft/data/parquet/parquet_files.h"

namespace weft {
namespace {

constexpr size_t kImages = 0, kLabels = 1;  // columns

class ParquetImageSource final : public ImageSource, public GroupReader {
 public:
  ParquetImageSource(std::shared_ptr<const ShardFiles> files, const ParquetImages& options)
      : options_(options),
        files_(open_parquet(std::move(files),
                            {{options.column, ParquetContents::images, "data.column"},
                             {options.label_column, ParquetContents::labels, "data.label_column"}},
                            options.bad)),
        left_out_(files_->left_out()),
        cache_(options.cache_bytes) {
    for (size_t group = 0; group < files_->groups().size(); ++group) add(group);
    if (samples_.empty()) throw InputError(fmt::format("{}: no image with a label; check data.path", files_->name(0)));
  }

  int64_t size() const override { return static_cast<int64_t>(samples_.size()); }
  int64_t label(int64_t index) const override { return at(index).label; }
  std::string name(int64_t index) const override { return name_of(groups_[group_of(index)], at(index).row); }
  DataNotes left_out() const override { return left_out_; }
  DataNotes passed_over() const override { return files_->passed_over(); }
  const GroupReader* grouped() const override { return this; }

  DecodedCrop decode(int64_t index, ChooseCrop choose) const override {
    const std::shared_ptr<const ParquetValues> values = values_of(group_of(index));
    const int32_t row = at(index).row;
    if (std::binary_search(values->nulls.begin(), values->nulls.end(), int64_t{row})) {
      throw BadDataError(fmt::format("{}: its '{}' is null", name(index), options_.column));
    }
    const std::string_view bytes = values->bytes[static_cast<size_t>(row)];
    return decode_image({bytes.begin(), bytes.end()}, options_.decoding, choose, name(index));
  }

  std::vector<SampleGroup> groups() const override {
    std::vector<SampleGroup> all;
    all.reserve(groups_.size());
    for (size_t i = 0; i < groups_.size(); ++i) {
      all.push_back({starts_[i + 1] - starts_[i], bytes_of(files_->groups()[groups_[i]].bytes, groups_[i])});
    }
    return all;
  }
  bool holds(size_t group) const override { return cache_.holds(group); }
  void load(size_t group) const override {
    if (cache_.expects(group)) return;
    try {
      values_of(group);
    } catch (const BadDataError&) {
      // Reported to the caller that asks for one of its images.
    }
  }

 private:
  struct Sample {
    int32_t label, row;
  };

  const Sample& at(int64_t index) const { return samples_[static_cast<size_t>(index)]; }
  size_t group_of(int64_t index) const {
    return static_cast<size_t>(std::upper_bound(starts_.begin(), starts_.end(), index) - starts_.begin()) - 1;
  }
  std::string name_of(size_t group, int64_t row) const { return fmt::format("{}, row {}", files_->name(group), row); }
  /// Memory of a group whose images have `images` bytes in total.
  int64_t bytes_of(int64_t images, size_t group) const {
    return images + files_->groups()[group].rows * static_cast<int64_t>(sizeof(std::string_view));
  }

  /// Adds the labels of a row group.
  void add(size_t group) {
    const size_t before = samples_.size();
    try {
      const ParquetValues labels = files_->read(group, kLabels);
      for (size_t row = 0; row < labels.numbers.size(); ++row) take(group, static_cast<int64_t>(row), labels);
    } catch (const BadDataError& error) {
      bad(error.what(), "get the file again");
    }
    if (samples_.size() == before) return;
    groups_.push_back(group);
    starts_.push_back(size());
  }

  void take(size_t group, int64_t row, const ParquetValues& labels) {
    const int64_t label = labels.numbers[static_cast<size_t>(row)];
    if (std::binary_search(labels.nulls.begin(), labels.nulls.end(), row)) {
      bad(fmt::format("{}: its '{}' is null", name_of(group, row), options_.label_column), "write the label's number there");
    } else if (label < 0 || label >= options_.classes) {
      bad(fmt::format("{}: label {} is not in [0, {})", name_of(group, row), label, options_.classes),
          "fix it, or set model.classes");
    } else {
      samples_.push_back({static_cast<int32_t>(label), static_cast<int32_t>(row)});
    }
  }

  void bad(const std::string& what, const char* advice) {
    if (options_.bad == BadData::refuse) throw InputError(fmt::format("{}; {}, {}", what, advice, kOrSkip));
    add_note(left_out_, what);
  }

  std::shared_ptr<const ParquetValues> values_of(size_t number) const {
    return std::static_pointer_cast<const ParquetValues>(cache_.get(number, [&] {
      auto values = std::make_shared<const ParquetValues>(files_->read(groups_[number], kImages));
      int64_t bytes = 0;
      for (const std::string_view image : values->bytes) bytes += static_cast<int64_t>(image.size());
      return LoadedGroup{values, bytes_of(bytes, groups_[number])};
    }));
  }

  const ParquetImages options_;
  const std::shared_ptr<const ParquetFiles> files_;
  std::vector<Sample> samples_;
  std::vector<size_t> groups_;         ///< groups with samples
  std::vector<int64_t> starts_ = {0};  ///< first sample of each, and the end
  DataNotes left_out_;
  const GroupCache cache_;
};

}  // namespace

std::shared_ptr<ImageSource> open_parquet_images(std::shared_ptr<const ShardFiles> files, const ParquetImages& options) {
  return std::make_shared<ParquetImageSource>(std::move(files), options);
}

}  // namespace weft
