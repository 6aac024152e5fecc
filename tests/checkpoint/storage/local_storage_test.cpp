// A folder of this machine's as a storage, and checkpoints in it that were not finished.
#include "weft/checkpoint/storage/local_storage.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/data/temp_folder.h"
#include "tests/support/refusal.h"
#include "weft/checkpoint/format/checkpoint_folder.h"

namespace weft::local_storage_test {
namespace {

using test::refusal;

TEST(LocalStorage, WritesListsReadsAndRemoves) {
  const test::TempFolder folder;
  const std::unique_ptr<Storage> storage = local_storage(folder.file("new/runs/"));
  EXPECT_TRUE(storage->list("").empty());
  const std::unique_ptr<StorageWriter> file = storage->create("a/data");
  file->write("hello", 5);
  file->close();
  storage->write_text("a/text", "one");
  EXPECT_EQ(storage->list("a"), (std::vector<std::string>{"data", "text"}));
  EXPECT_EQ(storage->read_text("a/data", 100), "hello");
  EXPECT_NE(refusal([&] { storage->read_text("a/data", 4); }), "");
  char buffer[10];
  EXPECT_NE(refusal([&] { storage->open("a/data")->read(3, buffer, 3); }).find("it ends at byte 5"), std::string::npos);
  storage->remove("a");  // not empty
  EXPECT_TRUE(storage->has("a/data"));
  storage->remove("a/data");
  storage->remove("a/text");
  storage->remove("a");
  storage->remove("a");
  EXPECT_TRUE(storage->list("").empty());
}

TEST(LocalStorage, IsHeldByOneRun) {
  const test::TempFolder folder;
  const std::unique_ptr<Storage> one = local_storage(folder.path().string()), other = local_storage(folder.path().string());
  std::shared_ptr<StorageLock> lock = one->lock("process 1 on a");
  EXPECT_NE(refusal([&] { other->lock("process 2 on a"); }).find("another run saves its checkpoints there: process 1 on a"),
            std::string::npos);
  lock.reset();
  EXPECT_EQ(refusal([&] { other->lock("process 2 on a"); }), "");
}

TEST(LocalStorage, IsTakenAnewWhereItsFolderVanished) {
  const test::TempFolder folder;
  const std::unique_ptr<Storage> one = local_storage(folder.file("runs")), other = local_storage(folder.file("runs"));
  const std::shared_ptr<StorageLock> lock = one->lock("process 1 on a");
  lock->keep();
  std::filesystem::remove_all(folder.file("runs"));
  lock->keep();
  EXPECT_NE(refusal([&] { other->lock("process 2 on a"); }).find("process 1 on a"), std::string::npos);
  std::filesystem::remove_all(folder.file("runs"));
  const std::shared_ptr<StorageLock> second = other->lock("process 2 on a");
  EXPECT_NE(refusal([&] { lock->keep(); }).find("process 2 on a"), std::string::npos);
}

TEST(LocalStorage, FollowsNoLinkToALock) {
  const test::TempFolder folder;
  const std::string other = folder.write("precious", "all of it");
  std::filesystem::create_directory(folder.path() / "runs");
  std::filesystem::create_symlink(other, folder.path() / "runs/.weft.lock");
  EXPECT_NE(refusal([&] { local_storage(folder.file("runs"))->lock("me"); }), "");
  EXPECT_EQ(test::read_file(other), "all of it");
}

TEST(LocalStorage, TellsNothingAbsentThatItCannotSee) {
  const test::TempFolder folder;
  const std::unique_ptr<Storage> storage = local_storage(folder.path().string());
  EXPECT_FALSE(storage->has("none"));
  folder.write("file", "");
  EXPECT_FALSE(storage->has("file/below"));
  EXPECT_NE(refusal([&] { storage->has(std::string(300, 'x')); }).find("cannot tell whether it is there"), std::string::npos);
}

/// What a link leads to is another run's; what only has a checkpoint's name is nobody's to remove.
TEST(CheckpointFolder, LinksAndOtherThingsAreLeftAlone) {
  const test::TempFolder folder;
  const std::unique_ptr<Storage> other = local_storage(folder.file("other")), storage = local_storage(folder.file("runs"));
  for (const int64_t step : {1, 2}) complete_checkpoint(*other, checkpoint_name(step), {});
  other->write_text("step-00000003/data-00000.bin", "half");
  complete_checkpoint(*storage, checkpoint_name(9), {});
  for (const char* name : {"step-00000001", "step-00000003"}) {
    std::filesystem::create_directory_symlink(folder.path() / "other" / name, folder.path() / "runs" / name);
  }
  folder.write("runs/step-00000005", "a file");
  remove_incomplete(*storage);
  EXPECT_TRUE(other->has("step-00000003/data-00000.bin"));
  EXPECT_TRUE(storage->has("step-00000005"));
  remove_checkpoint(*storage, "step-00000001");
  EXPECT_TRUE(other->has("step-00000001/complete.json"));
  EXPECT_FALSE(storage->is_link("step-00000001"));
  clear_checkpoint(*storage, "step-00000003");
  EXPECT_TRUE(other->has("step-00000003/data-00000.bin"));
}

TEST(CheckpointFolder, ADamagedIndexIsKnownByWhatIsBesideIt) {
  const test::TempFolder folder;
  const std::unique_ptr<Storage> storage = local_storage(folder.path().string());
  for (const char* text : {"", "{ }", "\0\0"}) {
    complete_checkpoint(*storage, "step-00000007", {});
    storage->write_text("step-00000007/index.json", text);
    EXPECT_EQ(refusal([&] { clear_checkpoint(*storage, "step-00000007"); }), "");
    EXPECT_TRUE(storage->list("").empty());
  }
  storage->write_text("home/index.json", "{ }");
  EXPECT_NE(refusal([&] { clear_checkpoint(*storage, "home"); }).find("which is of no checkpoint"), std::string::npos);
}

TEST(CheckpointFolder, WhatIsNotWholeIsNoneAndGoes) {
  const test::TempFolder folder;
  const std::unique_ptr<Storage> storage = local_storage(folder.path().string());
  for (const int64_t step : {20, 3, 100}) complete_checkpoint(*storage, checkpoint_name(step), {});
  storage->write_text("step-00000200/data-00000.bin", "half");
  storage->write_text("notes.txt", "mine");
  EXPECT_EQ(complete_checkpoints(*storage), (std::vector<int64_t>{3, 20, 100}));
  EXPECT_NE(refusal([&] { read_checkpoint(*storage, "step-00000200"); }).find("no checkpoint"), std::string::npos);
  remove_incomplete(*storage);
  EXPECT_EQ(storage->list(""), (std::vector<std::string>{"notes.txt", "step-00000003", "step-00000020", "step-00000100"}));
  remove_checkpoint(*storage, "step-00000020");
  EXPECT_EQ(complete_checkpoints(*storage), (std::vector<int64_t>{3, 100}));
}

/// A folder that somebody named by mistake is not emptied.
TEST(CheckpointFolder, OtherFilesStay) {
  const test::TempFolder folder;
  const std::unique_ptr<Storage> storage = local_storage(folder.path().string());
  storage->write_text("home/thesis.tex", "all of it");
  EXPECT_NE(refusal([&] { clear_checkpoint(*storage, "home"); }).find("'thesis.tex', which is of no checkpoint"),
            std::string::npos);
  complete_checkpoint(*storage, "home", {});
  remove_checkpoint(*storage, "home");
  EXPECT_EQ(storage->list("home"), (std::vector<std::string>{"thesis.tex"}));
}

}  // namespace
}  // namespace weft::local_storage_test
