// Images in tar files: samples from a shard's members, their places, and the errors of bad shards and keys.
#include "weft/data/images/web_dataset.h"

#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "tests/data/expect_input_error.h"
#include "tests/data/images/image_files.h"
#include "tests/data/tar_file.h"
#include "tests/data/temp_folder.h"
#include "weft/data/images/image_set.h"

namespace weft::web_dataset_test {
namespace {

using Members = std::vector<std::pair<std::string, std::string>>;
using Names = DataNotes;

/// Image of one colour, which identifies it.
std::string picture(int colour) { return test::png_of(test::Pixels(8 * 8 * 3, static_cast<uint8_t>(colour)), 8, 8, 3); }

int colour_of(const ImageSource& source, int64_t index) {
  return source.decode(index, [](int64_t h, int64_t w) { return Crop{0, 0, h, w, h, w}; }).picture.pixels[0];
}

class WebShards : public ::testing::Test {
 protected:
  /// Opens shards with these bytes, "0.tar", "1.tar", ...
  std::shared_ptr<ImageSource> open(const std::vector<std::string>& shards, BadData bad = BadData::refuse) const {
    std::vector<std::string> paths;
    for (size_t i = 0; i < shards.size(); ++i) paths.push_back(folder_.write(std::to_string(i) + ".tar", shards[i]));
    return open_web_dataset(local_shards(paths), {.classes = 10, .bad = bad});
  }

  test::TempFolder folder_;
};

TEST_F(WebShards, MembersOfAKeyAreASample) {
  const std::string jpeg = test::jpeg_of(test::Pixels(16 * 16 * 3, 200), 16, 16, 3);
  const auto source = open({test::tar_of({{"a/1.cls", "7\n"},
                                          {"a/1.png", picture(11)},
                                          {"README", "no sample"},
                                          {"a/.hidden.png", "no sample"},
                                          {"b/1.JPEG", jpeg},
                                          {"b/1.json", "{}"},
                                          {"b/1.cls", " 0"}}),
                            test::tar_of({{"a/1.png", picture(33)}, {"a/1.cls", "9"}})});
  ASSERT_EQ(source->size(), 3);
  EXPECT_EQ(source->label(0) * 100 + source->label(1) * 10 + source->label(2), 709);
  EXPECT_EQ(colour_of(*source, 2), 33);
  EXPECT_EQ(colour_of(*source, 0), 11);
  EXPECT_NEAR(colour_of(*source, 1), 200, 3);
  EXPECT_EQ(source->name(1), folder_.file("0.tar") + ", key b/1");
  EXPECT_TRUE(source->left_out().empty());
  const std::string tar = folder_.file("0.tar");
  EXPECT_EQ(source->passed_over(),
            (Names{tar + ": a/.hidden.png (hidden)", tar + ": README (no .jpg, .jpeg, .jfif, .png or .cls)",
                   tar + ": b/1.json (no .jpg, .jpeg, .jfif, .png or .cls)"}));
}

/// As in the library webdataset: a key ends at the first dot.
TEST_F(WebShards, DotsInNamesMakeFieldsOfOneKey) {
  const auto source = open({test::tar_of({{"v1.0/n0_1.v1.0.png", picture(11)},
                                          {"v1.0/n0_1.v1.0.cls", "1"},
                                          {"2.png", picture(22)},
                                          {"2.seg.png", picture(0)},
                                          {"2.CLS", "2"},
                                          {"./3.JFIF", test::jpeg_of(test::Pixels(16 * 16 * 3, 200), 16, 16, 3)},
                                          {"./3.cls", "3"},
                                          {"4.mask.png", picture(0)}})});
  ASSERT_EQ(source->size(), 3);
  EXPECT_EQ(source->label(0) * 100 + source->label(1) * 10 + source->label(2), 123);
  EXPECT_EQ(colour_of(*source, 0) * 100 + colour_of(*source, 1), 1122);
  const std::string tar = folder_.file("0.tar");
  EXPECT_EQ(source->name(0), tar + ", key v1.0/n0_1");
  EXPECT_EQ(source->passed_over(),
            (Names{tar + ", key 2.seg.png (another field is used)", tar + ", key 4.mask.png (no image with a label)"}));
}

TEST_F(WebShards, HiddenMembersAndBytesAfterTheEndMarkAreListedAndNotRead) {
  const std::string good = test::tar_of({{"1.png", picture(11)}, {"1.cls", "1"}});
  Members members = {{"._2.png", "x"}, {"__MACOSX/2.png", picture(2)}, {".ipynb_checkpoints/3.png", picture(3)}};
  members.insert(members.end(), {{"1.png", picture(11)}, {"1.cls", "1"}});
  const auto source = open({test::tar_of(members), good + good, good + std::string(9 * 512, '\0')});
  ASSERT_EQ(source->size(), 3);
  const std::string tar = folder_.file("0.tar");
  EXPECT_EQ(
      source->passed_over(),
      (Names{fmt::format("{}: {} bytes (after its end mark, perhaps another tar file)", folder_.file("1.tar"), good.size()),
             tar + ": ._2.png (hidden)", tar + ": .ipynb_checkpoints/3.png (hidden)", tar + ": __MACOSX/2.png (hidden)"}));
}

TEST_F(WebShards, FirstSkippedMembersAreNamedAndAllCounted) {
  Members members = {{"1.png", picture(11)}, {"1.cls", "1"}};
  for (int i = 29; i >= 0; --i) members.push_back({fmt::format("{:02}.json", i), "{}"});
  const DataNotes notes = open({test::tar_of(members)})->passed_over();
  ASSERT_EQ(notes.size(), 21U);
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(notes[i].text, fmt::format("{}: {:02}.json (no .jpg, .jpeg, .jfif, .png or .cls)", folder_.file("0.tar"), i));
  }
  EXPECT_EQ(notes.back().text,
            fmt::format("10 more, after {}: 19.json (no .jpg, .jpeg, .jfif, .png or .cls)", folder_.file("0.tar")));
  EXPECT_EQ(count_of(notes), 30);
}

/// The bytes of a link are another member's, or outside the shard.
TEST_F(WebShards, LinksAreListedAndNotFollowed) {
  for (const char kind : {'1', '2'}) {
    const std::string good_members = test::tar_member("0.png", picture(1)) + test::tar_member("0.cls", "1");
    const std::string end(2 * test::kTarBlock, '\0'), tar = folder_.file("0.tar");
    const std::string alone = good_members + test::tar_member("0.txt", "", kind) + end,
                      image = good_members + test::tar_member("1.png", "", kind) + test::tar_member("1.cls", "2") + end,
                      label = good_members + test::tar_member("1.png", picture(2)) + test::tar_member("1.cls", "", kind) + end;
    EXPECT_EQ(open({alone})->passed_over(), Names{tar + ": 0.txt (a link)"});
    const std::string advice = " is a link; put the file itself there (tar --dereference --hard-dereference), or set";
    test::expect_input_error([&] { open({image}); }, {"key 1: a .cls without an image", ", and its .png" + advice});
    test::expect_input_error([&] { open({label}); }, {"key 1: no .cls for its image, and its .cls" + advice});
    EXPECT_EQ(open({image}, BadData::skip)->passed_over(), Names{tar + ": 1.png (a link)"});
  }
  test::expect_input_error(
      [&] {
        open({test::tar_of({{"._1.png", "x"}, {"._1.cls", "1"}})});
      },
      {"no image with a label", "passed over: 2, the first ", "._1.cls (hidden)"});
}

/// Larger than the blocks that headers are read in, so that bytes are skipped; in name order, labels first.
TEST_F(WebShards, FindsManyLargeMembers) {
  Members members;
  for (int i = 0; i < 60; ++i) {
    const std::string key = fmt::format("{:04}", i);
    members.push_back({key + ".cls", std::to_string(i % 10)});
    members.push_back({key + ".bin", std::string(static_cast<size_t>(1000 * i), 'x')});
    members.push_back({key + ".png", picture(4 * i)});
  }
  const auto source = open({test::tar_of(members)});
  ASSERT_EQ(source->size(), 60);
  for (int i = 59; i >= 0; --i) {
    EXPECT_EQ(source->label(i), i % 10);
    EXPECT_EQ(colour_of(*source, i), 4 * i);
  }
}

/// Written by the tar command, with names too long for the old format and whole-file padding.
TEST_F(WebShards, ReadsFilesOfTheTarCommand) {
  const std::string key(180, 'k');
  for (const std::string format : {"ustar", "gnu", "pax"}) {
    const std::string inner = format == "ustar" ? "short" : key;
    folder_.write(inner + ".png", picture(55));
    folder_.write(inner + ".cls", "3");
    const std::string tar = folder_.file(format + ".tar");
    const std::string command = "cd " + folder_.path().string() + " && tar --format=" + format + " -cf " + format + ".tar " +
                                inner + ".cls " + inner + ".png";
    ASSERT_EQ(std::system(command.c_str()), 0) << command;
    const auto source = open_web_dataset(local_shards({tar}), {.classes = 10});
    ASSERT_EQ(source->size(), 1) << format;
    EXPECT_EQ(colour_of(*source, 0) * 10 + source->label(0), 553) << format;
    EXPECT_EQ(source->name(0), tar + ", key " + inner);
  }
}

TEST_F(WebShards, BadSamplesAreNamedOrSkipped) {
  const std::pair<std::string, std::string> image = {"good.png", picture(1)}, label = {"good.cls", "1"};
  struct Row {
    const char* what;
    Members members;
    std::string says;
  };
  const std::vector<Row> rows = {
      {"no label", {{"bad.png", picture(2)}}, ", key bad: no .cls for its image"},
      {"no image", {{"bad.cls", "2"}}, ", key bad: a .cls without an image (.jpg, .jpeg, .jfif, .png)"},
      {"another kind",
       {{"bad.WebP", "RIFF"}, {"bad.cls", "2"}},
       ", key bad: its image is .webp, which is not read (.jpg, .jpeg, .jfif, .png are)"},
      {"two with dots",
       {{"bad.1.png", picture(2)}, {"bad.1.cls", "1"}, {"bad.2.png", picture(2)}, {"bad.2.cls", "1"}},
       ", key bad: it has 2 images, as 1.png and 2.png: what follows the first dot of a member's name is its field"},
      {"text", {{"bad.png", picture(2)}, {"bad.cls", "cat"}}, ", key bad: its .cls is not a number"},
      {"a half number", {{"bad.png", picture(2)}, {"bad.cls", "1.5"}}, ", key bad: its .cls is not a number"},
      {"empty", {{"bad.png", picture(2)}, {"bad.cls", ""}}, ", key bad: its .cls is not a number"},
      {"long", {{"bad.png", picture(2)}, {"bad.cls", std::string(100, '1')}}, ", key bad: its .cls is not a number"},
      {"too large", {{"bad.png", picture(2)}, {"bad.cls", "10"}}, ", key bad: label 10 is not in [0, 10)"},
      {"negative", {{"bad.png", picture(2)}, {"bad.cls", "-1"}}, ", key bad: label -1 is not in [0, 10)"},
      {"twice",
       {{"bad.png", picture(2)}, {"bad.cls", "1"}, {"bad.jpg", "x"}},
       ", key bad: it appears twice in the shard, or with two images or labels"},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.what);
    Members members = row.members;
    members.insert(members.begin(), {image, label});
    const std::string shard = test::tar_of(members);
    test::expect_input_error([&] { open({shard}); }, {"0.tar" + row.says, "or set data.skip_bad = true"});
    const auto source = open({shard}, BadData::skip);
    EXPECT_EQ(source->size(), 1);
    EXPECT_EQ(source->left_out(), Names{folder_.file("0.tar") + row.says});
  }
}

TEST_F(WebShards, TruncatedShardsAreNamed) {
  const Members first = {{"0.png", picture(1)}, {"0.cls", "1"}};
  const std::string whole = test::tar_of({first[0], first[1], {"1.png", picture(2)}, {"1.cls", "2"}});
  const size_t of_first = test::tar_member("0.png", picture(1)).size() + test::tar_member("0.cls", "1").size();
  const size_t of_image = test::tar_member("1.png", picture(2)).size();
  struct Row {
    size_t bytes;
    const char* says;
  };
  for (const Row& row : {Row{of_first + 530, "it ends within 1.png"}, Row{of_first, "it has no end mark"},
                         Row{of_first + 100, "runcated"}, Row{of_first + of_image, "it has no end mark"}}) {
    SCOPED_TRACE(row.bytes);
    test::expect_input_error([&] { open({whole.substr(0, row.bytes)}); },
                             {"0.tar: not a whole, uncompressed tar", row.says, "get it again, or set data.skip_bad = true"});
    const auto source = open({whole.substr(0, row.bytes)}, BadData::skip);
    EXPECT_EQ(source->size(), 1);
    EXPECT_EQ(source->left_out().size(), row.bytes == of_first + of_image ? 2u : 1u) << "the image without its .cls too";
  }
  EXPECT_EQ(open({whole})->size(), 2);
  for (const std::string& bytes : {std::string("no tar"), std::string(), std::string("\x1f\x8b gzip")}) {
    test::expect_input_error([&] { open({bytes}); }, {"0.tar: not a whole, uncompressed tar file"});
    test::expect_input_error([&] { open({bytes}, BadData::skip); },
                             {"0.tar", "no image with a label", "left out: 1, the first "});
  }
  test::expect_input_error([&] { local_shards({folder_.file("none.tar")}); }, {"none.tar", "No such file"});
}

TEST_F(WebShards, AnImageThatCannotBeDecodedIsNamedByShardAndKey) {
  const auto source = open({test::tar_of({{"x.png", picture(1).substr(0, 50)}, {"x.cls", "1"}})});
  test::expect_input_error([&] { open_image_set(source, {})->get({0}, 0); },
                           {"0.tar, key x: not a whole PNG image", "or set data.skip_bad = true"});
  std::filesystem::resize_file(folder_.file("0.tar"), 540);
  test::expect_input_error([&] { open_image_set(source, {.bad = BadSample::replace})->get({0}, 0); },
                           {"0.tar: truncated while in use"});
}

}  // namespace
}  // namespace weft::web_dataset_test
