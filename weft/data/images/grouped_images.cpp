#include "weft/data/images/grouped_images.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "weft/base/error.h"

namespace weft {
namespace {

class GroupedImages final : public Dataset {
 public:
  GroupedImages(std::shared_ptr<const Dataset> images, std::shared_ptr<const ImageSource> source,
                const GroupOrderOptions& options)
      : images_(std::move(images)),
        source_(std::move(source)),
        groups_(source_->grouped()->groups()),
        order_(groups_, options),
        cut_{.samples = order_.items()} {
    if (cut_.samples != images_->size()) {
      throw InputError(fmt::format("images: {} in groups, {} in total", cut_.samples, images_->size()));
    }
    starts_.reserve(groups_.size());
    int64_t start = 0;
    for (const SampleGroup& group : groups_) {
      starts_.push_back(start);
      start += group.items;
    }
  }

  int64_t size() const override { return cut_.samples; }
  DataNotes left_out() const override { return images_->left_out(); }
  DataNotes passed_over() const override { return images_->passed_over(); }
  bool is_ordered() const override { return true; }
  SampleRange near(int64_t index, int64_t epoch) const override { return order_.epoch(epoch)->window(index, cut_); }

  Batch get(const std::vector<int64_t>& indices, int64_t epoch) const override {
    const std::shared_ptr<const GroupEpoch> order = order_.epoch(epoch);
    std::vector<int64_t> images;
    images.reserve(indices.size());
    int64_t first = size();
    for (const int64_t index : indices) {
      if (index < 0 || index >= size()) {
        throw InputError(fmt::format("images: sample {} requested, but there are only {}", index, size()));
      }
      const auto [turn, offset] = order->place(order->sample(index, cut_));
      images.push_back(starts_[order->group(turn)] + offset);
      first = std::min(first, index);
    }
    Batch batch = images_->get(images, epoch);
    order->read_ahead(first, *source_->grouped(), *order_.epoch(epoch + 1));
    return batch;
  }

 private:
  const std::shared_ptr<const Dataset> images_;
  const std::shared_ptr<const ImageSource> source_;
  const std::vector<SampleGroup> groups_;
  const GroupOrder order_;
  const GroupEpoch::Cut cut_;
  std::vector<int64_t> starts_;  ///< first image of each group
};

}  // namespace

std::shared_ptr<Dataset> in_order_of_groups(std::shared_ptr<const Dataset> images, std::shared_ptr<const ImageSource> source,
                                            const GroupOrderOptions& options) {
  return std::make_shared<GroupedImages>(std::move(images), std::move(source), options);
}

}  // namespace weft
