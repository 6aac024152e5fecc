// Folders of images as a recipe names them.
#include "weft/recipe/build/open_data.h"

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <thread>
#include <tuple>

#include "tests/data/images/image_files.h"
#include "tests/data/npy_file.h"
#include "tests/data/tar_file.h"
#include "tests/data/temp_folder.h"
#include "tests/support/refusal.h"
#include "weft/checkpoint/storage/local_storage.h"
#include "weft/data/images/web_dataset.h"
#include "weft/recipe/build/data_checks.h"
#include "weft/recipe/build/open_shards.h"
#include "weft/recipe/read/read_recipe.h"

namespace weft::open_data_test {
namespace {

class ImageFolders : public ::testing::Test {
 protected:
  void add(const std::string& place) {
    std::filesystem::create_directories(folder_.path() / place);
    folder_.write(place + "/a.png", test::png_of(test::gradient(8, 8, 3), 8, 8, 3));
  }
  Datasets open(int classes, const std::string& more = "") const {
    return open_data(parse_recipe("model = { name = \"resnet\", depth = 8, channels = 3, image_size = 8, classes = " +
                                      std::to_string(classes) + " }\ndata = { name = \"image-folder\", path = \"" +
                                      folder_.path().string() + "\" }\nbatch = { global = 1 }\nrun = { steps = 1 }" + more,
                                  "r.toml"));
  }

  test::TempFolder folder_;
};

TEST_F(ImageFolders, HaveTheSameClassesInBothParts) {
  for (const char* place : {"train/ant", "train/bee", "val/ant", "val/bee"}) add(place);
  const Datasets good = open(2);
  EXPECT_EQ(good.training->size() * 10 + good.evaluation->size(), 22);
  EXPECT_EQ(good.evaluation->get({1}, 0).target[0].item<int64_t>(), 1);
  add("train/cow");
  EXPECT_NE(test::refusal([&] { open(2); }).find("has 3 classes, but model.classes is 2"), std::string::npos);
  EXPECT_NE(test::refusal([&] { open(3); }).find("none instead of 'cow'"), std::string::npos);
  add("val/cat");
  EXPECT_NE(test::refusal([&] { open(3); }).find("'cat' instead of 'cow'"), std::string::npos);
}

TEST_F(ImageFolders, PartsOfAMixtureHaveTheSameClasses) {
  for (const char* place :
       {"a/train/ant", "a/train/bee", "a/val/ant", "a/val/bee", "b/train/bee", "b/train/cat", "b/val/bee", "b/val/cat"}) {
    add(place);
  }
  const auto open_mix = [&](const std::string& second) {
    return open_data(parse_recipe(
        "model = { name = \"resnet\", depth = 8, channels = 3, image_size = 8, classes = 2 }\nbatch = { global = 1 }\n"
        "run = { steps = 1 }\ndata = { name = \"mix\", mix = [{ name = \"image-folder\" }, { name = \"image-folder\" }] }",
        "r.toml", {"data.mix.1.path=" + folder_.file("a"), "data.mix.2.path=" + folder_.file(second)}));
  };
  EXPECT_EQ(open_mix("a").training->size(), 4);
  EXPECT_NE(test::refusal([&] { open_mix("b"); }).find("its classes differ from"), std::string::npos);
}

TEST_F(ImageFolders, FurtherSetsAreFoldersOfTheSameClasses) {
  for (const char* place : {"train/ant", "train/bee", "val/ant", "val/bee", "night/ant", "night/bee", "dusk/ant"}) add(place);
  folder_.write("night/bee/b.png", test::png_of(test::gradient(8, 8, 3), 8, 8, 3));
  const auto set = [&](const std::string& name) {
    return "\n[[evaluation]]\nname = \"" + name + "\"\npath = \"" + (folder_.path() / name).string() + "\"";
  };
  const Datasets data = open(2, set("night"));
  ASSERT_EQ(data.others.size(), 1u);
  EXPECT_EQ(data.others[0].name, "night");
  EXPECT_EQ(data.others[0].data->size(), 3);
  EXPECT_NE(test::refusal([&] { open(2, set("dusk")); }).find("dusk: its classes differ from"), std::string::npos);
}

TEST_F(ImageFolders, NeedAPartOfEachKind) {
  add("train/ant");
  EXPECT_NE(test::refusal([&] { open(2); }).find("no folder 'val' or 'validation' or 'test' or 'evaluation' for evaluation"),
            std::string::npos);
}

class WebDatasets : public ::testing::Test {
 protected:
  /// A shard of images of one colour.
  void add(const std::string& place, const std::vector<int>& colours) const {
    std::filesystem::create_directories((folder_.path() / place).parent_path());
    std::vector<std::pair<std::string, std::string>> members;
    for (const int colour : colours) {
      members.push_back(
          {std::to_string(colour) + ".png", test::png_of(test::Pixels(8 * 8 * 3, static_cast<uint8_t>(colour)), 8, 8, 3)});
      members.push_back({std::to_string(colour) + ".cls", std::to_string(colour % 10)});
    }
    folder_.write(place, test::tar_of(members));
  }
  Datasets open(const std::string& path, const std::string& evaluation_path) const {
    return open_data(
        parse_recipe("model = { name = \"mlp\", channels = 3, image_size = 8, classes = 10 }\n"
                     "data = { name = \"webdataset\" }\nbatch = { global = 1 }\nrun = { steps = 1 }",
                     "r.toml", {"data.path=" + path, "data.evaluation_path=" + evaluation_path}));
  }
  static std::vector<int64_t> labels(const Dataset& set) {
    std::vector<int64_t> found;
    for (int64_t i = 0; i < set.size(); ++i) found.push_back(set.get({i}, 0).target[0].item<int64_t>());
    return found;
  }

  using Labels = std::vector<int64_t>;
  test::TempFolder folder_;
};

TEST_F(WebDatasets, AreFoldersBracesOrGlobs) {
  add("train/a.tar", {11, 12});
  add("train/b.tar", {13});
  add("val/c.tar", {14});
  folder_.write("train/notes.txt", "no shard");
  folder_.write("train/.b.tar", "hidden");
  const std::string root = folder_.path().string();
  const Datasets whole = open(root, "");
  EXPECT_EQ(labels(*whole.training), (Labels{1, 2, 3}));
  EXPECT_EQ(labels(*whole.evaluation), (Labels{4}));
  EXPECT_EQ(labels(*open(root + "/train/{b,a}.tar", root + "/val").training), (Labels{3, 1, 2}));
  EXPECT_EQ(labels(*open(root + "/train/?.tar", root + "/val/*").training), (Labels{1, 2, 3}));
  EXPECT_EQ(labels(*open(root + "/train/b.tar", root + "/val").training), (Labels{3}));
}

TEST_F(WebDatasets, ThatAreNotThereAreNamed) {
  add("train/a.tar", {11});
  const std::string root = folder_.path().string();
  const std::vector<std::tuple<std::string, std::string, std::string>> rows = {
      {root, "", "no folder 'val'"},
      {root + "/train/a.tar", "", "name the evaluation shards with data.evaluation_path"},
      {root + "/train/x*.tar", root + "/train", "/train/x*.tar: no files (.tar) there"},
      {root + "/train/{a,b}.tar", root + "/train", root + "/train/b.tar: cannot open it: No such file"},
      {root + "/*/a.tar", root + "/train", "'*' and '?' are allowed only in its last part"},
      {root + "/packed.tar", root + "/train",
       "packed.tar: not a whole, uncompressed tar file: it is compressed with gzip; unpack it"},
      {root + "/page.tar", root + "/train", "page.tar: not a whole, uncompressed tar file: it is an HTML page"}};
  folder_.write("packed.tar", std::string("\x1f\x8b\x08\0", 4) + std::string(2000, 'x'));
  folder_.write("page.tar", "<html><body>Not found</body></html>" + std::string(2000, ' '));
  for (const auto& [path, evaluation, says] : rows) {
    const std::string text = test::refusal([&, p = path, e = evaluation] { open(p, e); });
    EXPECT_NE(text.find(says), std::string::npos) << text;
  }
}

/// The reader for a bucket's files, over a folder.
TEST_F(WebDatasets, AreReadFromStoragesByAnyNumberOfThreads) {
  add("a.tar", {11, 12});
  add("b.tar", {13});
  const std::string root = folder_.path().string();
  std::atomic<int> opened = 0;
  const auto shards = storage_shards([&] { return ++opened, local_storage(root); }, {"a.tar", "b.tar"});
  EXPECT_EQ(shards->name(1), root + "/b.tar");
  const std::string whole = test::read_file(root + "/a.tar");
  ASSERT_EQ(shards->size(0), static_cast<int64_t>(whole.size()));
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int64_t i = t; i < 200; ++i) {
        std::string part(40, ' ');
        shards->read(0, i * 7, part.data(), 40);
        wrong += part == whole.substr(static_cast<size_t>(i * 7), 40) ? 0 : 1;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_LE(opened, 5) << "a storage a thread";
  EXPECT_EQ(open_web_dataset(shards, {.classes = 10})->size(), 3);
}

/// Other files in a folder are reported, hidden ones too, and suffixes ignore case.
TEST_F(WebDatasets, FoldersReportTheirOtherFiles) {
  add("train/a.tar", {11, 12});
  add("train/B.TAR", {13});
  add("val/c.tar", {14});
  const std::string root = folder_.path().string();
  folder_.write("train/notes.txt", "no shard");
  folder_.write("train/d.tar.gz", "packed");
  folder_.write("train/._a.tar", "hidden");
  std::filesystem::create_directory(root + "/train/__MACOSX");
  const Datasets data = open(root, "");
  EXPECT_EQ(data.training->size(), 3);
  DataNotes beside = data.training->passed_over();
  std::sort(beside.begin(), beside.end());
  const std::string train = root + "/train/";
  EXPECT_EQ(beside, (DataNotes{train + "._a.tar (hidden)", train + "__MACOSX (no *.tar)", train + "d.tar.gz (no *.tar)",
                               train + "notes.txt (no *.tar)"}));
  EXPECT_TRUE(data.evaluation->passed_over().empty());
  add("both/x-train-0000.tar", {11});
  add("both/x-validation-0000.tar", {12});
  const std::string text = test::refusal([&] { open(root + "/both", root + "/val"); });
  EXPECT_NE(text.find("it holds 'x-train-0000.tar' for training and 'x-validation-0000.tar' for evaluation"), std::string::npos)
      << text;
  EXPECT_NE(text.find("set data.path = \"" + root + "/both/x-train-*.tar\" and data.evaluation_path = \"" + root +
                      "/both/x-validation-*.tar\""),
            std::string::npos)
      << text;
  EXPECT_EQ(test::refusal([&] { open(root + "/both/x*.tar", root + "/val"); }), text);
  const Datasets parts = open(root + "/both/x-train-*.tar", root + "/both/x-validation-*.tar");
  EXPECT_EQ(parts.training->size() + parts.evaluation->size(), 2) << "the advice, followed";
}

TEST(JsonLinesData, IsOneStreamInTwoParts) {
  const test::TempFolder folder;
  std::string rows = "{\"no\": 1}\n";
  for (int i = 0; i < 100; ++i) rows += "{\"body\": \"" + std::string(9, static_cast<char>('a' + i % 26)) + "\"}\n";
  const std::string file = folder.write("a.jsonl", rows);
  const auto open = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = {"data.path=" + file};
    all.insert(all.end(), more.begin(), more.end());
    return open_data(
        parse_recipe("model = { name = \"gpt\", context = 8 }\nbatch = { global = 1 }\nrun = { steps = 1 }\n"
                     "data = { name = \"jsonl\", column = \"body\", skip_bad = true }",
                     "r.toml", all));
  };
  const Datasets data = open({});
  EXPECT_EQ(data.evaluation->get({0}, 0).inputs[0][0][0].item<int64_t>(), 'a' + 90 % 26) << "the last tenth";
  EXPECT_TRUE(data.training->is_ordered());
  EXPECT_EQ(data.training->left_out(), DataNotes{file + ", row 1: it has no 'body'"});
  EXPECT_NE(test::refusal([&] { open({"data.skip_bad=false"}); }).find(", row 1: it has no 'body'; fix it, check data.column"),
            std::string::npos);
}

TEST(JsonLinesData, IsFilesOfAFolderOrPatternAndOthersForEvaluation) {
  const test::TempFolder folder;
  for (const char* name : {"a.jsonl", "b.jsonl", "c.jsonl", ".d.jsonl", "notes.txt"}) {
    folder.write(name, "{\"text\": \"" + std::string(40, name[0]) + "\"}\n");
  }
  const auto open = [&](const std::string& path, const std::string& evaluation, const std::string& more = "") {
    return open_data(parse_recipe(
        "model = { name = \"gpt\", context = 4 }\nbatch = { global = 1 }\nrun = { steps = 1 }\n"
        "data = { name = \"jsonl\" }" +
            more,
        "r.toml",
        {"data.path=" + folder.file(path), "data.evaluation_path=" + (evaluation.empty() ? "" : folder.file(evaluation))}));
  };
  const auto first = [](const Dataset& data) { return static_cast<char>(data.get({0}, 0).inputs[0][0][0].item<int64_t>()); };
  EXPECT_EQ(open("", "").evaluation->size(), 3) << "a tenth of three documents of 41 tokens";
  EXPECT_EQ(open("{a,b}.jsonl", "c.jsonl").evaluation->size(), 10);
  EXPECT_EQ(first(*open("{a,b}.jsonl", "?.jsonl").evaluation), 'a');
  const Datasets more = open("a.jsonl", "b.jsonl", "\n[[evaluation]]\nname = \"c\"\npath = \"" + folder.file("c.jsonl") + "\"");
  ASSERT_EQ(more.others.size(), 1u);
  EXPECT_EQ(first(*more.others[0].data), 'c');
  EXPECT_NE(test::refusal([&] { open("x*.jsonl", ""); }).find("x*.jsonl: no files (.jsonl) there"), std::string::npos);
}

TEST(PackedData, HoldsWholeDocumentsOfRowsFilesAndIds) {
  const test::TempFolder folder;
  std::string rows;
  for (int i = 0; i < 40; ++i) rows += "{\"text\": \"" + std::string(3, static_cast<char>('a' + i % 26)) + "\"}\n";
  folder.write("a.jsonl", rows);
  std::filesystem::create_directory(folder.path() / "texts");
  for (const char* name : {"texts/a", "texts/b", "texts/c"}) folder.write(name, std::string(40, 'x'));
  folder.write("ids", std::string("\1\0\1\0\1\0\7\0\2\0\2\0\2\0\7\0\3\0\3\0\3\0\7\0\4\0\4\0\4\0\7\0", 32));
  const auto open = [&](const std::string& name, const std::vector<std::string>& more) {
    std::vector<std::string> all = {"data.path=" + folder.file(name)};
    all.insert(all.end(), more.begin(), more.end());
    return open_data(
        parse_recipe("model = { name = \"gpt\", context = 9 }\nbatch = { global = 1 }\nrun = { steps = 1 }\n"
                     "data = { name = \"jsonl\", pack = \"documents\", evaluation = 0.25 }",
                     "r.toml", all));
  };
  const Datasets of_rows = open("a.jsonl", {});
  EXPECT_EQ(of_rows.training->size(), 10) << "30 rows of 3 places, three a window";
  EXPECT_EQ(of_rows.evaluation->size(), 4);
  EXPECT_EQ(of_rows.training->fullness(), "windows 100.0 % full");
  EXPECT_EQ(of_rows.evaluation->fullness(), "windows 83.3 % full");
  const Batch batch = of_rows.training->get({0}, 0);
  for (int64_t t = 0; t < 9; ++t) EXPECT_EQ(batch.inputs.at(1)[0][t].item<int64_t>(), t % 3);
  EXPECT_EQ(open("texts", {"data.name=text"}).training->size(), 10) << "of 39, 39 and 9 places: nine pieces of 9, and 3 + 3";
  const Datasets of_ids = open("ids", {"data.name=tokens", "data.tokenizer=uint16", "data.document_end=7"});
  EXPECT_EQ(of_ids.training->size(), 1);
  EXPECT_EQ(of_ids.training->fullness(), "windows 100.0 % full");
}

TEST(MixedData, TakesTextsByWeightAndEvaluatesAll) {
  const test::TempFolder folder;
  folder.write("a", std::string(900, 'a'));
  folder.write("b", std::string(4500, 'b'));
  const Recipe recipe = parse_recipe(
      "model = { name = \"gpt\", context = 8 }\nbatch = { global = 1 }\nrun = { steps = 1 }\n"
      "data = { name = \"mix\", mix = [{ name = \"text\", weight = 2 }, { name = \"text\" }] }",
      "r.toml", {"data.mix.1.path=" + folder.file("a"), "data.mix.2.path=" + folder.file("b")});
  const Datasets data = open_data(recipe);
  const Datasets a = open_data(recipe_of_part(recipe, 0)), b = open_data(recipe_of_part(recipe, 1));
  ASSERT_EQ(data.training->size(), a.training->size() + b.training->size());
  ASSERT_EQ(data.evaluation->size(), a.evaluation->size() + b.evaluation->size());
  EXPECT_TRUE(data.training->is_ordered());
  int64_t of_a = 0;
  for (int64_t i = 0; i < 300; ++i) of_a += data.training->get({i}, 0).inputs[0][0][0].item<int64_t>() == 'a' ? 1 : 0;
  EXPECT_EQ(of_a, 200);
  EXPECT_EQ(data.evaluation->get({0}, 0).inputs[0][0][0].item<int64_t>(), 'a');
  EXPECT_EQ(data.evaluation->get({data.evaluation->size() - 1}, 0).inputs[0][0][0].item<int64_t>(), 'b');
}

TEST(ArrayData, IsDividedOrInFoldersOfItsOwn) {
  const test::TempFolder folder;
  for (const auto& [name, samples] : {std::pair{"a", 20}, {"b", 6}, {"c", 4}}) {
    std::filesystem::create_directory(folder.path() / name);
    const auto zeros = [n = static_cast<size_t>(samples)](size_t each) { return std::string(n * each * 4, '\0'); };
    folder.write(std::string(name) + "/inputs.npy", test::npy_of("<f4", std::to_string(samples) + ", 3, 12", zeros(36)));
    folder.write(std::string(name) + "/targets.npy", test::npy_of("<f4", std::to_string(samples) + ", 2, 12", zeros(24)));
  }
  const auto open = [&](std::vector<std::string> more, const std::string& sections = "") {
    more.push_back("data.path=" + folder.file("a"));
    return open_data(
        parse_recipe("model = { name = \"exported\", inputs = \"arrays\", loss = \"mean_squares\", path = \"" WEFT_SOURCE
                     "/tests/exported/programs/fields.pt2\" }\nbatch = { global = 1 }\nrun = { steps = 1 }\n"
                     "data = { name = \"arrays\" }" +
                         sections,
                     "r.toml", more));
  };
  const Datasets divided = open({"data.evaluation=0.25"});
  EXPECT_EQ(divided.training->size(), 15);
  EXPECT_EQ(divided.evaluation->size(), 5);
  EXPECT_EQ(divided.training->get({2, 1}, 0).inputs.at(0).sizes().vec(), (std::vector<int64_t>{2, 3, 12}));
  const Datasets own =
      open({"data.evaluation_path=" + folder.file("b")}, "\n[[evaluation]]\nname = \"c\"\npath = \"" + folder.file("c") + "\"");
  EXPECT_EQ(own.training->size(), 20);
  EXPECT_EQ(own.evaluation->size(), 6);
  EXPECT_EQ(own.others.at(0).data->size(), 4);
}

}  // namespace
}  // namespace weft::open_data_test
