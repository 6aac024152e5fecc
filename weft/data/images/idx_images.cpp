#include "weft/data/images/idx_images.h"

#include <fmt/format.h>

#include <filesystem>
#include <utility>

#include "weft/base/error.h"
#include "weft/data/images/decode_image.h"
#include "weft/data/images/idx_file.h"

namespace weft {
namespace {

class IdxImages final : public ImageSource {
 public:
  IdxImages(IdxFile images, IdxFile labels, std::string path)
      : images_(std::move(images)), labels_(std::move(labels)), path_(std::move(path)) {}

  int64_t size() const override { return images_.sizes[0]; }
  int64_t label(int64_t index) const override { return labels_.values[static_cast<size_t>(index)]; }
  std::string name(int64_t index) const override { return fmt::format("{}, image {}", path_, index); }

  DecodedCrop decode(int64_t index, ChooseCrop choose) const override {
    const int64_t height = images_.sizes[1], width = images_.sizes[2];
    const uint8_t* first = images_.values.data() + index * height * width;
    return cropped({.height = height, .width = width, .channels = 1, .pixels = {first, first + height * width}}, choose);
  }

  int64_t height() const { return images_.sizes[1]; }
  int64_t width() const { return images_.sizes[2]; }

 private:
  IdxFile images_, labels_;
  std::string path_;
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

std::shared_ptr<IdxImages> open(const ImageFiles& files) {
  IdxFile images = read_idx(files.images, 3, "images");
  IdxFile labels = read_idx(files.labels, 1, "labels");
  if (images.sizes[0] != labels.sizes[0]) {
    throw InputError(fmt::format("{} holds {} images but {} holds {} labels; name the two files of one set", files.images,
                                 images.sizes[0], files.labels, labels.sizes[0]));
  }
  check_labels(labels, files);
  return std::make_shared<IdxImages>(std::move(images), std::move(labels), files.images);
}

}  // namespace

std::shared_ptr<ImageSource> open_idx_images(const ImageFiles& files) { return open(files); }

std::shared_ptr<Dataset> open_images(const ImageFiles& files, const PixelScale& scale) {
  if (!(scale.stddev > 0)) throw InputError(fmt::format("images: stddev = {}; it must be positive", scale.stddev));
  const std::shared_ptr<IdxImages> source = open(files);
  return open_image_set(
      source,
      {.channels = 1, .height = source->height(), .width = source->width(), .mean = {scale.mean}, .stddev = {scale.stddev}});
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
