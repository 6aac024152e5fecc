// Restarts: checks of numbers of ranks, during which hosts must still be served.
#include "weft/launch/restarts.h"

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <memory>

#include "tests/support/wait_until.h"
#include "weft/base/error.h"
#include "weft/launch/hosts.h"
#include "weft/launch/ranks_that_fit.h"

namespace weft::restarts_test {
namespace {

/// This host, with a count of receive() calls.
class HeardHosts : public Hosts {
 public:
  StartedRanks start(const LaunchOptions& options, const sigset_t& mask) override { return alone_->start(options, mask); }
  void add_descriptors(std::vector<pollfd>&) const override {}
  void receive() override { ++heard_; }
  std::vector<HostSignal> signals() override { return {}; }
  int capacity() const override { return 4; }
  int least_capacity() const override { return 1; }
  int gather(SignalWatch&, const std::function<std::optional<bool>(int)>& enough) override {
    while (!enough(4)) receive();
    return 0;
  }
  int heard() const { return heard_; }

 private:
  std::unique_ptr<Hosts> alone_ = this_host_alone();
  std::atomic<int> heard_ = 0;
};

TEST(Restarts, ServeTheirHostsWhileTheyCheckHowManyRanksFit) {
  HeardHosts hosts;
  std::map<int, int> asked;
  const auto fit = std::make_shared<RanksThatFit>([&](int ranks) {
    ++asked[ranks];
    const int before = hosts.heard();
    if (!wait_until([&] { return hosts.heard() > before + 1; }, 10.0)) throw Error("the hosts were not served meanwhile");
    if (ranks > 2) throw InputError("too many");
  });
  RestartOptions restarts{.limits = {.restarts = 2, .least_ranks = 0, .most_ranks = 0}, .counts_steps = false};
  restarts.limits.fits = [fit](int ranks) { return fit->ask(ranks); };
  std::vector<std::string> reported;
  restarts.report = [&](const std::string& line) { reported.push_back(line); };
  const LaunchOutcome outcome = launch_again({.command = {"false"}, .hosts = &hosts}, restarts);
  EXPECT_EQ(outcome.status, 1);
  ASSERT_FALSE(reported.empty());
  EXPECT_NE(reported.back().find("on 1 rank"), std::string::npos) << reported.back();
  EXPECT_EQ(asked, (std::map<int, int>{{1, 1}, {2, 1}, {3, 1}, {4, 1}})) << "each number once";
}

TEST(RanksThatFit, ReportWhyNot) {
  RanksThatFit fit([](int ranks) {
    if (ranks == 1) throw InputError("too few");
    if (ranks == 2) throw Error("broken");
  });
  std::optional<bool> one, three;
  EXPECT_TRUE(wait_until([&] { return (one = fit.ask(1)).has_value(); }, 10.0));
  EXPECT_TRUE(wait_until([&] { return (three = fit.ask(3)).has_value(); }, 10.0));
  EXPECT_FALSE(*one);
  EXPECT_TRUE(*three);
  EXPECT_THROW(fit.check(1), InputError);
  fit.check(3);
  EXPECT_THROW(wait_until([&] { return fit.ask(2).has_value(); }, 10.0), Error);
}

}  // namespace
}  // namespace weft::restarts_test
