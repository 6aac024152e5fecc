#include "weft/data/images/cifar.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <vector>

#include "weft/base/error.h"
#include "weft/base/file_kind.h"
#include "weft/base/input_file.h"
#include "weft/data/images/decode_image.h"

namespace weft {

namespace {

constexpr int64_t kSize = 32, kPlane = kSize * kSize, kPixels = 3 * kPlane;

/// Differences between the two sets.
struct Form {
  int64_t labels;  ///< bytes before an image's pixels; the last is the label used
  int classes;
  const char* archive;  ///< folder made by unpacking
  const char* packed;   ///< archive to be unpacked
  const char* python;   ///< folder of the Python form, which is not read, and a file in it
  const char* pickle;
  std::vector<std::string> training, test;
};

const Form& form_of(CifarKind kind) {
  static const Form ten = {1,
                           10,
                           "cifar-10-batches-bin",
                           "cifar-10-binary.tar.gz",
                           "cifar-10-batches-py",
                           "data_batch_1",
                           {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin"},
                           {"test_batch.bin"}};
  static const Form hundred = {2,       100,           "cifar-100-binary", "cifar-100-binary.tar.gz", "cifar-100-python",
                               "train", {"train.bin"}, {"test.bin"}};
  return kind == CifarKind::cifar10 ? ten : hundred;
}

class Cifar final : public ImageSource {
 public:
  Cifar(const std::string& folder, const Form& form, bool training, BadData bad) : form_(form), bad_(bad) {
    const std::string inner = folder + "/" + form.archive;
    std::error_code ignored;
    const std::string& place = std::filesystem::is_directory(inner, ignored) ? inner : folder;
    check_form(folder, place + "/" + form.training[0]);
    for (const std::string& file : training ? form.training : form.test) read(place + "/" + file);
    if (size() == 0) throw InputError(fmt::format("{}: no usable image in its files; download the set again", place));
  }

  int64_t size() const override { return static_cast<int64_t>(good_.size()); }
  int64_t label(int64_t index) const override { return at(index)[form_.labels - 1]; }

  DecodedCrop decode(int64_t index, ChooseCrop choose) const override {
    Picture picture{.height = kSize, .width = kSize, .channels = 3, .pixels = {}};
    picture.pixels.resize(kPixels);
    const uint8_t* planes = at(index) + form_.labels;
    for (int64_t p = 0; p < kPlane; ++p) {
      for (int64_t c = 0; c < 3; ++c) picture.pixels[p * 3 + c] = planes[c * kPlane + p];
    }
    return crop_picture(std::move(picture), choose);
  }

  std::string name(int64_t index) const override { return name_of(good_[static_cast<size_t>(index)]); }
  DataNotes left_out() const override { return left_out_; }

 private:
  struct File {
    std::string path;
    int64_t first;  ///< its first record
  };

  int64_t record() const { return form_.labels + kPixels; }
  int64_t records() const { return static_cast<int64_t>(bytes_.size()) / record(); }
  const uint8_t* at(int64_t index) const { return bytes_.data() + good_[static_cast<size_t>(index)] * record(); }

  std::string name_of(int64_t record) const {
    size_t file = 0;
    while (file + 1 < files_.size() && files_[file + 1].first <= record) ++file;
    return fmt::format("{}, image {}", files_[file].path, record - files_[file].first);
  }

  /// Throws if `folder` holds another form of the set.
  void check_form(const std::string& folder, const std::string& first) const {
    std::error_code ignored;
    if (std::filesystem::exists(first, ignored)) return;
    const auto has = [&](const std::string& name) { return std::filesystem::exists(folder + "/" + name, ignored); };
    const InputFile pickle = open_input(folder + "/" + form_.pickle);
    const bool is_pickle = pickle.reason.empty() && read_head(folder, pickle).starts_with('\x80');
    if (has(form_.python) || is_pickle) {
      throw InputError(
          fmt::format("{}: it holds CIFAR in Python form (pickles), which weft cannot read; {}", folder, get_it()));
    }
    if (has(form_.packed)) {
      throw InputError(fmt::format("{}/{}: still packed; unpack it there: tar -xzf {}", folder, form_.packed, form_.packed));
    }
  }
  std::string get_it() const {
    return fmt::format("get the binary form, {}, from https://www.cs.toronto.edu/~kriz/cifar.html", form_.packed);
  }

  /// Rejects a file of another kind, whatever BadData says. Not applied to files that look good: pixels may look like anything.
  void check_kind(const std::string& path, const InputFile& file) const {
    const std::string head = read_head(path, file);
    const auto label = static_cast<size_t>(form_.labels - 1);
    const bool looks_good =
        file.bytes % record() == 0 && head.size() > label && static_cast<uint8_t>(head[label]) < form_.classes;
    const FileKind kind = looks_good ? FileKind() : file_kind(head);
    if (kind)
      throw InputError(fmt::format("{}: it is {}, where CIFAR's binary form is expected; {}", path, kind.what, get_it()));
  }

  void read(const std::string& path) {
    const InputFile file = open_input(path);
    if (!file.reason.empty()) throw InputError(fmt::format("cannot read '{}': {}", path, file.reason));
    check_kind(path, file);
    const int64_t rest = file.bytes % record();
    if (file.bytes == 0 || rest != 0) {
      if (bad_ == BadData::refuse) {
        throw InputError(
            fmt::format("{}: {} bytes are not a whole number of images of {} bytes; it is truncated, or from another set; get "
                        "it again, {}",
                        path, file.bytes, record(), kOrSkip));
      }
      left_out_.push_back(file.bytes == 0 ? fmt::format("{}: empty", path)
                                          : fmt::format("{}: its last {} bytes, less than an image", path, rest));
    }
    const int64_t first = records(), bytes = file.bytes - rest;
    bytes_.resize(bytes_.size() + static_cast<size_t>(bytes));
    const int64_t count = read_input(file, 0, bytes_.data() + first * record(), bytes);
    if (count != bytes) {
      const char* why = count < 0 ? std::strerror(errno) : "truncated while it was read";
      throw InputError(fmt::format("cannot read '{}': {}", path, why));
    }
    files_.push_back({path, first});
    for (int64_t i = first; i < records(); ++i) take(i);
  }

  void take(int64_t i) {
    const int label = bytes_[static_cast<size_t>(i * record() + form_.labels - 1)];
    if (label < form_.classes) {
      good_.push_back(i);
      return;
    }
    const std::string what = fmt::format("{}: label {} is not below {}", name_of(i), label, form_.classes);
    if (bad_ == BadData::refuse) {
      throw InputError(fmt::format("{}; the file is damaged, or from another set; get it again, {}", what, kOrSkip));
    }
    add_note(left_out_, what);
  }

  const Form& form_;
  const BadData bad_;
  std::vector<uint8_t> bytes_;
  std::vector<int64_t> good_;  ///< records used as samples
  std::vector<File> files_;
  DataNotes left_out_;
};

}  // namespace

std::shared_ptr<ImageSource> open_cifar(const std::string& folder, CifarKind kind, bool training, BadData bad) {
  return std::make_shared<Cifar>(folder, form_of(kind), training, bad);
}

}  // namespace weft
