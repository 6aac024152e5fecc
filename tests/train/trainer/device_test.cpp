// All that a trainer allocates is on its device, whatever axes have size one. Seen with the meta device, which has tensors and
// no data: a start is all that it can do, and on axes of several ranks that gather weights not even that.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <barrier>
#include <ostream>

#include "tests/support/run_ranks.h"
#include "weft/base/error.h"
#include "weft/engine/memory_ledger.h"
#include "weft/models/vision.h"
#include "weft/train/trainer/trainer.h"

namespace weft::device_test {
namespace {

struct Case {
  ShardLevel level;
  std::vector<AxisSize> mesh;
};

int ranks_of(const Case& c) {
  int ranks = 1;
  for (const AxisSize& axis : c.mesh) ranks *= axis.size;
  return ranks;
}

std::string text_of(const Case& c) {
  std::string text(name(c.level));
  for (const AxisSize& axis : c.mesh) text += fmt::format("_{}{}", axis.name, axis.size);
  return text;
}

void PrintTo(const Case& c, std::ostream* out) { *out << text_of(c); }

std::vector<Case> cases() {
  const std::vector<std::vector<AxisSize>> meshes = {{{"dp", 1}},
                                                     {{"pp", 1}, {"dp", 1}, {"shard", 1}},
                                                     {{"dp", 2}, {"shard", 1}},
                                                     {{"dp", 1}, {"shard", 2}},
                                                     {{"pp", 2}},
                                                     {{"pp", 2}, {"shard", 2}},
                                                     {{"dp", 2}, {"shard", 2}}};
  std::vector<Case> all;
  for (const auto level : {ShardLevel::none, ShardLevel::optimizer, ShardLevel::gradients, ShardLevel::parameters}) {
    for (const auto& mesh : meshes) all.push_back({level, mesh});
  }
  return all;
}

/// Bytes of tensors on the CPU, of all but what collectives are staged in.
int64_t host_bytes(const MemoryLedger& ledger) {
  const CategoryBytes live = ledger.live();
  int64_t bytes = 0;
  for (size_t i = 0; i < kMemoryCategories.size(); ++i)
    bytes += i == static_cast<size_t>(MemoryCategory::communication) ? 0 : live[i];
  return bytes;
}

void expect_on_device(Trainer& trainer, at::Device device) {
  FlatModel& model = trainer.model();
  for (int b = 0; b < model.num_blocks(); ++b) {
    if (!model.holds(b)) continue;
    const FlatBlock& flat = model.flat(b);
    for (const at::Tensor& tensor : {flat.weights, flat.gradients, flat.shard, flat.master, flat.owned_gradients}) {
      EXPECT_EQ(tensor.device(), device);
    }
  }
}

/// Ranks leave together: Gloo still connects on one while another is done.
class Leave {
 public:
  explicit Leave(std::barrier<>& all) : all_(all) {}
  ~Leave() { all_.arrive_and_wait(); }
  Leave(const Leave&) = delete;
  Leave& operator=(const Leave&) = delete;

 private:
  std::barrier<>& all_;
};

class DeviceTest : public ::testing::TestWithParam<Case> {};

TEST_P(DeviceTest, HoldsAllThatATrainerAllocates) {
  std::barrier<> all(ranks_of(GetParam()));
  test::run_ranks(ranks_of(GetParam()), [&](World world) {
    MemoryLedger ledger;
    Trainer trainer(Mesh(world, GetParam().mesh), mlp({.inputs = 6, .width = 8, .layers = 2, .classes = 3}), AdamW{},
                    {.global_batch = 8,
                     .micro_batch = 2,
                     .layout = {.shard_level = GetParam().level, .precision = Precision::bf16},
                     .communication = {.backend = BackendKind::gloo, .device = at::kMeta},
                     .ledger = &ledger});
    const Leave leave(all);
    bool started = true;
    try {
      trainer.start();
    } catch (const InputError& error) {
      started = false;
      EXPECT_NE(std::string(error.what()).find("Gloo needs a CPU tensor, but this one is on meta"), std::string::npos)
          << error.what();
    }
    EXPECT_TRUE(started || world.size() > 1);
    EXPECT_EQ(host_bytes(ledger), 0);
    if (started) expect_on_device(trainer, at::kMeta);
  });
}

INSTANTIATE_TEST_SUITE_P(LevelsAndMeshes, DeviceTest, ::testing::ValuesIn(cases()),
                         [](const auto& info) { return text_of(info.param); });

TEST(Device, SharedMemoryIsNotTakenForOthersThanTheCpu) {
  test::run_ranks(2, [](World world) {
    try {
      Mesh(world, {{"dp", 2}}).group(Mesh(world, {{"dp", 2}}).axis("dp"), {.device = at::kMeta});
      ADD_FAILURE() << "nothing was thrown";
    } catch (const InputError& error) {
      EXPECT_STREQ(error.what(),
                   "group \"dp\": this build cannot move tensors of meta between ranks: for NVIDIA's GPUs configure weft with "
                   "-DWEFT_CUDA=ON; for another device call register_device_engine(); or use backend gloo, or shm on one host");
    }
  });
}

}  // namespace
}  // namespace weft::device_test
