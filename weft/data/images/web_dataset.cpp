#include "weft/data/images/web_dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <unordered_map>
#include <utility>

#include "weft/base/error.h"
#include "weft/data/images/decode_image.h"
#include "weft/data/tar_members.h"

namespace weft {
namespace {

constexpr int64_t kMostImageBytes = int64_t{1} << 30;  // of an image

/// What a shard has under one key.
struct Entry {
  std::string key;
  int64_t offset = -1, bytes = 0;  ///< of the image
  std::string label;
  bool has_label = false, twice = false;
};

/// "a/0001.seg.png" has the key "a/0001" and the kind "seg.png"; hidden files have none.
std::pair<std::string, std::string> key_and_kind(const std::string& name) {
  const size_t slash = name.rfind('/'), base = slash == std::string::npos ? 0 : slash + 1, dot = name.find('.', base);
  if (dot == std::string::npos || dot == base) return {};
  std::string kind = name.substr(dot + 1);
  std::transform(kind.begin(), kind.end(), kind.begin(), [](unsigned char c) { return std::tolower(c); });
  return {name.substr(0, dot), kind};
}

class WebDataset final : public ImageSource {
 public:
  WebDataset(std::shared_ptr<const ShardFiles> shards, const WebDatasetOptions& options)
      : shards_(std::move(shards)), options_(options) {
    for (size_t shard = 0; shard < shards_->count(); ++shard) open(shard);
    if (samples_.empty()) {
      throw InputError(fmt::format("{}: {} no image with a label (KEY.jpg or KEY.png beside KEY.cls)",
                                   shards_->count() > 0 ? shards_->name(0) : "webdataset",
                                   shards_->count() > 1 ? "it and the other shards have" : "it has"));
    }
  }

  int64_t size() const override { return static_cast<int64_t>(samples_.size()); }
  int64_t label(int64_t index) const override { return at(index).label; }
  std::string name(int64_t index) const override { return name_of(at(index).shard, at(index).key); }
  std::vector<std::string> left_out() const override { return left_out_; }
  std::vector<std::string> passed_over() const override { return shards_->passed_over(); }

  DecodedCrop decode(int64_t index, ChooseCrop choose) const override {
    const Sample& sample = at(index);
    if (sample.bytes > kMostImageBytes) throw BadDataError(fmt::format("{}: more bytes than an image has", name(index)));
    std::vector<uint8_t> bytes(static_cast<size_t>(sample.bytes));
    shards_->read(static_cast<size_t>(sample.shard), sample.offset, bytes.data(), sample.bytes);
    return decode_image(bytes, options_.decoding, choose, name(index));
  }

 private:
  struct Sample {
    int64_t offset, bytes;
    int32_t shard, label;
    std::string key;
  };

  const Sample& at(int64_t index) const { return samples_[static_cast<size_t>(index)]; }
  std::string name_of(int64_t shard, const std::string& key) const {
    return fmt::format("{}, key {}", shards_->name(static_cast<size_t>(shard)), key);
  }

  void open(size_t shard) {
    std::vector<Entry> entries;
    std::unordered_map<std::string, size_t> places;
    const std::string cut = read_tar(*shards_, shard, ".cls", [&](TarMember member) {
      auto [key, kind] = key_and_kind(member.name);
      const bool is_label = kind == "cls", is_image = kind == "jpg" || kind == "jpeg" || kind == "png";
      if (!is_label && !is_image) return;
      const auto [place, is_new] = places.emplace(key, entries.size());
      if (is_new) entries.push_back({.key = std::move(key), .label = {}});
      Entry& entry = entries[place->second];
      entry.twice = entry.twice || (is_label ? entry.has_label : entry.offset >= 0);
      if (is_label) {
        entry.has_label = true;
        entry.label = std::move(member.text);
      } else {
        entry.offset = member.offset;
        entry.bytes = member.bytes;
      }
    });
    if (!cut.empty()) {
      bad(fmt::format("{}: no whole, uncompressed tar file: {}", shards_->name(shard), cut), "get it again");
    }
    for (Entry& entry : entries) take(static_cast<int32_t>(shard), std::move(entry));
  }

  void take(int32_t shard, Entry entry) {
    const std::string name = name_of(shard, entry.key);
    int64_t label = -1;
    constexpr const char* kBlanks = " \t\r\n";
    const std::string digits = entry.label.substr(std::min(entry.label.find_first_not_of(kBlanks), entry.label.size()));
    const size_t last = digits.find_last_not_of(kBlanks);
    const char* end = digits.data() + (last == std::string::npos ? 0 : last + 1);
    const auto [stop, error] = std::from_chars(digits.data(), end, label);
    if (entry.twice) {
      bad(name + ": it comes twice in the shard, or with two images or labels", "give each sample a key of its own");
    } else if (entry.offset < 0) {
      bad(name + ": a .cls without an image (.jpg, .jpeg, .png)", "add it");
    } else if (!entry.has_label) {
      bad(name + ": no .cls beside its image", "add it, with the label's number");
    } else if (error != std::errc() || stop != end) {
      bad(fmt::format("{}: its .cls is no number", name), "write the label's number there");
    } else if (label < 0 || label >= options_.classes) {
      bad(fmt::format("{}: label {} is not in [0, {})", name, label, options_.classes), "mend it, or set model.classes");
    } else {
      samples_.push_back({entry.offset, entry.bytes, shard, static_cast<int32_t>(label), std::move(entry.key)});
    }
  }

  void bad(const std::string& what, const char* advice) {
    if (options_.bad == BadData::refuse) throw InputError(fmt::format("{}; {}, {}", what, advice, kOrSkip));
    left_out_.push_back(what);
  }

  std::shared_ptr<const ShardFiles> shards_;
  const WebDatasetOptions options_;
  std::vector<Sample> samples_;
  std::vector<std::string> left_out_;
};

}  // namespace

std::shared_ptr<ImageSource> open_web_dataset(std::shared_ptr<const ShardFiles> shards, const WebDatasetOptions& options) {
  return std::make_shared<WebDataset>(std::move(shards), options);
}

}  // namespace weft
