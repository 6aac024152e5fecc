#include "weft/train/run/data_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "weft/base/printable.h"
#include "weft/base/units.h"

namespace weft {

namespace {

using Json = nlohmann::ordered_json;

/// Formats "  damaged: 2" with the names below it; empty if there are none.
std::string list_text(const char* what, const std::vector<std::string>& names, int64_t count) {
  constexpr size_t kMost = 20;
  if (names.empty()) return "";
  std::string text = fmt::format("  {}: {}\n", what, count);
  for (size_t i = 0; i < std::min(names.size(), kMost); ++i) text += fmt::format("    {}\n", printable(names[i]));
  if (names.size() > kMost) text += fmt::format("    and {} more; --json names more\n", count - static_cast<int64_t>(kMost));
  return text;
}

std::string class_name(const SetReport& set, size_t label) {
  return label < set.class_names.size() ? fmt::format("'{}'", printable(set.class_names[label])) : fmt::format("{}", label);
}

std::string images_text(const SetReport& set) {
  std::string text = counted(set.images, "image");
  size_t least = set.class_counts.size(), most = least, classes = 0;
  for (size_t label = 0; label < set.class_counts.size(); ++label) {
    const int64_t count = set.class_counts[label];
    if (count == 0) continue;
    ++classes;
    if (least == set.class_counts.size() || count < set.class_counts[least]) least = label;
    if (most == set.class_counts.size() || count > set.class_counts[most]) most = label;
  }
  if (classes > 0) {
    text += fmt::format(" of {}: {} of ", counted(static_cast<int64_t>(classes), "class", "es"), set.class_counts[least]);
    const bool are_equal = set.class_counts[least] == set.class_counts[most];
    text += are_equal && classes > 1 ? "each" : class_name(set, least);
    if (!are_equal) text += fmt::format(" to {} of {}", set.class_counts[most], class_name(set, most));
  }
  if (set.height.most > 0) {
    text += fmt::format("\n  height {} to {}, median {}; width {} to {}, median {}", set.height.least, set.height.most,
                        set.height.median, set.width.least, set.width.most, set.width.median);
  }
  return text;
}

std::string tokens_text(const SetReport& set) {
  std::string text = counted(set.tokens, "token");
  if (set.documents > 0) text += fmt::format(" in {}", counted(set.documents, "document"));
  return text + fmt::format(", the largest id {} of a vocabulary of {}{}", set.largest_id, set.vocabulary,
                            set.largest_id < set.vocabulary ? "" : ": too large");
}

Json set_json(const SetReport& set) {
  Json json = {{"name", set.name}};
  if (!set.error.empty()) json["error"] = set.error;
  if (set.images > 0) {
    const auto side = [](const SideSizes& s) { return Json{{"min", s.least}, {"median", s.median}, {"max", s.most}}; };
    Json classes = Json::array();
    for (size_t label = 0; label < set.class_counts.size(); ++label) {
      Json one = {{"label", label}, {"images", set.class_counts[label]}};
      if (label < set.class_names.size()) one["name"] = set.class_names[label];
      classes.push_back(std::move(one));
    }
    json.update({{"images", set.images}, {"height", side(set.height)}, {"width", side(set.width)}, {"classes", classes}});
  }
  if (set.samples > 0) json["samples"] = set.samples;
  if (set.tokens > 0) {
    json.update({{"tokens", set.tokens}, {"documents", set.documents}, {"largest_id", set.largest_id}});
    json["vocabulary"] = set.vocabulary;
  }
  json.update({{"damaged", set.damaged}, {"left_out", texts_of(set.left_out)}, {"passed_over", texts_of(set.passed_over)}});
  json.update({{"left_out_count", count_of(set.left_out)}, {"passed_over_count", count_of(set.passed_over)}});
  return json;
}

}  // namespace

bool stops_training(const DataReport& report) {
  const auto stops = [&](const SetReport& set) {
    const bool has_bad = !set.damaged.empty() || !set.left_out.empty();
    // Some order has a hundred damaged images in a row, which stops a training (data/images/image_set.h).
    const auto damaged = static_cast<int64_t>(set.damaged.size()), good = set.images + set.samples - damaged;
    const bool is_bad = damaged > 0 && (good <= 0 || damaged / (good + 1) >= 100);
    return is_bad || !set.error.empty() || (has_bad && !report.skip_bad) ||
           (set.tokens > 0 && set.largest_id >= set.vocabulary);
  };
  return !report.error.empty() || std::any_of(report.sets.begin(), report.sets.end(), stops);
}

std::string data_report_text(const DataReport& report) {
  std::string text;
  for (const SetReport& set : report.sets) {
    text += printable(set.name) + ": ";
    if (set.images > 0) text += images_text(set);
    if (set.tokens > 0) text += tokens_text(set);
    if (set.samples > 0) text += counted(set.samples, "sample");
    if (set.images == 0 && set.tokens == 0 && set.samples == 0) text += "nothing in it can be read";
    text += "\n";
    if (!set.error.empty()) text += fmt::format("  error: {}\n", printable(set.error));
    const auto list = [](const char* what, const DataNotes& notes) {
      return list_text(what, texts_of(notes), count_of(notes));
    };
    text += list_text("damaged", set.damaged, static_cast<int64_t>(set.damaged.size())) + list("left out, bad", set.left_out) +
            list("skipped, not data", set.passed_over);
  }
  if (!report.error.empty()) text += fmt::format("error: {}\n", printable(report.error));
  const char* end = "nothing is damaged";
  if (std::any_of(report.sets.begin(), report.sets.end(),
                  [](const SetReport& set) { return !set.damaged.empty() || !set.left_out.empty(); })) {
    end = "damaged data is skipped in training, because data.skip_bad = true";
  }
  return text + (stops_training(report) ? "this would stop a training" : end) + "\n";
}

std::string data_report_json(const DataReport& report) {
  Json sets = Json::array();
  for (const SetReport& set : report.sets) sets.push_back(set_json(set));
  Json json = {{"sets", std::move(sets)}, {"skip_bad", report.skip_bad}, {"stops_training", stops_training(report)}};
  if (!report.error.empty()) json["error"] = report.error;
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace weft
