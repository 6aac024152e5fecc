// A folder of this machine's as a storage, and checkpoints in it that were not finished.
#include "weft/checkpoint/storage/local_storage.h"

#include <gtest/gtest.h>

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
  std::shared_ptr<void> lock = one->lock("process 1 on a");
  EXPECT_NE(refusal([&] { other->lock("process 2 on a"); }).find("another run saves its checkpoints there: process 1 on a"),
            std::string::npos);
  lock.reset();
  EXPECT_EQ(refusal([&] { other->lock("process 2 on a"); }), "");
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
