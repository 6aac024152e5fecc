// Runs that save, are stopped or killed, and resume, through the command; rejected input; output of `weft checkpoint`.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/cli/training.h"
#include "tests/support/wait_until.h"

namespace weft::checkpoint_test {
namespace {

constexpr const char* kRecipe = R"(
model = { name = "gpt", layers = 2, heads = 2, width = 16, context = 16 }
data = { name = "text" }
batch = { global = 16, micro = 2 }
optimizer = { lr = 1e-3, clip = 1.0 }
run = { steps = 20, evaluate_every = 5, threads = 1, reproducible_slots = 4, timeout_s = 20 }
)";

using Words = std::vector<std::string>;

class Checkpoints : public TrainingTest {
 protected:
  Checkpoints() : TrainingTest(kRecipe) {}

  std::string runs() const { return (folder_ / "runs").string(); }

  Words saving(Words more) const {
    more.insert(more.end(), {"--set", "save.folder=" + runs(), "--summary", (folder_ / "summary.json").string()});
    return train(more);
  }
  nlohmann::json summary() const { return nlohmann::json::parse(read_text(folder_ / "summary.json")); }
  std::string weights() const { return summary()["weights_sha256"]; }

  /// Summary of a run that is not interrupted.
  std::string undisturbed() {
    EXPECT_EQ(run_weft(train({"--summary", (folder_ / "summary.json").string()})).status, 0);
    return weights();
  }
  bool has(int step) const {
    return std::filesystem::exists(folder_.path() / "runs" / ("step-0000000" + std::to_string(step)) / "complete.json");
  }
  void expect_line(const CommandResult& result, const std::string& part) const {
    EXPECT_EQ(result.status, 1);
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    EXPECT_NE(result.err.find(part), std::string::npos) << result.err;
  }
};

TEST_F(Checkpoints, ResumeAfterSigtermInAnotherLayout) {
  const std::string expected = undisturbed();
  const pid_t pid = start_weft(saving({"-n", "2", "--set", "save.every=2 steps", "--set", "run.steps=100000"}), folder_.path());
  ASSERT_TRUE(wait_until([&] { return has(4); }, 30));
  kill(pid, SIGTERM);
  EXPECT_EQ(wait_for(pid, 30), 75);
  const int64_t stopped = summary()["steps_done"];
  EXPECT_TRUE(summary()["stopped"]);
  EXPECT_NE(read_text(folder_ / "out").find("stopped as requested"), std::string::npos);
  const CommandResult on = run_weft(saving({"-n", "4", "--set", "layout.pp=2", "--set", "layout.shard_level=gradients", "--set",
                                            "run.steps=" + std::to_string(stopped + 3)}));
  EXPECT_EQ(on.status, 0) << on.err;
  EXPECT_EQ(summary()["resumed_from"], stopped);
  EXPECT_EQ(summary()["saves"], 1);
  // From the start in as many steps: decay is constant, so the length of the run has no effect.
  EXPECT_EQ(run_weft(train({"--set", "run.steps=" + std::to_string(stopped + 3), "--summary", (folder_ / "one.json").string()}))
                .status,
            0);
  EXPECT_EQ(weights(), nlohmann::json::parse(read_text(folder_ / "one.json"))["weights_sha256"]);
}

constexpr const char* kSays = "weft: Ctrl-C: saving, then ending; a second one ends it at once\n";

/// Also if a parent has blocked all signals, and if the same command cannot resume.
TEST_F(Checkpoints, CtrlCSavesAsSigtermDoes) {
  const Words counts[] = {{}, {"-n", "2", "--resume", "none"}};
  for (const Words& words : counts) {
    Words all = words;
    all.insert(all.end(), {"--set", "save.every=2 steps", "--set", "run.steps=100000"});
    const pid_t pid = start_weft(saving(all), folder_.path(), {.prepare = [] {
                                   sigset_t signals;
                                   sigfillset(&signals);
                                   sigprocmask(SIG_SETMASK, &signals, nullptr);
                                 }});
    ASSERT_TRUE(wait_until([&] { return has(2); }, 30));
    kill(pid, SIGINT);
    EXPECT_EQ(wait_for(pid, 30), 75);
    EXPECT_EQ(read_text(folder_ / "err"), kSays);
    EXPECT_TRUE(summary()["stopped"]);
    const std::string says =
        words.empty() ? "the same command continues" : "the same command with --resume auto (instead of none) continues";
    EXPECT_NE(read_text(folder_ / "out").find("stopped as requested, and saved: " + says + "\n"), std::string::npos)
        << read_text(folder_ / "out");
    if (!words.empty())
      expect_line(run_weft(saving(all)), "which is not the one to resume from; --resume auto resumes from it");
    std::filesystem::remove_all(runs());
  }
}

TEST_F(Checkpoints, ASecondCtrlCEndsAtOnceAndReportsWhatIsLost) {
  // Slow steps, so that the second signal comes before the first one has taken effect.
  const pid_t pid = start_weft(
      saving({"--set", "batch.global=1024", "--set", "batch.micro=256", "--set", "run.evaluate_every=0"}), folder_.path());
  ASSERT_TRUE(wait_until([&] { return read_text(folder_ / "out").find("step ") != std::string::npos; }, 30));
  kill(pid, SIGINT);
  ASSERT_TRUE(wait_until([&] { return read_text(folder_ / "err") == kSays; }, 30));
  kill(pid, SIGSTOP);
  std::this_thread::sleep_for(std::chrono::milliseconds(220));
  kill(pid, SIGINT);
  kill(pid, SIGCONT);
  EXPECT_EQ(wait_for(pid, 30), 128 + SIGINT);
  const std::string err = read_text(folder_ / "err");
  EXPECT_TRUE(err.starts_with(std::string(kSays) + "weft: ended by Ctrl-C after step ")) << err;
  EXPECT_TRUE(err.ends_with("; nothing is saved (save.folder and save.every keep checkpoints)\n")) << err;
}

TEST_F(Checkpoints, WithoutAFolderCtrlCReportsWhatIsLost) {
  for (const Words& words : {Words{}, Words{"-n", "2"}}) {
    Words all = train({"--set", "run.steps=100000"});
    all.insert(all.end(), words.begin(), words.end());
    const pid_t pid = start_weft(all, folder_.path());
    ASSERT_TRUE(wait_until([&] { return read_text(folder_ / "out").find("step ") != std::string::npos; }, 30));
    kill(pid, SIGINT);
    EXPECT_EQ(wait_for(pid, 30), 128 + SIGINT);
    const std::string err = read_text(folder_ / "err");
    EXPECT_TRUE(err.starts_with("weft: ended by Ctrl-C after step ")) << err;
    EXPECT_TRUE(err.ends_with("; nothing is saved (save.folder and save.every keep checkpoints)\n")) << err;
  }
}

/// Like a closing terminal.
TEST_F(Checkpoints, AreSavedEvenIfNobodyReadsTheLog) {
  const pid_t pid = start_weft(saving({"--set", "save.every=2 steps", "--set", "run.steps=100000"}), folder_.path(),
                               {.prepare = [] { redirect("/dev/full", STDOUT_FILENO); }});
  ASSERT_TRUE(wait_until([&] { return has(2); }, 30));
  kill(pid, SIGHUP);
  EXPECT_EQ(wait_for(pid, 30), 75);
  EXPECT_TRUE(read_text(folder_ / "err").starts_with("weft: cannot write to standard output: "));
}

/// The first checkpoint is still being copied when the deadline passes.
TEST_F(Checkpoints, ASlowUploadIsNotWaitedFor) {
  const std::string upload = (folder_ / "upload").string();
  const pid_t pid =
      start_weft(saving({"-n", "2", "--set", "save.every=2 steps", "--set", "run.steps=100000", "--set", "save.deadline_s=10",
                         "--set", "save.upload=" + upload}),
                 folder_.path(), {.environment = {{"LD_PRELOAD", WEFT_SLOW_FOLDER}, {"WEFT_SLOW_BELOW", upload}}});
  ASSERT_TRUE(wait_until([&] { return has(2); }, 30));
  const auto asked = std::chrono::steady_clock::now();
  kill(pid, SIGTERM);
  EXPECT_EQ(wait_for(pid, 30), 75) << read_text(folder_ / "err");
  EXPECT_LT(seconds_since(asked), 9.0);
  EXPECT_EQ(read_text(folder_ / "err"), "");
  const std::string out = read_text(folder_ / "out");
  EXPECT_NE(out.find("asked to end: checkpoints from step 2 on are not copied to " + upload + "\n"), std::string::npos) << out;
  EXPECT_FALSE(std::filesystem::exists(folder_ / "upload/step-00000002/complete.json"));
}

TEST_F(Checkpoints, AreKeptByTheRules) {
  EXPECT_EQ(
      run_weft(saving({"--set", "save.every=2 steps", "--set", "save.keep=2", "--set", "save.keep_every=8 steps"})).status, 0);
  const CommandResult list = run_weft({"checkpoint", "list", runs()});
  Words steps;
  std::istringstream in(list.out);
  for (std::string line; std::getline(in, line);) steps.push_back(line.substr(0, line.find(' ')));
  EXPECT_EQ(steps, (Words{"step-00000008", "step-00000016", "step-00000018", "step-00000020"})) << list.out;
  EXPECT_NE(list.out.find("evaluation loss"), std::string::npos);
}

TEST_F(Checkpoints, OfAnotherRunAreRefusedInOneLine) {
  ASSERT_EQ(run_weft(saving({"--set", "run.steps=4"})).status, 0);
  expect_line(run_weft(saving({"-n", "2", "--set", "optimizer.lr=2e-3", "--set", "run.seed=9"})),
              "it belongs to another run: optimizer.lr was 0.001, is 0.002; run.seed was 1, is 9");
  expect_line(run_weft(saving({"--resume", "none"})), "already holds a checkpoint after step 4");
  expect_line(run_weft(saving({"--resume", (folder_ / "nothing").string()})), "no checkpoint is there");
  const CommandResult anyway = run_weft(saving({"--resume-anyway", "--set", "optimizer.lr=2e-3"}));
  EXPECT_EQ(anyway.status, 0) << anyway.err;
  EXPECT_NE(anyway.out.find("optimizer.lr was 0.001, is 0.002"), std::string::npos) << anyway.out;
  EXPECT_EQ(summary()["resumed_from"], 4);
}

/// Nothing fits a different model, and results on other evaluation data are not compared.
TEST_F(Checkpoints, ResumedAnywayMustFit) {
  ASSERT_EQ(run_weft(saving({"--set", "run.steps=10"})).status, 0);
  expect_line(run_weft(saving({"--resume-anyway", "--set", "model.width=32"})),
              "has a match in name and shape, so it belongs to another model");
  const auto best = [&](const Words& more) {
    Words words = saving({"--resume-anyway", "--set", "optimizer.lr=0.5", "--set", "run.steps=15"});
    words.insert(words.end(), more.begin(), more.end());
    const CommandResult on = run_weft(words);
    EXPECT_EQ(on.status, 0) << on.err;
    return summary()["best"]["loss"]["step"].get<int64_t>();
  };
  EXPECT_EQ(best({"--set", "save.on_end=false"}), 10) << "such a large rate does not improve it";
  EXPECT_EQ(best({"--set", "save.on_end=false", "--set", "data.evaluation=0.3"}), 15);
}

TEST_F(Checkpoints, ADamagedOneIsSkippedAndReported) {
  const std::string expected = undisturbed();
  ASSERT_EQ(run_weft(saving({"-n", "2", "--set", "save.every=4 steps", "--set", "run.steps=12"})).status, 0);
  const auto hurt = [this](const std::string& name) {
    const std::filesystem::path file = folder_.path() / "runs" / name;
    std::string bytes = read_text(file);
    ASSERT_FALSE(bytes.empty()) << name;
    bytes[bytes.size() / 2] ^= 4;
    std::ofstream(file, std::ios::binary) << bytes;
  };
  hurt("step-00000012/data-00001.bin");
  const CommandResult verify = run_weft({"checkpoint", "verify", runs()});
  expect_line(verify, "data-00001.bin: damaged in tensor '");
  const CommandResult on = run_weft(saving({"-n", "1"}));
  EXPECT_EQ(on.status, 0) << on.err;
  EXPECT_NE(on.out.find("step-00000012/data-00001.bin: damaged"), std::string::npos) << on.out;
  EXPECT_NE(on.out.find("resuming from " + runs() + "/step-00000008, after step 8 of 20"), std::string::npos) << on.out;
  EXPECT_EQ(weights(), expected);
  // A damaged index does not prevent later saves.
  std::ofstream(folder_.path() / "runs/step-00000020/index.json") << "";
  const CommandResult again = run_weft(saving({"--set", "save.every=4 steps"}));
  EXPECT_EQ(again.status, 0) << again.err;
  EXPECT_NE(again.out.find("skipped: " + runs() + "/step-00000020/index.json"), std::string::npos) << again.out;
  EXPECT_EQ(weights(), expected);
  for (const std::string name : {"step-00000012", "step-00000016", "step-00000020"}) hurt(name + "/data-00000.bin");
  expect_line(run_weft(saving({"--set", "run.steps=30"})), "no checkpoint is left to resume from");
}

TEST_F(Checkpoints, OneWhoseNameIsNotItsStepIsSkipped) {
  ASSERT_EQ(run_weft(saving({"--set", "save.every=10 steps"})).status, 0);
  std::filesystem::copy(runs() + "/step-00000010", runs() + "/step-00000090");
  const CommandResult on = run_weft(saving({"--set", "run.steps=21"}));
  EXPECT_NE(on.out.find("step-00000090: it was saved after step 10, which differs from its name"), std::string::npos) << on.out;
  EXPECT_EQ(summary()["resumed_from"], 20);
}

/// The last step is done; an evaluation and a save remain.
TEST_F(Checkpoints, ALateSignalIsNoFailure) {
  const pid_t pid = start_weft(
      saving({"-n", "2", "--set", "run.steps=3", "--set", "data.evaluation=0.5", "--set", "save.on_end=true"}), folder_.path());
  ASSERT_TRUE(wait_until([&] { return read_text(folder_ / "out").find("step 3/3") != std::string::npos; }, 30));
  kill(pid, SIGTERM);
  const int status = wait_for(pid, 30);
  EXPECT_TRUE(status == 0 || status == 75) << status << read_text(folder_ / "err");
  const CommandResult on = run_weft(saving({"--set", "run.steps=3", "--set", "data.evaluation=0.5"}));
  EXPECT_EQ(on.status, 0) << on.err;
  EXPECT_EQ(summary()["resumed_from"], 3);
  EXPECT_TRUE(summary()["evaluation"].is_object()) << "the rest was done on resuming";
}

TEST_F(Checkpoints, TwoRunsDoNotShareAFolder) {
  const pid_t pid = start_weft(saving({"--set", "run.steps=100000", "--set", "save.every=2 steps"}), folder_.path());
  ASSERT_TRUE(wait_until([&] { return has(2); }, 30));
  expect_line(run_weft(saving({"-n", "2"})), "another run saves its checkpoints there: process " + std::to_string(pid));
  kill(pid, SIGTERM);
  EXPECT_EQ(wait_for(pid, 30), 75);
}

/// Ranks started by something else may each have a different recipe or working folder.
TEST_F(Checkpoints, RanksWithDifferentFoldersAreRefused) {
  const struct {
    const char* folders[2];
    const char* said;
  } table[] = {{{"one", "two"}, "save.folder"},
               {{"", "two"}, "save.folder"},
               {{"one", ""}, "save.folder"},
               {{"runs", "runs"}, "save.folder runs is not the same folder on all ranks"}};
  for (const auto& row : table) {
    const std::string port = free_port();
    const TemporaryFolder places[2];
    pid_t ranks[2];
    for (int r = 0; r < 2; ++r) {
      ranks[r] = start_rank(train({"--set", std::string("save.folder=") + row.folders[r]}), places[r].path(), r, 2, port);
    }
    for (int r = 0; r < 2; ++r) {
      EXPECT_EQ(wait_for(ranks[r], 60.0), 1) << row.said;
      EXPECT_NE(read_text(places[r] / "err").find(row.said), std::string::npos) << read_text(places[r] / "err");
      const std::filesystem::path folder = places[r] / row.folders[r];
      EXPECT_FALSE(std::filesystem::exists(folder / "step-00000020")) << row.said;
    }
  }
}

TEST_F(Checkpoints, AreListedComparedAndExported) {
  ASSERT_EQ(run_weft(saving({"-n", "2", "--set", "save.every=10 steps"})).status, 0);
  const std::string a = runs() + "/step-00000010", b = runs() + "/step-00000020", file = (folder_ / "w.safetensors").string();
  EXPECT_NE(run_weft({"checkpoint", "show", a}).out.find("model/wte.weight"), std::string::npos);
  EXPECT_EQ(run_weft({"checkpoint", "diff", b, runs()}).status, 0);
  const CommandResult diff = run_weft({"checkpoint", "diff", a, b});
  EXPECT_EQ(diff.status, 3);
  EXPECT_NE(diff.out.find("model/wte.weight: "), std::string::npos);
  EXPECT_EQ(run_weft({"checkpoint", "average", a, b, "-o", file}).status, 0);
  EXPECT_EQ(run_weft({"checkpoint", "export", b, file}).status, 0);
  // Exported weights are loaded again, as the starting point of a run that trains nothing.
  ASSERT_EQ(run_weft(train({"--set", "model.weights=" + file, "--set", "run.steps=1", "--set", "optimizer.lr=1e-30", "--set",
                            "optimizer.weight_decay=0", "--summary", (folder_ / "one.json").string()}))
                .status,
            0);
  EXPECT_EQ(nlohmann::json::parse(read_text(folder_ / "one.json"))["weights_sha256"], weights());
  expect_line(run_weft({"checkpoint", "show", folder_.path().string()}), "no checkpoint is there");
  expect_line(run_weft({"checkpoint", "list", a}), "this is a checkpoint");
  std::filesystem::remove(a + "/complete.json");
  expect_line(run_weft({"checkpoint", "show", a}), "incomplete");
}

/// Checks settings that shapes do not show; parameters that need another shape can keep their random values.
TEST_F(Checkpoints, GiveWeightsToMatchingModels) {
  const std::string file = (folder_ / "w.safetensors").string(), step = runs() + "/step-00000001";
  ASSERT_EQ(run_weft(saving({"--set", "run.steps=1", "--save", file})).status, 0);
  const auto start_from = [&](const std::string& weights, Words more) {
    more.insert(more.end(), {"--set", "model.weights=" + weights, "--set", "run.steps=1"});
    return run_weft(train(more));
  };
  const std::string exported = (folder_ / "e.safetensors").string(), mean = (folder_ / "m.safetensors").string();
  ASSERT_EQ(run_weft({"checkpoint", "export", step, exported}).status, 0);
  ASSERT_EQ(run_weft({"checkpoint", "average", step, step, "-o", mean}).status, 0);
  for (const std::string& weights : {file, step, exported, mean}) {
    expect_line(start_from(weights, {"--set", "model.heads=4"}), weights + ": model.heads is 2 there, 4 here");
  }
  expect_line(start_from(file, {"--set", "model.vocabulary=300"}), "model.vocabulary is 256 there, 300 here");
  const CommandResult result =
      start_from(file, {"--set", "model.vocabulary=300", "--set", "model.weights_skip=wte.*, lm_head.*"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_NE((result.out + result.err).find("left random by model.weights_skip: 'lm_head.weight', 'wte.weight'"),
            std::string::npos)
      << result.out << result.err;
  expect_line(start_from(file, {"--set", "model.weights_skip=head.*"}), "'head.*' matches no parameter of model 'gpt'");
}

TEST_F(Checkpoints, KeepTheAverageOfTheWeights) {
  const std::string file = (folder_ / "average.safetensors").string(), exported = (folder_ / "exported.safetensors").string();
  const Words ema = {"--set", "optimizer.ema=0.9"};
  const auto with = [&](Words more) {
    more.insert(more.end(), ema.begin(), ema.end());
    return more;
  };
  ASSERT_EQ(run_weft(train(with({"--summary", (folder_ / "summary.json").string(), "--save", file}))).status, 0);
  const std::string expected = summary()["average_sha256"];
  // Stopped and resumed in another layout: same result, and the checkpoint exports what --save wrote.
  ASSERT_EQ(run_weft(saving(with({"-n", "2", "--set", "run.steps=7"}))).status, 0);
  ASSERT_EQ(run_weft(saving(with({"-n", "2", "--set", "layout.shard_level=parameters"}))).status, 0);
  EXPECT_EQ(summary()["resumed_from"], 7);
  EXPECT_EQ(summary()["average_sha256"], expected);
  ASSERT_EQ(run_weft({"checkpoint", "export", runs(), exported, "--ema"}).status, 0);
  EXPECT_EQ(read_text(exported), read_text(file));
  ASSERT_EQ(run_weft({"checkpoint", "export", runs(), exported}).status, 0);
  EXPECT_NE(read_text(exported), read_text(file));
  expect_line(run_weft(saving({"--set", "run.steps=21"})), "it belongs to another run: optimizer.ema was 0.9, is 0;");
}

TEST_F(Checkpoints, WithoutAnAverageStartOneAndSaySo) {
  ASSERT_EQ(run_weft(saving({"--set", "run.steps=4"})).status, 0);
  expect_line(run_weft({"checkpoint", "export", runs(), (folder_ / "a.safetensors").string(), "--ema"}),
              "it has no average of the weights; its run did not set optimizer.ema");
  expect_line(run_weft(saving({"--set", "optimizer.ema=0.9", "--set", "run.steps=6"})), "optimizer.ema was 0, is 0.9;");
  const CommandResult on = run_weft(saving({"--set", "optimizer.ema=0.9", "--set", "run.steps=6", "--resume-anyway"}));
  EXPECT_EQ(on.status, 0) << on.err;
  EXPECT_NE((on.out + on.err).find("it has no average of the weights; the average starts from its weights"), std::string::npos)
      << on.out << on.err;
}

/// Process number of that rank of a launcher, once it runs.
pid_t rank_of(pid_t launcher, int number) {
  const std::string want = "RANK=" + std::to_string(number);
  std::ifstream in("/proc/" + std::to_string(launcher) + "/task/" + std::to_string(launcher) + "/children");
  for (pid_t child = 0; in >> child;) {
    const std::string environment = read_text("/proc/" + std::to_string(child) + "/environ");
    std::istringstream entries(environment);
    for (std::string entry; std::getline(entries, entry, '\0');) {
      if (entry == want) return child;
    }
  }
  return -1;
}

TEST_F(Checkpoints, RanksThatDieRestartFromMemory) {
  const std::string expected = undisturbed();
  Words words = saving({"-n", "2", "--restarts", "5", "--set", "save.memory_every=1", "--set", "save.every=1000 steps"});
  const pid_t pid = start_weft(words, folder_.path());
  int killed = 0;
  for (const int rank : {0, 1}) {
    const auto said = [&] { return read_text(folder_ / "out"); };
    const size_t before = said().size();
    ASSERT_TRUE(wait_until([&] { return said().find("evaluation after step", before) != std::string::npos; }, 30)) << said();
    const pid_t victim = rank_of(pid, rank);
    if (victim > 0 && kill(victim, SIGKILL) == 0) ++killed;
  }
  EXPECT_EQ(wait_for(pid, 60), 0) << read_text(folder_ / "err");
  EXPECT_EQ(weights(), expected);
  const std::string out = read_text(folder_ / "out"), err = read_text(folder_ / "err");
  EXPECT_NE(err.find("killed by signal 9"), std::string::npos) << err;
  EXPECT_NE(err.find("; restart 1 of 5"), std::string::npos) << err;
  EXPECT_NE(err.find("weft: after step "), std::string::npos) << err;
  EXPECT_NE(out.find("resuming from the snapshot in memory"), std::string::npos) << out;
  EXPECT_EQ(killed, 2);
}

/// The run is asked to stop while the state is only in memory and no rank runs, or none listens yet.
TEST_F(Checkpoints, ASnapshotIsSavedWhenTheRunIsStoppedBetweenTwoStarts) {
  const std::string expected = undisturbed();
  const pid_t pid = start_weft(saving({"-n", "2", "--restarts", "9", "--set", "save.memory_every=1"}), folder_.path());
  const auto said = [&](const char* name, const char* words) {
    return read_text(folder_ / name).find(words) != std::string::npos;
  };
  ASSERT_TRUE(wait_until([&] { return said("out", "evaluation after step"); }, 30));
  pid_t last = -1;
  const auto in_pause = [&] {
    const pid_t victim = rank_of(pid, 1);
    if (victim > 0 && victim != last) kill(last = victim, SIGKILL);
    return said("err", " in 500 ms");
  };
  ASSERT_TRUE(wait_until(in_pause, 30)) << read_text(folder_ / "err");
  kill(pid, SIGTERM);
  EXPECT_EQ(wait_for(pid, 30), 75) << read_text(folder_ / "err");
  EXPECT_TRUE(said("err", "weft: SIGTERM: the state after step ")) << read_text(folder_ / "err");
  EXPECT_TRUE(said("out", "stopped as requested, and saved: the same command continues")) << read_text(folder_ / "out");
  EXPECT_GT(summary()["steps_done"], 0);
  EXPECT_EQ(run_weft(saving({})).status, 0);
  EXPECT_GT(summary()["resumed_from"], 0);
  EXPECT_EQ(weights(), expected);
}

TEST_F(Checkpoints, ARecurringFaultEndsTheRun) {
  // The data file is missing for the ranks, so each start fails in the same way.
  std::filesystem::rename(folder_ / "text", folder_ / "moved");
  const CommandResult result = run_weft(saving({"-n", "2", "--restarts", "9"}));
  EXPECT_EQ(result.status, 1);
  EXPECT_NE(result.err.find("it failed 3 times after step 0 without progress"), std::string::npos) << result.err;
}

TEST_F(Checkpoints, SnapshotsNeedALauncherThatRestarts) {
  expect_line(run_weft(saving({"--set", "save.memory_every=5"})), "--restarts");
  expect_line(run_weft(train({"-n", "1:2"})), "needs --restarts");
}

}  // namespace
}  // namespace weft::checkpoint_test
