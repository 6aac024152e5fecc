// A local folder as a storage, and unfinished checkpoints in it.
#include "weft/checkpoint/storage/local_storage.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "tests/data/temp_folder.h"
#include "tests/support/refusal.h"
#include "tests/support/wait_until.h"
#include "weft/base/stopwatch.h"
#include "weft/base/storage_error.h"
#include "weft/checkpoint/atomic_file.h"
#include "weft/checkpoint/format/checkpoint_folder.h"
#include "weft/checkpoint/storage/claim_lock.h"
#include "weft/checkpoint/storage/lock_text.h"

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
  std::shared_ptr<StorageLock> lock = one->lock({.owner = "process 1 on a"});
  EXPECT_NE(refusal([&] {
              other->lock({.owner = "process 2 on a"});
            }).find("another run saves its checkpoints there: process 1 on a"),
            std::string::npos);
  lock.reset();
  EXPECT_EQ(refusal([&] { other->lock({.owner = "process 2 on a"}); }), "");
}

TEST(LocalStorage, LockIsRetakenAfterItsFolderVanished) {
  const test::TempFolder folder;
  const std::unique_ptr<Storage> one = local_storage(folder.file("runs")), other = local_storage(folder.file("runs"));
  const std::shared_ptr<StorageLock> lock = one->lock({.owner = "process 1 on a"});
  EXPECT_FALSE(lock->keep());
  std::filesystem::remove_all(folder.file("runs"));
  EXPECT_TRUE(lock->keep());
  EXPECT_NE(refusal([&] { other->lock({.owner = "process 2 on a"}); }).find("process 1 on a"), std::string::npos);
  std::filesystem::remove_all(folder.file("runs"));
  const std::shared_ptr<StorageLock> second = other->lock({.owner = "process 2 on a"});
  EXPECT_NE(refusal([&] { lock->keep(); }).find("process 2 on a"), std::string::npos);
}

constexpr std::chrono::milliseconds kRefresh{20}, kStale{400}, kLong{60'000};

LockOptions asking(const std::string& owner) { return {.owner = owner, .refresh = kRefresh, .stale = kStale}; }

/// Text of a lock file held by a process of another machine.
std::string of_elsewhere(int64_t beats) {
  return lock_file_text(
      {.owner = "process 7 on b", .system = "another", .process = 7, .started = 1, .holds = true, .beats = beats});
}

/// Rewrites that file repeatedly while it lives.
class Elsewhere {
 public:
  explicit Elsewhere(const std::string& path) {
    write_file(path, of_elsewhere(0));  // before anybody looks
    thread_ = std::jthread([path](const std::stop_token& stop) {
      for (int64_t beats = 1; !stop.stop_requested(); ++beats) {
        write_file(path, of_elsewhere(beats));
        std::this_thread::sleep_for(kRefresh);
      }
    });
  }

 private:
  std::jthread thread_;
};

std::shared_ptr<StorageLock> claim(const test::TempFolder& folder, const LockOptions& options) {
  return std::make_shared<ClaimLock>(local_storage(folder.path().string()), options);
}

TEST(ClaimLock, IsHeldByOneRun) {
  const test::TempFolder folder;
  std::shared_ptr<StorageLock> lock = claim(folder, asking("one"));
  std::this_thread::sleep_for(kStale + kRefresh);
  EXPECT_NE(refusal([&] { claim(folder, asking("two")); }).find("another run saves its checkpoints there: one;"),
            std::string::npos);
  lock->keep();
  lock.reset();
  EXPECT_TRUE(folder.names().empty());
  EXPECT_EQ(refusal([&] { claim(folder, asking("two")); }), "");
}

TEST(ClaimLock, OneOfManyConcurrentClaimsWins) {
  const test::TempFolder folder;
  std::atomic<int> holders = 0, held = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 6; ++i) {
    threads.emplace_back([&] {
      try {
        const auto lock = claim(folder, asking("one of six"));
        EXPECT_EQ(++holders, 1);
        ++held;
        std::this_thread::sleep_for(std::chrono::milliseconds(300));
        --holders;
      } catch (const HeldError&) {
        // Another process has it.
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GE(held, 1);
}

TEST(ClaimLock, WaitsForAnotherMachineUntilItIsSilent) {
  const test::TempFolder folder;
  const std::string other = folder.file(".weft.lock-0000000000000000");
  {
    const Elsewhere lives(other);
    LockOptions options = asking("me");
    options.stale = kLong;  // on a busy machine a heartbeat may be late
    EXPECT_NE(refusal([&] { claim(folder, options); }).find("process 7 on b"), std::string::npos);
  }
  std::string reported;
  LockOptions options = asking("me");
  options.on_wait = [&](const std::string& text) { reported += text; };
  const Stopwatch waited;
  const auto lock = claim(folder, options);
  EXPECT_GE(waited.seconds(), 0.3);
  EXPECT_NE(reported.find("is held by process 7 on b, which may have ended: waiting"), std::string::npos) << reported;
  EXPECT_FALSE(std::filesystem::exists(other));
}

/// Restarted ranks may arrive before those of another host have ended.
TEST(ClaimLock, WaitsForALiveHolder) {
  const test::TempFolder folder;
  auto lives = std::make_unique<Elsewhere>(folder.file(".weft.lock-0000000000000000"));
  std::jthread ends([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    lives.reset();
  });
  LockOptions options = asking("me");
  options.patience = std::chrono::seconds(30);
  EXPECT_EQ(refusal([&] { claim(folder, options); }), "");
}

/// Having been considered dead, it neither takes the successor's lock away nor trusts its own.
TEST(ClaimLock, APausedHolderLosesTheLock) {
  const test::TempFolder folder;
  LockOptions options = asking("one");
  options.refresh = options.stale = kLong;
  const std::shared_ptr<StorageLock> lock = claim(folder, options);
  for (const std::string& name : folder.names()) std::filesystem::remove(folder.file(name));
  const std::string other = folder.file(".weft.lock-ffffffffffffffff");
  {
    const Elsewhere successor(other);
    EXPECT_NE(refusal([&] { lock->keep(); }).find("process 7 on b"), std::string::npos);
  }
  EXPECT_EQ(folder.names(), (std::vector<std::string>{".weft.lock-ffffffffffffffff"}));
}

TEST(LocalStorage, WaitsUntilAnotherMachineReleasesTheLock) {
  const test::TempFolder folder;
  const std::string path = folder.write(".weft.lock", of_elsewhere(1));
  const int held = open(path.c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_EQ(flock(held, LOCK_EX), 0);
  std::jthread server([&] {  // the server's lease of the dead host ends
    std::this_thread::sleep_for(std::chrono::milliseconds(600));
    close(held);
  });
  const auto lock = local_storage(folder.path().string())->lock(asking("me"));
  EXPECT_EQ(parse_lock_text(test::read_file(path)).owner, "me");
  const std::string before = test::read_file(path);
  EXPECT_TRUE(wait_until([&] { return test::read_file(path) != before; }, 10)) << "no sign of life";
}

/// One of two hosts may lack the other's kind of lock.
TEST(ClaimLock, AndFileSystemLocksExcludeEachOther) {
  const test::TempFolder folder;
  const auto lock = [&](const char* owner) { return local_storage(folder.path().string())->lock(asking(owner)); };
  std::shared_ptr<StorageLock> held = lock("one");
  EXPECT_NE(refusal([&] { claim(folder, asking("two")); }).find("another run saves its checkpoints there: one;"),
            std::string::npos);
  held.reset();
  folder.write(".weft.lock", "");  // as if the lock were unavailable
  held = claim(folder, asking("two"));
  EXPECT_NE(refusal([&] { lock("one"); }).find("another run saves its checkpoints there: two;"), std::string::npos);
  held.reset();
  held = lock("one");
  held->keep();
}

TEST(LocalStorage, FollowsNoLinkToALock) {
  const test::TempFolder folder;
  const std::string other = folder.write("precious", "all of it");
  std::filesystem::create_directory(folder.path() / "runs");
  std::filesystem::create_symlink(other, folder.path() / "runs/.weft.lock");
  EXPECT_NE(refusal([&] { local_storage(folder.file("runs"))->lock({.owner = "me"}); }), "");
  EXPECT_EQ(test::read_file(other), "all of it");
}

TEST(LocalStorage, DoesNotReportUnreadablePathsAsAbsent) {
  const test::TempFolder folder;
  const std::unique_ptr<Storage> storage = local_storage(folder.path().string());
  EXPECT_FALSE(storage->has("none"));
  folder.write("file", "");
  EXPECT_FALSE(storage->has("file/below"));
  EXPECT_NE(refusal([&] { storage->has(std::string(300, 'x')); }).find("cannot look for it"), std::string::npos);
}

/// A link's target belongs to another run; other things with a checkpoint's name are not weft's to remove.
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

TEST(CheckpointFolder, ADamagedIndexIsRecognizedByItsNeighbours) {
  const test::TempFolder folder;
  const std::unique_ptr<Storage> storage = local_storage(folder.path().string());
  for (const char* text : {"", "{ }", "\0\0"}) {
    complete_checkpoint(*storage, "step-00000007", {});
    storage->write_text("step-00000007/index.json", text);
    EXPECT_EQ(refusal([&] { clear_checkpoint(*storage, "step-00000007"); }), "");
    EXPECT_TRUE(storage->list("").empty());
  }
  storage->write_text("home/index.json", "{ }");
  EXPECT_NE(refusal([&] { clear_checkpoint(*storage, "home"); }).find("not a checkpoint's file"), std::string::npos);
}

TEST(CheckpointFolder, IncompleteOnesAreIgnoredAndRemoved) {
  const test::TempFolder folder;
  const std::unique_ptr<Storage> storage = local_storage(folder.path().string());
  for (const int64_t step : {20, 3, 100}) complete_checkpoint(*storage, checkpoint_name(step), {});
  storage->write_text("step-00000200/data-00000.bin", "half");
  storage->write_text("notes.txt", "mine");
  EXPECT_EQ(complete_checkpoints(*storage), (std::vector<int64_t>{3, 20, 100}));
  EXPECT_NE(refusal([&] { read_checkpoint(*storage, "step-00000200"); }).find("not a complete checkpoint"), std::string::npos);
  EXPECT_NE(refusal([&] { read_checkpoint(*storage, "nope"); }).find("/nope: no checkpoint is there"), std::string::npos);
  EXPECT_NE(refusal([&] { read_checkpoint(*storage, "notes.txt"); }).find("name the folder of a checkpoint"),
            std::string::npos);
  EXPECT_NE(refusal([&] { read_checkpoint(*storage, ""); }).find("name one of them, such as the newest, step-00000100"),
            std::string::npos);
  remove_incomplete(*storage);
  EXPECT_EQ(storage->list(""), (std::vector<std::string>{"notes.txt", "step-00000003", "step-00000020", "step-00000100"}));
  remove_checkpoint(*storage, "step-00000020");
  EXPECT_EQ(complete_checkpoints(*storage), (std::vector<int64_t>{3, 100}));
}

TEST(CheckpointFolder, HasNoMarkerBeforeAllItsFilesExist) {
  const test::TempFolder folder;
  const std::unique_ptr<Storage> storage = local_storage(folder.path().string());
  const std::string name = checkpoint_name(4);
  CheckpointIndex index;
  index.files["data-00000.bin"] = 4;
  const auto complete = [&] { complete_checkpoint(*storage, name, index, std::chrono::milliseconds(0)); };
  EXPECT_NE(refusal(complete).find("data-00000.bin: rank 0 does not see it"), std::string::npos);
  storage->write_text(name + "/data-00000.bin", "abc");
  EXPECT_NE(refusal(complete).find("data-00000.bin: rank 0 sees 3 bytes"), std::string::npos);
  EXPECT_FALSE(is_complete(*storage, name));
  std::jthread late([&] {  // as another host's file may appear
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    local_storage(folder.path().string())->write_text(name + "/data-00000.bin", "abcd");
  });
  EXPECT_EQ(refusal([&] { complete_checkpoint(*storage, name, index, std::chrono::seconds(30)); }), "");
  EXPECT_TRUE(is_complete(*storage, name));
}

TEST(CheckpointFolder, AMarkerOfTheWrongLengthIsDamage) {
  const test::TempFolder folder;
  const std::unique_ptr<Storage> storage = local_storage(folder.path().string());
  storage->write_text("step-00000004/complete.json", "{" + std::string(70'000, ' '));
  EXPECT_THROW(read_checkpoint(*storage, "step-00000004"), DamageError);
}

/// A folder given by mistake is not emptied.
TEST(CheckpointFolder, OtherFilesStay) {
  const test::TempFolder folder;
  const std::unique_ptr<Storage> storage = local_storage(folder.path().string());
  storage->write_text("home/thesis.tex", "all of it");
  EXPECT_NE(refusal([&] { clear_checkpoint(*storage, "home"); }).find("'thesis.tex', not a checkpoint's file"),
            std::string::npos);
  complete_checkpoint(*storage, "home", {});
  remove_checkpoint(*storage, "home");
  EXPECT_EQ(storage->list("home"), (std::vector<std::string>{"thesis.tex"}));
}

}  // namespace
}  // namespace weft::local_storage_test
