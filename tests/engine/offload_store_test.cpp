#include "weft/engine/offload_store.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <functional>

#include "tests/data/expect_input_error.h"
#include "tests/data/temp_folder.h"
#include "weft/base/scratch_file.h"
#include "weft/engine/host_store.h"

namespace weft {
namespace {

using test::expect_input_error;
using test::TempFolder;

/// A disk that is full after `bytes`: files of this process may not grow further.
class FullDisk {
 public:
  explicit FullDisk(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit full{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &full);
  }
  ~FullDisk() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;

 private:
  void (*handler_)(int);
  rlimit before_{};
};

struct Kind {
  const char* name;
  std::function<std::unique_ptr<OffloadStore>(const std::string& folder)> make;
};

class OffloadStoreTest : public ::testing::TestWithParam<Kind> {
 protected:
  TempFolder folder;
  std::unique_ptr<OffloadStore> store = GetParam().make(folder.path().string());
};

TEST_P(OffloadStoreTest, ReloadsWhatWasPut) {
  const std::vector<at::Tensor> all = {
      at::randn({64}), at::randn({3, 5, 7}), at::arange(11, at::kLong), at::randn({64}).to(at::kBFloat16),
      at::randn({0}),  at::randn({100000})};
  std::vector<int> rooms;
  for (const at::Tensor& tensor : all) rooms.push_back(store->reserve(static_cast<int64_t>(tensor.nbytes())));
  for (int round = 0; round < 2; ++round) {  // a buffer is used every step
    for (size_t i = 0; i < all.size(); ++i) store->put(rooms[i], all[i].add(round));
    for (size_t i = all.size(); i-- > 0;) {
      const at::Tensor back = at::full(all[i].sizes(), 99, all[i].options());
      store->get(rooms[i], back);
      EXPECT_TRUE(at::equal(back, all[i].add(round))) << "tensor " << i;
    }
  }
}

TEST_P(OffloadStoreTest, APlaceStartsWithZerosAndTakesFewerBytesToo) {
  const int room = store->reserve(64 * 4);
  const at::Tensor all = at::full({64}, 99.0), few = at::full({5, 3}, 99.0).to(at::kHalf);
  store->get(room, all);
  EXPECT_TRUE(all.eq(0.0).all().item<bool>());
  store->put(room, few);
  const at::Tensor back = at::zeros_like(few);
  store->get(room, back);
  EXPECT_TRUE(at::equal(back, few));
}

TEST_P(OffloadStoreTest, FillsALeafWithoutMovingItsVersion) {
  const int room = store->reserve(16);
  store->put(room, at::full({4}, 2.0));
  const at::Tensor leaf = at::full({4}, 1.0).requires_grad_(true);
  const auto version = leaf._version();
  store->get(room, leaf);
  EXPECT_TRUE(leaf.detach().eq(2.0).all().item<bool>());
  EXPECT_EQ(leaf._version(), version);
}

TEST_P(OffloadStoreTest, ReleasedSpaceIsReused) {
  std::vector<std::pair<int, at::Tensor>> kept;
  for (int round = 0; round < 40; ++round) {
    const int64_t numel = 1 + 37 * round % 29;
    const int room = store->reserve(numel * 4);
    kept.emplace_back(room, at::full({numel}, 1.0 * round));
    store->put(room, kept.back().second);
    if (kept.size() < 5) continue;
    const auto oldest = kept.begin() + round % 4;
    store->release(oldest->first);
    kept.erase(oldest);
    for (const auto& [other, expected] : kept) {
      const at::Tensor back = at::zeros_like(expected);
      store->get(other, back);
      EXPECT_TRUE(at::equal(back, expected)) << "round " << round << ": one of " << expected.numel() << " was written over";
    }
  }
}

TEST_P(OffloadStoreTest, ReportsSpaceThatIsNotThereAndGoesOn) {
  const int room = store->reserve(64);
  store->put(room, at::full({16}, 3.0));
  expect_input_error([&] { store->reserve(int64_t{1} << 60); }, {"no room for", "PiB"});
  const int other = store->reserve(64);
  store->put(other, at::full({16}, 4.0));
  const at::Tensor back = at::full({16}, 0.0);
  store->get(room, back);
  EXPECT_TRUE(back.eq(3.0).all().item<bool>());
}

INSTANTIATE_TEST_SUITE_P(Kinds, OffloadStoreTest,
                         ::testing::Values(Kind{"host", [](const std::string&) { return host_offload(); }},
                                           Kind{"disk", [](const std::string& folder) { return disk_offload(folder); }}),
                         [](const auto& info) { return info.param.name; });

TEST(DiskStore, LeavesNoFileInItsFolder) {
  const TempFolder folder;
  {
    const auto store = disk_offload(folder.path().string());
    store->put(store->reserve(4096), at::full({1024}, 1.0));
    EXPECT_TRUE(folder.names().empty()) << folder.names()[0] << " would stay behind after a kill";
  }
  EXPECT_TRUE(folder.names().empty());
}

TEST(DiskStore, TwoInOneFolderDoNotMeet) {
  const TempFolder folder;
  const auto one = disk_offload(folder.path().string()), other = disk_offload(folder.path().string());
  const int first = one->reserve(16), second = other->reserve(16);
  one->put(first, at::full({4}, 1.0));
  other->put(second, at::full({4}, 2.0));
  const at::Tensor back = at::full({4}, 0.0);
  one->get(first, back);
  EXPECT_TRUE(back.eq(1.0).all().item<bool>());
}

TEST(DiskStore, ReportsAMissingOrInvalidFolder) {
  const TempFolder folder;
  const std::string missing = folder.file("missing"), file = folder.write("file", "x");
  expect_input_error([&] { disk_offload(missing); }, {missing, "No such file", "another folder"});
  expect_input_error([&] { disk_offload(file); }, {file, "Not a directory"});
  expect_input_error([&] { disk_offload(""); }, {"No such file"});
}

TEST(DiskStore, AFullDiskIsReportedBeforeAnythingIsWrittenAndStoredDataStays) {
  const TempFolder folder;
  const auto store = disk_offload(folder.path().string());
  const int room = store->reserve(4096);
  store->put(room, at::full({1024}, 7.0));
  {
    const FullDisk full(1 << 20);
    expect_input_error([&] { store->reserve(2 << 20); }, {folder.path().string(), "no room for 2.00 MiB", "File too large"});
    store->put(store->reserve(4096), at::full({1024}, 8.0));  // still fits
  }
  const at::Tensor back = at::full({1024}, 0.0);
  store->get(room, back);
  EXPECT_TRUE(back.eq(7.0).all().item<bool>());
  store->reserve(2 << 20);  // space is free again
}

TEST(ScratchFile, GrowsByReservedBytes) {
  const TempFolder folder;
  ScratchFile file(folder.path().string());
  EXPECT_EQ(file.reserve(100), 0);
  EXPECT_EQ(file.reserve(0), 100);
  EXPECT_EQ(file.reserve(7), 100);
  EXPECT_EQ(file.size(), 107);
  char last = 'x';
  file.read(106, &last, 1);
  EXPECT_EQ(last, 0);
  EXPECT_THROW(file.read(106, &last, 2), Error) << "past the end";
}

TEST(ScratchFile, FillsItsHolesBeforeItGrows) {
  const TempFolder folder;
  ScratchFile file(folder.path().string());
  for (int i = 0; i < 6; ++i) EXPECT_EQ(file.reserve(10), 10 * i);
  file.release(30, 10);
  file.release(10, 10);
  EXPECT_EQ(file.reserve(11), 60) << "no hole is large enough";
  file.release(20, 10);  // joins both: [10, 40)
  EXPECT_EQ(file.reserve(25), 10);
  EXPECT_EQ(file.reserve(5), 35);
  file.release(60, 11);
  EXPECT_EQ(file.reserve(100), 60) << "the hole at the end grows";
  EXPECT_EQ(file.size(), 160);
  file.release(0, 10);
  file.release(50, 10);
  EXPECT_EQ(file.reserve(4), 0);
  EXPECT_EQ(file.reserve(6), 4) << "the smallest that is large enough";
  EXPECT_EQ(file.reserve(10), 50);
  EXPECT_EQ(file.size(), 160);
}

TEST(ScratchFile, TakesNoMoreThanTheMostAtATime) {
  const TempFolder folder;
  ScratchFile file(folder.path().string());
  for (int64_t length = 1; length <= 100; ++length) {
    std::vector<int64_t> rooms;
    for (int i = 0; i < 10; ++i) rooms.push_back(file.reserve(length));
    for (const int64_t room : rooms) file.release(room, length);
  }
  EXPECT_EQ(file.size(), 1000);
}

}  // namespace
}  // namespace weft
