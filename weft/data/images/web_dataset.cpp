#include "weft/data/images/web_dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "weft/base/error.h"
#include "weft/data/files/tar_members.h"
#include "weft/data/images/decode_image.h"
#include "weft/data/passed_over.h"

namespace weft {
namespace {

constexpr int64_t kMostImageBytes = int64_t{1} << 30;  // of an image
constexpr const char* kUniqueKey = "give each sample its own key";
constexpr const char* kAddLabel = "add it, with the label's number";
constexpr const char* kNoLinks = "put the file itself there (tar --dereference --hard-dereference)";

/// Member with a key.
struct Field {
  std::string name;               ///< "jpg", "seg.png"
  int64_t offset = 0, bytes = 0;  ///< its place in the shard
  std::string text;               ///< a label's text
};

/// Members of a shard with the same key.
struct Entry {
  std::string key;
  std::vector<Field> images = {}, labels = {};
  std::string other = {};  ///< an image of a kind that is not read
  std::string link = {};   ///< field of a link, which is not followed
};

/// "a/0001.seg.png" has the key "a/0001" and the field "seg.png", in lower case; names without a dot have neither.
std::pair<std::string, std::string> key_and_field(const std::string& name) {
  const size_t slash = name.rfind('/'), base = slash == std::string::npos ? 0 : slash + 1, dot = name.find('.', base);
  if (dot == std::string::npos) return {};
  return {name.substr(0, dot), lower_case(std::string_view(name).substr(dot + 1))};
}

/// Last part of a field: "png".
std::string_view ending_of(std::string_view field) { return field.substr(field.rfind('.') + 1); }

/// Returns the number of plain fields ("jpg") and the field to take: the only plain one, otherwise the only one of all.
std::pair<int64_t, const Field*> pick_field(const std::vector<Field>& fields) {
  const auto is_plain = [](const Field& field) { return field.name.find('.') == std::string::npos; };
  const int64_t plain = std::count_if(fields.begin(), fields.end(), is_plain);
  if (plain == 1) return {plain, &*std::find_if(fields.begin(), fields.end(), is_plain)};
  return {plain, plain == 0 && fields.size() == 1 ? fields.data() : nullptr};
}

class WebDataset final : public ImageSource {
 public:
  WebDataset(std::shared_ptr<const ShardFiles> shards, const WebDatasetOptions& options)
      : shards_(std::move(shards)), options_(options) {
    for (size_t shard = 0; shard < shards_->count(); ++shard) open(shard);
    if (samples_.empty()) {
      throw InputError(fmt::format("{}: {} no image with a label (KEY.jpg or KEY.png with KEY.cls){}",
                                   shards_->count() > 0 ? shards_->name(0) : "webdataset",
                                   shards_->count() > 1 ? "it and the other shards have" : "it has",
                                   first_notes(left_out_, passed_over())));
    }
  }

  int64_t size() const override { return static_cast<int64_t>(samples_.size()); }
  int64_t label(int64_t index) const override { return at(index).label; }
  std::string name(int64_t index) const override { return name_of(at(index).shard, at(index).key); }
  DataNotes left_out() const override { return left_out_; }
  DataNotes passed_over() const override {
    DataNotes notes = shards_->passed_over();
    for (DataNote& note : passed_over_.notes()) notes.push_back(std::move(note));
    return notes;
  }

  DecodedCrop decode(int64_t index, ChooseCrop choose) const override {
    const Sample& sample = at(index);
    if (sample.bytes > kMostImageBytes) throw BadDataError(fmt::format("{}: too many bytes for an image", name(index)));
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
    const TarEnd end = read_tar(*shards_, shard, ".cls", [&](TarMember member) {
      const std::string name = fmt::format("{}: {}", shards_->name(shard), member.name);
      if (is_hidden_path(member.name)) return passed_over_.add("hidden", name);
      auto [key, field] = key_and_field(member.name);
      const std::string_view ending = ending_of(field);
      const bool is_label = ending == "cls", is_image = is_image_ending(ending), is_other = is_other_image_ending(ending);
      if (member.is_link) passed_over_.add("a link", name);
      if (!is_label && !is_image && !member.is_link) passed_over_.add(fmt::format("no {} or .cls", kImageEndings), name);
      if (!is_label && !is_image && !is_other) return;
      const auto [place, is_new] = places.emplace(key, entries.size());
      if (is_new) entries.push_back({.key = std::move(key)});
      Entry& entry = entries[place->second];
      if (member.is_link) {
        entry.link = field;
      } else if (is_other) {
        entry.other = field;
      } else {
        (is_label ? entry.labels : entry.images).push_back({field, member.offset, member.bytes, std::move(member.text)});
      }
    });
    if (!end.cut.empty()) {
      bad(fmt::format("{}: not a whole, uncompressed tar file: {}", shards_->name(shard), end.cut), "get it again");
    }
    if (end.bytes_behind > 0) {
      passed_over_.add("after its end mark, perhaps another tar file",
                       fmt::format("{}: {} bytes", shards_->name(shard), end.bytes_behind));
    }
    for (const Entry& entry : entries) take(static_cast<int32_t>(shard), entry);
  }

  /// Returns why none of the fields can be used; empty if one can. `what` names them; `none` is the text for no fields.
  static std::string fault_of(const std::vector<Field>& fields, const char* what, const std::string& none) {
    const auto [plain, field] = pick_field(fields);
    if (field != nullptr) return "";
    if (fields.empty()) return none;
    if (plain > 1) return "it appears twice in the shard, or with two images or labels";
    return fmt::format("it has {} {}, as {} and {}: what follows the first dot of a member's name is its field", fields.size(),
                       what, fields[0].name, fields[1].name);
  }

  void take(int32_t shard, const Entry& entry) {
    const std::string name = name_of(shard, entry.key);
    const bool has_image = !entry.images.empty();
    if ((!has_image && pick_field(entry.labels).first == 0) || (entry.labels.empty() && pick_field(entry.images).first == 0)) {
      for (const std::vector<Field>* fields : {&entry.images, &entry.labels}) {  // images of other kinds are already noted
        for (const Field& field : *fields) passed_over_.add("no image with a label", fmt::format("{}.{}", name, field.name));
      }
      return;
    }
    const std::string of_image =
        fault_of(entry.images, "images",
                 entry.other.empty() ? fmt::format("a .cls without an image ({})", kImageEndings)
                                     : fmt::format("its image is .{}, which is not read ({} are)", entry.other, kImageEndings));
    const std::string of_label = fault_of(entry.labels, "labels", "no .cls for its image");
    const std::string fault = of_image.empty() ? of_label : of_image;
    if (!fault.empty() && !entry.link.empty()) {
      return bad(fmt::format("{}: {}, and its .{} is a link", name, fault, entry.link), kNoLinks);
    }
    if (!of_image.empty()) return bad(fmt::format("{}: {}", name, of_image), advice_for(has_image, !entry.other.empty()));
    if (!of_label.empty()) return bad(fmt::format("{}: {}", name, of_label), entry.labels.empty() ? kAddLabel : kUniqueKey);
    const Field& image = *pick_field(entry.images).second;
    const Field& label = *pick_field(entry.labels).second;
    for (const std::vector<Field>* fields : {&entry.images, &entry.labels}) {
      for (const Field& field : *fields) {
        if (&field != &image && &field != &label) {
          passed_over_.add("another field is used", fmt::format("{}.{}", name, field.name));
        }
      }
    }
    add(shard, entry.key, image, label.text);
  }

  static const char* advice_for(bool has_image, bool has_other) {
    return has_image ? kUniqueKey : has_other ? "convert it to one of these" : "add it";
  }

  /// Adds the sample if its label is good.
  void add(int32_t shard, const std::string& key, const Field& image, const std::string& text) {
    const std::string name = name_of(shard, key);
    int64_t label = -1;
    constexpr const char* kBlanks = " \t\r\n";
    const std::string digits = text.substr(std::min(text.find_first_not_of(kBlanks), text.size()));
    const size_t last = digits.find_last_not_of(kBlanks);
    const char* end = digits.data() + (last == std::string::npos ? 0 : last + 1);
    const auto [stop, error] = std::from_chars(digits.data(), end, label);
    if (error != std::errc() || stop != end) {
      bad(fmt::format("{}: its .cls is not a number", name), "write the label's number there");
    } else if (label < 0 || label >= options_.classes) {
      bad(fmt::format("{}: label {} is not in [0, {})", name, label, options_.classes), "fix it, or set model.classes");
    } else {
      samples_.push_back({image.offset, image.bytes, shard, static_cast<int32_t>(label), key});
    }
  }

  void bad(const std::string& what, const char* advice) {
    if (options_.bad == BadData::refuse) throw InputError(fmt::format("{}; {}, {}", what, advice, kOrSkip));
    add_note(left_out_, what);
  }

  std::shared_ptr<const ShardFiles> shards_;
  const WebDatasetOptions options_;
  std::vector<Sample> samples_;
  DataNotes left_out_;
  PassedOver passed_over_;
};

}  // namespace

std::shared_ptr<ImageSource> open_web_dataset(std::shared_ptr<const ShardFiles> shards, const WebDatasetOptions& options) {
  return std::make_shared<WebDataset>(std::move(shards), options);
}

}  // namespace weft
