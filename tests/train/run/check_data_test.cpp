// What looking at all of a recipe's data finds, of each kind of source; the same from any number of threads.
#include "weft/train/run/check_data.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/data/images/image_files.h"
#include "tests/data/tar_file.h"
#include "tests/data/temp_folder.h"
#include "weft/train/recipe/read_recipe.h"

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
  EXPECT_FALSE(stops_training(check_data(images("image-folder", ", skip_bad = true"))));
}

TEST_F(CheckData, ShardsWhoseKeysAreBad) {
  std::filesystem::create_directories(folder_.path() / "train");
  std::filesystem::create_directories(folder_.path() / "val");
  const std::string png = test::png_of(test::gradient(8, 8, 3), 8, 8, 3);
  folder_.write("train/0.tar", test::tar_of({{"1.png", png}, {"1.cls", "2"}, {"2.png", png}, {"2.cls", "3"}}));
  folder_.write("val/0.tar", test::tar_of({{"1.webp", "RIFF"}, {"1.cls", "2"}}));
  const DataReport report = check_data(images("webdataset"));
  EXPECT_EQ(report.sets[0].class_counts, (std::vector<int64_t>{0, 0, 1}));
  EXPECT_EQ(report.sets[0].left_out, Names{folder_.file("train/0.tar") + ", key 2: label 3 is not in [0, 3)"});
  EXPECT_NE(report.sets[1].error.find("no image with a label"), std::string::npos) << "and the other set was looked at";
  EXPECT_TRUE(stops_training(report));
}

TEST_F(CheckData, Tokens) {
  const std::string ids = folder_.write("ids.bin", std::string("\1\0\2\0\x2c\1\3\0", 8));  // 300 is the third
  const std::string rows = folder_.write("rows.jsonl", "{\"text\": \"abc\"}\n{\"body\": 1}\n{\"text\": \"d\"}\n");
  const std::string text = folder_.write("text.txt", "hello");
  DataReport report = check_data(tokens("name = \"tokens\", tokenizer = \"uint16\", path = \"" + ids + "\""));
  ASSERT_EQ(report.sets.size(), 1U) << "two parts of one stream";
  EXPECT_EQ(report.sets[0].tokens * 1000 + report.sets[0].largest_id, 4300);
  EXPECT_TRUE(stops_training(report));
  EXPECT_NE(data_report_text(report).find("4 tokens, the largest id 300 of a vocabulary of 300: too large"), std::string::npos)
      << data_report_text(report);
  report = check_data(tokens(fmt::format(
      "name = \"mix\", mix = [{{ name = \"jsonl\", path = \"{}\" }}, {{ name = \"text\", path = \"{}\" }}]", rows, text)));
  ASSERT_EQ(report.sets.size(), 2U);
  EXPECT_EQ(report.sets[0].name, fmt::format("data.mix.1 ({}), training and evaluation", rows));
  EXPECT_EQ(report.sets[0].tokens * 1000 + report.sets[0].largest_id, 6100) << "abc, d, and their line breaks; 'd' is 100";
  EXPECT_EQ(report.sets[0].documents, 2);
  EXPECT_EQ(report.sets[0].left_out, Names{rows + ", row 2: it has no 'text'"});
  EXPECT_EQ(report.sets[1].tokens, 5);
  EXPECT_TRUE(stops_training(report));
  report = check_data(tokens("name = \"text\", path = \"" + text + "\""));
  EXPECT_FALSE(stops_training(report)) << data_report_text(report);
  EXPECT_NE(check_data(tokens("name = \"text\", path = \"" + text + "x\"")).sets[0].error.find("No such file"),
            std::string::npos);
}

}  // namespace
}  // namespace weft::check_data_test
