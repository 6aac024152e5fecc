#include "weft/data/images.h"

#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <utility>

#include "weft/base/error.h"
#include "weft/data/idx_file.h"

namespace weft {
namespace {

class ImageDataset final : public Dataset {
 public:
  ImageDataset(IdxFile images, IdxFile labels, const PixelScale& scale)
      : images_(std::move(images)), labels_(std::move(labels)) {
    for (size_t i = 0; i < scaled_.size(); ++i) {
      scaled_[i] = static_cast<float>((static_cast<double>(i) / 255.0 - scale.mean) / scale.stddev);
    }
  }

  int64_t size() const override { return images_.sizes[0]; }

  Batch get(const std::vector<int64_t>& indices, int64_t /*epoch*/) const override {
    const auto count = static_cast<int64_t>(indices.size());
    const int64_t height = images_.sizes[1], width = images_.sizes[2], pixels = height * width;
    at::Tensor image = at::empty({count, 1, height, width}, at::kFloat);
    at::Tensor label = at::empty({count}, at::kLong);
    auto* out = image.mutable_data_ptr<float>();
    auto* label_out = label.mutable_data_ptr<int64_t>();
    for (const int64_t index : indices) {
      if (index < 0 || index >= size())
        throw InputError(fmt::format("images: sample {} asked for, there are {}", index, size()));
      const uint8_t* in = images_.values.data() + index * pixels;
      for (int64_t p = 0; p < pixels; ++p) out[p] = scaled_[in[p]];
      out += pixels;
      *label_out++ = labels_.values[static_cast<size_t>(index)];
    }
    return {.inputs = {image}, .target = label};
  }

 private:
  IdxFile images_, labels_;
  std::array<float, 256> scaled_;  ///< what each byte becomes
};

void check_labels(const IdxFile& labels, const ImageFiles& files) {
  for (size_t i = 0; i < labels.values.size(); ++i) {
    if (labels.values[i] >= files.classes) {
      throw InputError(
          fmt::format("{}: label {} at index {} is not in [0, {}); set model.classes to at least {} or mend the file",
                      files.labels, labels.values[i], i, files.classes, labels.values[i] + 1));
    }
  }
}

}  // namespace

std::shared_ptr<Dataset> open_images(const ImageFiles& files, const PixelScale& scale) {
  if (!(scale.stddev > 0)) throw InputError(fmt::format("images: stddev = {}; it must be positive", scale.stddev));
  IdxFile images = read_idx(files.images, 3, "images");
  IdxFile labels = read_idx(files.labels, 1, "labels");
  if (images.sizes[0] != labels.sizes[0]) {
    throw InputError(fmt::format("{} holds {} images but {} holds {} labels; name the two files of one set", files.images,
                                 images.sizes[0], files.labels, labels.sizes[0]));
  }
  check_labels(labels, files);
  return std::make_shared<ImageDataset>(std::move(images), std::move(labels), scale);
}

ImageFiles mnist_files(const std::string& folder, ImageSplit split) {
  const std::string prefix = split == ImageSplit::training ? "train" : "t10k";
  const auto find = [&](const std::string& name) {
    const std::string plain = (std::filesystem::path(folder) / (prefix + name)).string();
    std::error_code ignored;
    return std::filesystem::exists(plain, ignored) ? plain : plain + ".gz";
  };
  return {.images = find("-images-idx3-ubyte"), .labels = find("-labels-idx1-ubyte")};
}

}  // namespace weft
