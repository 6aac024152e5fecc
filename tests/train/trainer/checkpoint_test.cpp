// A Trainer's saves and loads beyond the bits that resume_test compares: the caller's own state, errors, the cost of a save,
// and completeness.
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <chrono>
#include <future>
#include <nlohmann/json.hpp>

#include "tests/data/temp_folder.h"
#include "tests/support/refusal.h"
#include "tests/support/run_ranks.h"
#include "tests/train/jobs.h"
#include "tests/train/one_batch.h"
#include "tests/train/weights_of.h"
#include "weft/base/error.h"
#include "weft/checkpoint/format/checkpoint_folder.h"
#include "weft/checkpoint/format/compare_checkpoints.h"
#include "weft/checkpoint/format/index_json.h"
#include "weft/checkpoint/format/saved_checkpoint.h"
#include "weft/checkpoint/storage/open_storage.h"
#include "weft/models/gpt.h"

namespace weft::checkpoint_test {
namespace {

using namespace std::chrono_literals;
using test::refusal;
using test::TempFolder;
using test::weights_of;

Model small(int64_t width = 16) {
  return gpt({.layers = 2, .heads = 2, .width = width, .context = 8, .vocabulary = 13, .dropout = 0.1});
}

TrainerOptions options(const LayoutOptions& layout = {}) {
  return {.global_batch = kGlobalBatch, .micro_batch = 1, .layout = layout};
}

Batch batch(int64_t step) { return job("gpt").batch_of(step); }

Trainer alone(const LayoutOptions& layout = {}, const OptimizerOptions& optimizer = AdamW{}) {
  return Trainer(Mesh(World(), {{"shard", 1}}), small(), optimizer, options(layout));
}

TEST(Checkpoint, StateOfTheCallersOwnIsTheSameOnAllRanks) {
  const TempFolder folder;
  struct Case {
    int rank;
    int64_t size;
    std::string text;
  };
  for (const Case& c : {Case{1, 2, "rank 1 has 'more', rank 0 does not; register the same on all ranks"},
                        Case{0, 2, "rank 0 has 'more', rank 1 does not"}, Case{-1, 0, ""}}) {
    test::run_ranks(2, [&](World world) {
      Trainer trainer(Mesh(world, {{"dp", 2}}), small(), AdamW{}, options());
      trainer.register_state("ema", {.tensors = {{"w", at::zeros({2})}}});
      if (world.rank() == c.rank) trainer.register_state("more", {.tensors = {{"w", at::zeros({c.size})}}});
      const std::string path = folder.file(std::to_string(c.rank));
      const std::string said = refusal([&] { trainer.save(path); });
      EXPECT_EQ(said.empty(), c.text.empty()) << said;
      EXPECT_NE(said.find(c.text), std::string::npos) << said;
      trainer.step(slice(batch(0), world.rank() * 6, 6));
    });
  }
}

TEST(Checkpoint, HasStateOfTheCallersOwn) {
  const TempFolder folder;
  const at::Tensor average = at::arange(7, at::kFloat);
  Trainer one = alone();
  one.register_state("ema", {.tensors = {{"w", average}}});
  one.register_state("notes", {.save = [] { return "line one\nline \"two\""; }});
  one.register_state("counts", {.save = [] { return R"({"seen":3})"; }});
  one.step(batch(0));
  one.save(folder.file("a"));
  EXPECT_NE(refusal([&] { one.register_state("ema", {}); }).find("already registered"), std::string::npos);

  const at::Tensor there = at::zeros({7});
  std::string notes, counts;
  Trainer other = alone();
  other.register_state("ema", {.tensors = {{"w", there}}});
  other.register_state("notes", {.load = [&](const std::string& text) { notes = text; }});
  other.register_state("counts", {.load = [&](const std::string& text) { counts = text; }});
  EXPECT_EQ(other.load(folder.file("a")).step, 1);
  EXPECT_TRUE(at::equal(there, average));
  EXPECT_EQ(notes, "line one\nline \"two\"");
  EXPECT_EQ(counts, R"({"seen":3})");
  EXPECT_EQ(other.steps_done(), 1);
  EXPECT_EQ(other.loader_options().first_step, 1);
}

TEST(Checkpoint, SkipsNothingInSilence) {
  const TempFolder folder;
  Trainer one = alone();
  one.register_state("ema", {.tensors = {{"w", at::zeros({2})}}});
  one.save(folder.file("a"));
  const auto load = [&](Trainer& trainer) { return refusal([&] { trainer.load(folder.file("a")); }); };
  Trainer without = alone();
  EXPECT_NE(load(without).find("'registered/ema/w' of the checkpoint is not in the model"), std::string::npos) << load(without);
  Trainer sgd = alone({}, Sgd{.momentum = 0.9});
  EXPECT_NE(load(sgd).find("a: the optimizer differs: the checkpoint's keeps 'exp_avg', 'exp_avg_sq' per weight, this one's "
                           "'momentum_buffer'; load it with the optimizer it was saved with"),
            std::string::npos)
      << load(sgd);
  Trainer wide(Mesh(World(), {{"shard", 1}}), small(32), AdamW{}, options());
  EXPECT_NE(load(wide).find("model.width is 16 there, 32 here, and "), std::string::npos) << load(wide);
  EXPECT_NE(refusal([&] { wide.load(folder.file("a"), {.strict = false}); }).find("none of the model's"), std::string::npos);
  // Half loaded, it does nothing else until it is loaded whole.
  EXPECT_THROW(without.step(batch(0)), Error);
  const LoadReport report = without.load(folder.file("a"), {.strict = false});
  EXPECT_EQ(report.skipped, (std::vector<std::string>{"tensor 'registered/ema/w' of the checkpoint is not in the model"}));
  without.step(batch(0));
}

/// Every index entry of a step's state: without it, or with another value, the load is refused or differs.
TEST(Checkpoint, MissesNothingThatTheNextStepReads) {
  const TempFolder folder;
  Trainer one = alone({.precision = Precision::fp16});
  for (int step = 0; step < 3; ++step) one.step(batch(step));
  one.save(folder.file("a"));
  one.step(batch(3));
  const auto expected = weights_of(one);
  const std::string index = test::read_file(folder.file("a/index.json"));
  const auto goes_on_with = [&](const nlohmann::ordered_json& json) {
    const std::unique_ptr<Storage> storage = open_storage(folder.path().string());
    complete_checkpoint(*storage, "a", parse_index(json.dump(), "test"));
    Trainer other = alone({.precision = Precision::fp16});
    other.load(folder.file("a"));
    const StepResult result = other.step(batch(static_cast<int>(other.steps_done())));
    std::map<std::string, at::Tensor> found = weights_of(other);
    const bool same =
        std::all_of(expected.begin(), expected.end(), [&](const auto& e) { return at::equal(found.at(e.first), e.second); });
    return same && other.loss_scale().skipped_steps == one.loss_scale().skipped_steps &&
           other.loss_scale().good_steps == one.loss_scale().good_steps && other.steps_done() == one.steps_done() &&
           result.count > 0;
  };
  const auto good = nlohmann::ordered_json::parse(index);
  EXPECT_TRUE(goes_on_with(good));
  for (const auto& [path, value] : std::vector<std::pair<std::string, nlohmann::ordered_json>>{
           {"/clock/step", -5}, {"/clock/step", 1.5}, {"/clock/step", uint64_t{1} << 62}, {"/trainer/loss_scale/scale", 0.0}}) {
    nlohmann::ordered_json absurd = good;
    absurd[nlohmann::ordered_json::json_pointer(path)] = value;
    EXPECT_THROW(goes_on_with(absurd), InputError) << path << value;
  }
  const std::vector<std::string> numbers = {"/clock/step", "/trainer/loss_scale/scale", "/trainer/loss_scale/good_steps",
                                            "/trainer/loss_scale/skipped_steps"};
  for (const std::string& path : numbers) {
    const nlohmann::ordered_json::json_pointer at(path);
    nlohmann::ordered_json other = good, without = good;
    other[at] =
        other[at].is_number_float() ? nlohmann::ordered_json(4.0) : nlohmann::ordered_json(other[at].get<int64_t>() + 5);
    EXPECT_FALSE(goes_on_with(other)) << path;
    without[at.parent_pointer()].erase(at.back());
    EXPECT_THROW(goes_on_with(without), InputError) << path;
  }
  for (const std::string state : {"model", "exp_avg", "exp_avg_sq"}) {
    nlohmann::ordered_json without = good;
    const auto tensor = without["tensors"].find(state + "/h.1.mlp.c_fc.weight");
    ASSERT_NE(tensor, without["tensors"].end()) << state;
    without["tensors"].erase(tensor);
    EXPECT_THROW(goes_on_with(without), InputError) << state;
  }
}

TEST(Checkpoint, FailsOnAllRanksAndLeavesWhatWasThere) {
  const TempFolder folder;
  test::run_ranks(2, [&](World world) {
    Trainer trainer(Mesh(world, {{"dp", 2}}), small(), AdamW{}, options());
    trainer.save(folder.file("good"));
    // A folder of something else: rank 0 finds it, both say so.
    if (world.rank() == 0) {
      std::filesystem::create_directory(folder.path() / "home");
      folder.write("home/thesis.tex", "all of it");
    }
    EXPECT_THROW(trainer.save(folder.file("home")), Error);
    trainer.step(slice(batch(0), world.rank() * 6, 6));
    const std::string of_none = test::failure([&] { trainer.save(world.rank() == 1 ? "zz://none/x" : folder.file("x")); });
    EXPECT_NE(of_none.find("zz"), std::string::npos) << of_none;
    EXPECT_THROW(trainer.save(folder.file("good")), Error);  // a kill meanwhile would lose it
    trainer.save(folder.file("good"), {.replace = true});
    EXPECT_EQ(trainer.load(folder.file("good")).step, 1);
  });
  EXPECT_EQ(test::read_file(folder.file("home/thesis.tex")), "all of it");
  EXPECT_EQ(SavedCheckpoint(folder.file("good")).index().files.size(), 2u);
}

TEST(Checkpoint, WaitsNoLongerThanAStepForARankThatDoesNotSave) {
  const TempFolder folder;
  for (const bool in_background : {false, true}) {
    std::promise<void> told;
    std::shared_future<void> end = told.get_future().share();
    test::run_ranks(2, [&](World world) {
      Trainer trainer(Mesh(world, {{"dp", 2}}), small(), AdamW{},
                      {.global_batch = kGlobalBatch, .micro_batch = 1, .communication = {.timeout = 500ms}});
      trainer.start();
      if (world.rank() == 1) return end.wait();  // alive, and busy with something else
      std::string why;
      try {
        in_background ? trainer.save_in_background(folder.file("a")) : static_cast<void>(trainer.save(folder.file("a")));
      } catch (const CommError& error) {
        why = error.what();
      }
      EXPECT_NE(why.find("rank 1 has reported nothing for 0.5 s while rank 0 waited for it, saving"), std::string::npos) << why;
      told.set_value();
    });
  }
}

TEST(Checkpoint, ThatIsThereAlreadyIsRefusedAndUntouched) {
  const TempFolder folder;
  const auto train = [&] {
    test::run_ranks(2, [&](World world) {
      Trainer trainer(Mesh(world, {{"shard", 2}}), small(), AdamW{},
                      {.global_batch = kGlobalBatch, .micro_batch = kGlobalBatch / 2});
      trainer.step(slice(batch(0), world.rank() * kGlobalBatch / 2, kGlobalBatch / 2));
      trainer.save(folder.file("a"));
    });
  };
  train();
  std::string said;
  try {
    train();
  } catch (const std::exception& error) {
    said = error.what();
  }
  EXPECT_NE(said.find("it already is a checkpoint"), std::string::npos) << said;
  SavedCheckpoint(folder.file("a")).check();
}

TEST(Checkpoint, ALoaderOfOtherSamplesIsRefused) {
  const auto samples = std::make_shared<OneBatch>(batch(0));
  Trainer trainer = alone();
  Loader loader(samples, Sampler(samples->size(), {}), trainer.loader_options());
  trainer.step(loader);
  trainer.step(loader);
  Loader late(samples, Sampler(samples->size(), {}), {.global_batch = kGlobalBatch, .micro_batch = 1});
  EXPECT_NE(refusal([&] { trainer.step(late); }).find("the loader is at the samples of step 1, but step 3 is next"),
            std::string::npos);
  trainer.step(loader);
}

TEST(Checkpoint, OfARankThatCannotReadItIsRefusedOnAll) {
  const TempFolder folder;
  test::run_ranks(2, [&](World world) {
    Trainer trainer(Mesh(world, {{"shard", 2}}), small(), AdamW{}, options({.shard_level = ShardLevel::parameters}));
    trainer.save(folder.file("a"));
    trainer.save(folder.file("b"));
    trainer.finish_save();
    if (world.rank() == 0) {
      std::string bytes = test::read_file(folder.file("a/data-00001.bin"));
      bytes[bytes.size() / 2] ^= 1;
      folder.write("a/data-00001.bin", bytes);
    }
    std::string why;
    try {
      trainer.world_group().barrier("test").wait();
      trainer.load(folder.file("a"));
    } catch (const InputError& error) {
      why = error.what();
    }
    EXPECT_NE(why.find("data-00001.bin: damaged in tensor '"), std::string::npos) << why;
    EXPECT_EQ(trainer.load(folder.file("b")).step, 0);
    trainer.step(slice(batch(0), world.rank() * 6, 6));
  });
}

TEST(Checkpoint, IsTheSameFromEveryLayout) {
  const TempFolder folder;
  const auto save = [&](const std::string& name, int ranks, const std::vector<AxisSize>& axes, const LayoutOptions& layout) {
    test::run_ranks(ranks, [&](World world) {
      Trainer trainer(Mesh(world, axes), small(), AdamW{}, options(layout));
      trainer.save(folder.file(name));
    });
  };
  save("one", 1, {{"dp", 1}}, {});
  save("dp4", 4, {{"dp", 4}}, {});
  save("shard3", 3, {{"shard", 3}}, {.shard_level = ShardLevel::parameters});
  save("tp2", 2, {{"tp", 2}}, {});
  SavedCheckpoint one(folder.file("one"));
  for (const std::string name : {"dp4", "shard3", "tp2"}) {
    SavedCheckpoint other(folder.file(name));
    EXPECT_TRUE(compare_checkpoints(one, other).differences.empty()) << name;
  }
  // Ranks that own the same state write a share each.
  const CheckpointIndex dp4 = SavedCheckpoint(folder.file("dp4")).index();
  for (const auto& [file, bytes] : dp4.files) EXPECT_LT(bytes, dp4.bytes() / 3) << file;
}

TEST(Checkpoint, GivesWeightsToOtherModels) {
  const TempFolder folder;
  Trainer one = alone();
  one.step(batch(0));
  one.save(folder.file("a"));
  SavedCheckpoint saved(folder.file("a"));
  std::vector<NamedTensor> weights = read_weights(saved);
  save_safetensors(folder.file("w.safetensors"), weights);
  for (NamedTensor& t : weights) t.name = "model." + t.name;
  weights.push_back({"extra", at::zeros({1})});
  save_safetensors(folder.file("named.safetensors"), weights);
  const std::string names = folder.write("names.json", R"({"model.*": "*"})");
  const auto expected = weights_of(one);
  test::run_ranks(2, [&](World world) {
    Trainer other(Mesh(world, {{"shard", 2}}), small(), AdamW{}, options({.shard_level = ShardLevel::parameters}));
    EXPECT_TRUE(other.load_weights(folder.file("w.safetensors")).unused.empty());
    for (const auto& [name, value] : weights_of(other)) EXPECT_TRUE(at::equal(value, expected.at(name))) << name;
    EXPECT_EQ(other.load_weights(folder.file("named.safetensors"), {.names = WeightNames::from_file(names)}).unused,
              (std::vector<std::string>{"extra"}));
    EXPECT_NE(refusal([&] { other.load_weights(folder.file("named.safetensors")); }).find("it has no '"), std::string::npos);
  });
}

TEST(Checkpoint, TakesTheDocumentedMemory) {
  const TempFolder folder;
  for (const Offload offload : {Offload::none, Offload::host}) {
    MemoryLedger ledger;
    TrainerOptions with = options({.shard_level = ShardLevel::parameters, .offload_optimizer = offload});
    with.ledger = &ledger;
    Trainer trainer(Mesh(World(), {{"shard", 1}}), small(), AdamW{}, with);
    trainer.step(batch(0));
    trainer.save_in_background(folder.file("a"), {.replace = true});
    trainer.finish_save();
    const auto saving = ledger.peak()[static_cast<size_t>(MemoryCategory::saving)];
    const int64_t state = SavedCheckpoint(folder.file("a")).index().bytes();
    EXPECT_EQ(saving, offload == Offload::none ? state : 0);
  }
}

}  // namespace
}  // namespace weft::checkpoint_test
