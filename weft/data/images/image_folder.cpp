#include "weft/data/images/image_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "weft/base/error.h"
#include "weft/base/input_file.h"
#include "weft/data/images/decode_image.h"
#include "weft/data/passed_over.h"

namespace weft {

namespace {

namespace fs = std::filesystem;

constexpr int kDeepest = 32;                      // nested folders in a class
constexpr int64_t kMostBytes = int64_t{1} << 30;  // per image file

std::vector<uint8_t> read_file(const std::string& path) {
  const InputFile file = open_input(path);
  if (!file.reason.empty()) throw InputError(fmt::format("cannot read the image '{}': {}", path, file.reason));
  if (file.bytes > kMostBytes) throw BadDataError(fmt::format("{}: {} bytes, too many for an image", path, file.bytes));
  std::vector<uint8_t> bytes(static_cast<size_t>(file.bytes));
  const int64_t count = read_input(file, 0, bytes.data(), file.bytes);
  if (count < 0) throw InputError(fmt::format("cannot read the image '{}': {}", path, std::strerror(errno)));
  bytes.resize(static_cast<size_t>(count));
  return bytes;
}

bool is_image(const fs::path& path) {
  const std::string ending = path.extension().string();
  return !ending.empty() && is_image_ending(ending.substr(1));
}

class ImageFolder final : public ImageSource {
 public:
  ImageFolder(const std::string& folder, const ImageDecoding& decoding, BadData bad) : decoding_(decoding), bad_(bad) {
    const std::vector<std::string> classes = image_classes(folder);
    if (classes.empty()) {
      throw InputError(fmt::format("{}: no folders in it; put the images of each class into a separate folder", folder));
    }
    for (size_t label = 0; label < classes.size(); ++label) add(folder + "/" + classes[label], static_cast<int32_t>(label));
    if (paths_.empty()) {
      throw InputError(
          fmt::format("{}: no image ({}) in any class{}", folder, kImageEndings, first_notes({}, passed_over_.notes())));
    }
    pass_over_beside(folder);
  }

  int64_t size() const override { return static_cast<int64_t>(paths_.size()); }
  int64_t label(int64_t index) const override { return labels_[static_cast<size_t>(index)]; }
  std::string name(int64_t index) const override { return paths_[static_cast<size_t>(index)]; }
  DataNotes left_out() const override { return left_out_; }
  DataNotes passed_over() const override { return passed_over_.notes(); }

  DecodedCrop decode(int64_t index, ChooseCrop choose) const override {
    const std::string& path = paths_[static_cast<size_t>(index)];
    return decode_image(read_file(path), decoding_, choose, path);
  }

 private:
  void add(const std::string& folder, int32_t label) {
    std::vector<std::string> found;
    std::string other;  // first file of another kind
    std::error_code error;
    for (fs::recursive_directory_iterator entry(folder, fs::directory_options::follow_directory_symlink, error), end;
         !error && entry != end; entry.increment(error)) {
      if (entry.depth() > kDeepest) {
        throw InputError(fmt::format("{}: {} folders deep; a link in it leads back to it", entry->path().string(), kDeepest));
      }
      std::error_code status;
      if (is_hidden_name(entry->path().filename().string())) {
        passed_over_.add("hidden", entry->path().string());
        entry.disable_recursion_pending();
        continue;
      }
      if (!is_image(entry->path())) {
        if (entry->is_directory(status)) continue;
        passed_over_.add(fmt::format("no {}", kImageEndings), entry->path().string());
        other = entry->path().string();
        continue;
      }
      if (!entry->is_regular_file(status)) {
        throw InputError(fmt::format("{}: {}; remove it, or put the image there", entry->path().string(),
                                     status ? status.message() : "named like an image, but not a regular file"));
      }
      found.push_back(entry->path().string());
    }
    if (error) throw InputError(fmt::format("cannot list '{}': {}", folder, error.message()));
    if (found.empty()) {
      const std::string what = fmt::format("{}: no image ({}) in this class{}", folder, kImageEndings,
                                           other.empty() ? "" : fmt::format(", only {}, which weft does not read", other));
      if (bad_ == BadData::refuse) throw InputError(fmt::format("{}; add some, remove the folder, {}", what, kOrSkip));
      left_out_.push_back(what);
    }
    std::sort(found.begin(), found.end());
    for (std::string& path : found) paths_.push_back(std::move(path));
    labels_.resize(paths_.size(), label);
  }

  /// Notes files next to the class folders.
  void pass_over_beside(const std::string& folder) {
    std::error_code error;
    for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
      std::error_code status;
      if (is_hidden_name(entry->path().filename().string())) {
        passed_over_.add("hidden", entry->path().string());
      } else if (!entry->is_directory(status)) {
        passed_over_.add("not in a class folder", entry->path().string());
      }
    }
  }

  const ImageDecoding decoding_;
  BadData bad_;
  std::vector<std::string> paths_;
  std::vector<int32_t> labels_;
  DataNotes left_out_;
  PassedOver passed_over_;
};

}  // namespace

std::vector<std::string> image_classes(const std::string& folder) {
  std::vector<std::string> classes;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    std::error_code status;  // a dangling link is not a folder
    if (entry->is_directory(status) && !is_hidden_name(name)) classes.push_back(name);
  }
  if (error) throw InputError(fmt::format("cannot list '{}': {}", folder, error.message()));
  std::sort(classes.begin(), classes.end());
  return classes;
}

std::shared_ptr<ImageSource> open_image_folder(const std::string& folder, const ImageDecoding& decoding, BadData bad) {
  return std::make_shared<ImageFolder>(folder, decoding, bad);
}

}  // namespace weft
