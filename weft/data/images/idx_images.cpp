#include "weft/data/images/idx_images.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>

#include "weft/base/error.h"
#include "weft/base/units.h"
#include "weft/data/images/decode_image.h"
#include "weft/data/images/idx_file.h"

namespace weft {
namespace {

class IdxImages final : public ImageSource {
 public:
  explicit IdxImages(const ImageFiles& files)
      : images_(read_idx(files.images, 3, "images", files.bad)),
        labels_(read_idx(files.labels, 1, "labels", files.bad)),
        path_(files.images) {
    pair(files);
    if (files.bad == BadData::refuse) {
      check_labels(files);
    } else {
      pass_over_labels(files);
    }
    if (size() == 0) {
      throw InputError(images_.missing + labels_.missing > 0
                           ? fmt::format("{}: truncated within its first image or label; get it again", path_)
                           : fmt::format("{}: no image has a label below {}", path_, files.classes));
    }
  }

  int64_t size() const override { return good_ ? static_cast<int64_t>(good_->size()) : images_.sizes[0]; }
  int64_t label(int64_t index) const override { return labels_.values[static_cast<size_t>(place(index))]; }
  std::string name(int64_t index) const override { return fmt::format("{}, image {}", path_, place(index)); }
  DataNotes left_out() const override { return left_out_; }

  DecodedCrop decode(int64_t index, ChooseCrop choose) const override {
    const int64_t height = images_.sizes[1], width = images_.sizes[2];
    const uint8_t* first = images_.values.data() + place(index) * height * width;
    return crop_picture({.height = height, .width = width, .channels = 1, .pixels = {first, first + height * width}}, choose);
  }

  int64_t height() const { return images_.sizes[1]; }
  int64_t width() const { return images_.sizes[2]; }

 private:
  /// Index in the files.
  int64_t place(int64_t index) const { return good_ ? (*good_)[static_cast<size_t>(index)] : index; }

  /// Drops the surplus of one file if the other is truncated.
  void pair(const ImageFiles& files) {
    const int64_t images = images_.sizes[0] + images_.missing, labels = labels_.sizes[0] + labels_.missing;
    if (images != labels) {
      throw InputError(fmt::format("{} holds {} images but {} holds {} labels; name the two files of one set", files.images,
                                   images, files.labels, labels));
    }
    const auto note = [&](const IdxFile& file, const std::string& path, const char* what) {
      if (file.missing > 0) left_out_.push_back(fmt::format("{}: {} at its end, truncated", path, counted(file.missing, what)));
    };
    note(images_, files.images, "image");
    note(labels_, files.labels, "label");
    images_.sizes[0] = labels_.sizes[0] = std::min(images_.sizes[0], labels_.sizes[0]);
    labels_.values.resize(static_cast<size_t>(labels_.sizes[0]));
  }

  void check_labels(const ImageFiles& files) const {
    for (size_t i = 0; i < labels_.values.size(); ++i) {
      if (labels_.values[i] >= files.classes) {
        throw InputError(
            fmt::format("{}: label {} at index {} is not in [0, {}); set model.classes to at least {}, fix the file, {}",
                        files.labels, labels_.values[i], i, files.classes, labels_.values[i] + 1, kOrSkip));
      }
    }
  }

  void pass_over_labels(const ImageFiles& files) {
    std::vector<int64_t> good;
    for (int64_t i = 0; i < images_.sizes[0]; ++i) {
      const int label = labels_.values[static_cast<size_t>(i)];
      if (label < files.classes) {
        good.push_back(i);
      } else {
        add_note(left_out_, fmt::format("{}: label {} at index {}", files.labels, label, i));
      }
    }
    if (static_cast<int64_t>(good.size()) < images_.sizes[0]) good_ = std::move(good);
  }

  IdxFile images_, labels_;
  std::string path_;
  std::optional<std::vector<int64_t>> good_;  ///< indices of the images used, if not all
  DataNotes left_out_;
};

}  // namespace

std::shared_ptr<ImageSource> open_idx_images(const ImageFiles& files) { return std::make_shared<IdxImages>(files); }

std::shared_ptr<Dataset> open_images(const ImageFiles& files, const PixelScale& scale) {
  if (!(scale.stddev > 0)) throw InputError(fmt::format("images: stddev = {}; it must be positive", scale.stddev));
  const auto source = std::make_shared<IdxImages>(files);
  return open_image_set(
      source,
      {.channels = 1, .height = source->height(), .width = source->width(), .mean = {scale.mean}, .stddev = {scale.stddev}});
}

namespace {

/// Returns the first of a file's usual names that exists, otherwise the last: the archive's own name, that of unpacked copies
/// on Kaggle, and that of a file inside a folder of the same name, as in some of these copies.
std::string mnist_file(const std::string& folder, const std::string& stem, const std::string& kind) {
  const std::string name = stem + "-" + kind;
  std::error_code ignored;
  for (const std::string& each : {name, name + ".gz", stem + "." + kind, stem + "." + kind + ".gz", name + "/" + name}) {
    std::string path = (std::filesystem::path(folder) / each).string();
    if (std::filesystem::exists(path, ignored) && !std::filesystem::is_directory(path, ignored)) return path;
  }
  return (std::filesystem::path(folder) / (name + ".gz")).string();
}

}  // namespace

ImageFiles mnist_files(const std::string& folder, ImageSplit split) {
  const std::string prefix = split == ImageSplit::training ? "train" : "t10k";
  return {.images = mnist_file(folder, prefix + "-images", "idx3-ubyte"),
          .labels = mnist_file(folder, prefix + "-labels", "idx1-ubyte")};
}

}  // namespace weft
