// The check of all of a recipe's data, for each kind of source; the same with any number of threads.
#include "weft/train/run/check_data.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/data/images/image_files.h"
#include "tests/data/npy_file.h"
#include "tests/data/tar_file.h"
#include "tests/data/temp_folder.h"
#include "tests/support/refusal.h"
#include "weft/recipe/build/open_data.h"
#include "weft/recipe/read/read_recipe.h"
#include "weft/train/run/start_notes.h"

namespace weft::check_data_test {
namespace {

using Names = std::vector<std::string>;

class CheckData : public ::testing::Test {
 protected:
  static Recipe recipe(const std::string& model, const std::string& data) {
    return parse_recipe(
        fmt::format("model = {{ {} }}\ndata = {{ {} }}\nbatch = {{ global = 1 }}\nrun = {{ steps = 1 }}", model, data),
        "r.toml");
  }
  Recipe images(const std::string& name, const std::string& more = "") const {
    return recipe("name = \"resnet\", depth = 8, channels = 3, image_size = 8, classes = 3",
                  fmt::format("name = \"{}\", path = \"{}\"{}", name, folder_.path().string(), more));
  }
  Recipe tokens(const std::string& data) const {
    return recipe("name = \"gpt\", layers = 1, heads = 1, width = 8, context = 4, vocabulary = 300", data);
  }
  void add_image(const std::string& name, int64_t height, int64_t width, double share = 1.0) const {
    std::filesystem::create_directories((folder_.path() / name).parent_path());
    const std::string bytes = test::jpeg_of(test::gradient(height, width, 3), height, width, 3);
    folder_.write(name, bytes.substr(0, static_cast<size_t>(share * static_cast<double>(bytes.size()))));
  }

  test::TempFolder folder_;
};

TEST_F(CheckData, FoldersOfImages) {
  for (const char* part : {"train", "val"}) {
    add_image(fmt::format("{}/ant/a.jpg", part), 40, 30);
    add_image(fmt::format("{}/bee/b.jpg", part), 20, 50);
  }
  add_image("train/bee/c.jpg", 64, 64);
  add_image("train/bee/cut.jpg", 64, 64, 0.97);
  folder_.write("train/bee/d.webp", "RIFF");
  folder_.write("train/ant/._a.jpg", "x");
  const Recipe recipe = images("image-folder");
  for (const int threads : {1, 4}) {
    int64_t done = 0;
    const DataReport report =
        check_data(recipe, {.threads = threads, .on_progress = [&](const std::string& set, int64_t so_far, int64_t) {
                              if (set == "training") done = so_far;
                            }});
    ASSERT_EQ(report.sets.size(), 2U);
    const SetReport& set = report.sets[0];
    EXPECT_EQ(set.name + set.error, "training");
    EXPECT_EQ(set.images, 4);
    EXPECT_EQ(done, 4);
    EXPECT_EQ(set.class_counts, (std::vector<int64_t>{1, 3}));
    EXPECT_EQ(set.class_names, (Names{"ant", "bee"}));
    EXPECT_EQ(set.height.least * 10000 + set.height.median * 100 + set.height.most, 204064);
    EXPECT_EQ(set.width.least * 10000 + set.width.median * 100 + set.width.most, 305064);
    ASSERT_EQ(set.damaged.size(), 1U);
    EXPECT_NE(set.damaged[0].find("bee/cut.jpg: not a whole JPEG image"), std::string::npos) << set.damaged[0];
    EXPECT_EQ(set.passed_over.size(), 2U);
    EXPECT_EQ(report.sets[1].name, "evaluation");
    EXPECT_TRUE(report.sets[1].damaged.empty() && report.sets[1].images == 2);
    EXPECT_TRUE(stops_training(report));
    const std::string text = data_report_text(report);
    EXPECT_NE(text.find("training: 4 images of 2 classes: 1 of 'ant' to 3 of 'bee'\n"
                        "  height 20 to 64, median 40; width 30 to 64, median 50\n"
                        "  damaged: 1\n"),
              std::string::npos)
        << text;
    const auto json = nlohmann::json::parse(data_report_json(report));
    EXPECT_EQ(json["sets"][0]["classes"][1]["images"], 3);
    EXPECT_EQ(json["stops_training"], true);
  }
  const DataReport report = check_data(images("image-folder", ", skip_bad = true"));
  EXPECT_FALSE(stops_training(report));
  EXPECT_NE(data_report_text(report).find("evaluation: 2 images of 2 classes: 1 of each\n"), std::string::npos)
      << data_report_text(report);
}

TEST_F(CheckData, ShardsWhoseKeysAreBad) {
  std::filesystem::create_directories(folder_.path() / "train");
  std::filesystem::create_directories(folder_.path() / "val");
  const std::string png = test::png_of(test::gradient(8, 8, 3), 8, 8, 3);
  folder_.write("train/0.tar", test::tar_of({{"1.png", png}, {"1.cls", "2"}, {"2.png", png}, {"2.cls", "3"}}));
  folder_.write("val/0.tar", test::tar_of({{"1.webp", "RIFF"}, {"1.cls", "2"}}));
  const DataReport report = check_data(images("webdataset"));
  EXPECT_EQ(report.sets[0].class_counts, (std::vector<int64_t>{0, 0, 1}));
  EXPECT_EQ(report.sets[0].left_out, DataNotes{folder_.file("train/0.tar") + ", key 2: label 3 is not in [0, 3)"});
  EXPECT_NE(report.sets[1].error.find("no image with a label"), std::string::npos) << "and the other set was looked at";
  EXPECT_TRUE(stops_training(report));
}

TEST_F(CheckData, Tokens) {
  const std::string ids = folder_.write("ids.bin", std::string("\1\0\2\0\x2c\1\3\0", 8));  // 300 is the third
  const std::string rows = folder_.write("rows.jsonl", "{\"text\": \"abc\"}\n{\"body\": 1}\n{\"text\": \"d\"}\n");
  const std::string text = folder_.write("text.txt", "hello, world");
  DataReport report = check_data(tokens("name = \"tokens\", tokenizer = \"uint16\", path = \"" + ids + "\""));
  ASSERT_EQ(report.sets.size(), 1U) << "two parts of one stream";
  EXPECT_EQ(report.sets[0].tokens * 1000 + report.sets[0].largest_id, 4300);
  EXPECT_TRUE(stops_training(report));
  EXPECT_NE(data_report_text(report).find("4 tokens, the largest id 300 of a vocabulary of 300: too large"), std::string::npos)
      << data_report_text(report);
  EXPECT_EQ(report.sets[0].error.find(ids + ": token 300 at index 2 is not below the vocabulary of 300"), 0U)
      << report.sets[0].error;
  report = check_data(tokens(fmt::format(
      "name = \"mix\", mix = [{{ name = \"jsonl\", path = \"{}\" }}, {{ name = \"text\", path = \"{}\" }}]", rows, text)));
  ASSERT_EQ(report.sets.size(), 2U);
  EXPECT_EQ(report.sets[0].name, fmt::format("data.mix.1 ({}), training and evaluation", rows));
  EXPECT_EQ(report.sets[0].tokens * 1000 + report.sets[0].largest_id, 6100) << "abc, d, and their line breaks; 'd' is 100";
  EXPECT_EQ(report.sets[0].documents, 2);
  EXPECT_EQ(report.sets[0].left_out, DataNotes{rows + ", row 2: it has no 'text'"});
  EXPECT_EQ(report.sets[1].tokens, 12);
  EXPECT_TRUE(stops_training(report));
  report = check_data(tokens("name = \"text\", evaluation = 0.5, path = \"" + text + "\""));
  EXPECT_FALSE(stops_training(report)) << data_report_text(report);
  EXPECT_NE(check_data(tokens("name = \"text\", path = \"" + text + "x\"")).sets[0].error.find("No such file"),
            std::string::npos);
}

/// Faults that stop a training though no data is damaged, and oddities that do not.
TEST_F(CheckData, AgreesWithTraining) {
  const std::string text = folder_.write("text.txt", "four");
  const std::string ids = folder_.write("ids.bin", std::string("\1\0\2\0\3\0\7\0\4\0\5\0\7\0\6\0\1\0\2\0\3\0\7\0", 24));
  const std::string tokens_of = "name = \"tokens\", tokenizer = \"uint16\", evaluation = 0.5, path = \"";
  folder_.write("m.bin", test::read_file(ids));
  std::string index = std::string("MMIDIDX\0\0\1\0\0\0\0\0\0\0\10\2\0\0\0\0\0\0\0\3\0\0\0\0\0\0\0", 34);
  index += std::string("\6\0\0\0\6\0\0\0", 8);                                         // lengths
  index += std::string("\14\0\0\0\0\0\0\0", 8) + std::string("\14\0\0\0\0\0\0\0", 8);  // the first is not where it was
  index += std::string("\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0", 24);
  folder_.write("m.idx", index);
  struct Row {
    std::string data, says;
  };
  const Row rows[] = {
      {"name = \"text\", path = \"" + text + "\"", "fewer than context + 1 = 5"},
      {tokens_of + ids + "\"", ""},
      {tokens_of + ids + "\", pack = \"documents\"", "set data.document_end"},
      {tokens_of + ids + "\", pack = \"documents\", document_end = 7", ""},
      {tokens_of + folder_.file("m.bin") + "\"", ""},
      {tokens_of + folder_.file("m.bin") + "\", pack = \"documents\"", "sequence 0 that does not directly follow"},
  };
  for (const Row& row : rows) {
    const Recipe recipe = tokens(row.data);
    const DataReport report = check_data(recipe);
    const std::string said = data_report_text(report);
    EXPECT_EQ(stops_training(report), !row.says.empty()) << said;
    EXPECT_NE(said.find(row.says), std::string::npos) << said;
    EXPECT_EQ(nlohmann::json::parse(data_report_json(report)).value("error", ""), report.error);
    EXPECT_EQ(test::refusal([&] { open_data(recipe); }).empty(), row.says.empty());
  }
  for (const char* part : {"train", "val"}) add_image(fmt::format("{}/ant/a.jpg", part), 40, 30, 0.5);
  const DataReport bad = check_data(images("image-folder", ", skip_bad = true"));
  EXPECT_TRUE(stops_training(bad)) << "of none there is another in its place";
  for (const char* part : {"train", "val"}) add_image(fmt::format("{}/ant/b.jpg", part), 40, 30);
  EXPECT_FALSE(stops_training(check_data(images("image-folder", ", skip_bad = true"))));
  for (int i = 0; i < 200; ++i) folder_.write(fmt::format("train/ant/bad{}.jpg", i), "bad");
  EXPECT_TRUE(stops_training(check_data(images("image-folder", ", skip_bad = true")))) << "a hundred one after another";
}

/// Other files among the images, each counted once.
TEST_F(CheckData, CountsSkippedFiles) {
  for (const char* part : {"train", "val"}) add_image(fmt::format("{}/ant/a.jpg", part), 40, 30);
  for (int i = 0; i < 100; ++i) {
    for (const char* part : {"train", "val"}) folder_.write(fmt::format("{}/ant/{:03}.webp", part, 99 - i), "RIFF");
  }
  const Recipe recipe = images("image-folder");
  const std::string why = " (no .jpg, .jpeg, .jfif, .png)", first = folder_.file("train/ant/000.webp") + why;
  const std::vector<std::string> notes = passed_over_notes(open_data(recipe));
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_EQ(notes[0].find("data: skipped 200 files or folders: " + first + "; "), 0U) << notes[0];
  EXPECT_TRUE(notes[0].ends_with("; and 195 more")) << notes[0];
  const DataReport report = check_data(recipe);
  EXPECT_NE(data_report_text(report).find("skipped, not data: 100\n    " + first + "\n"), std::string::npos);
  EXPECT_NE(data_report_text(report).find("\n    and 80 more; --json"), std::string::npos);
  const auto json = nlohmann::json::parse(data_report_json(report));
  EXPECT_EQ(json["sets"][0]["passed_over_count"], 100);
  EXPECT_EQ(json["sets"][0]["passed_over"].size(), 21U);
  EXPECT_EQ(json["sets"][0]["passed_over"][20], "80 more, after " + folder_.file("train/ant/019.webp") + why);
}

TEST_F(CheckData, Arrays) {
  const auto values = [](std::vector<float> numbers, float more, size_t count) {
    numbers.resize(count, more);
    return std::string(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(float));
  };
  folder_.write("inputs.npy", test::npy_of("<f4", "20, 3, 12", values({}, 0.5F, 720)));
  folder_.write("targets.npy", test::npy_of("<f4", "20, 2, 12", values({}, 0.25F, 480)));
  const Recipe recipe = CheckData::recipe("name = \"exported\", path = \"" WEFT_SOURCE
                                          "/tests/exported/programs/fields.pt2\", inputs = \"arrays\", loss = "
                                          "\"mean_squares\"",
                                          fmt::format("name = \"arrays\", path = \"{}\"", folder_.path().string()));
  EXPECT_EQ(data_report_text(check_data(recipe)), "training: 18 samples\nevaluation: 2 samples\nnothing is damaged\n");
  folder_.write("targets.npy", test::npy_of("<f4", "20, 2, 12", values({0.0F, NAN}, INFINITY, 480)));
  const DataReport damaged = check_data(recipe);
  EXPECT_EQ(damaged.sets.at(0).damaged.size(), 18U);
  EXPECT_EQ(damaged.sets.at(0).damaged.at(0), "sample 0: a number is not finite");
  EXPECT_TRUE(stops_training(damaged));
  std::vector<int64_t> labels(40, 11);
  labels[2] = 12, labels[5] = -1, labels[7] = -100;  // 2 targets per sample, of 12 classes; -100 is ignored
  folder_.write("targets.npy", test::npy_of("<i8", "20, 2", {reinterpret_cast<const char*>(labels.data()), 320}));
  Recipe of_classes = recipe;
  of_classes.model.loss = "cross_entropy";
  EXPECT_EQ(check_data(of_classes).sets.at(0).damaged,
            (std::vector<std::string>{"sample 1: target 12 is not one of the model's 12 classes",
                                      "sample 2: target -1 is not one of the model's 12 classes"}));
}

}  // namespace
}  // namespace weft::check_data_test
