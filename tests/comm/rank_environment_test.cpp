// A process's rank and meeting place, from the variables of torchrun, SLURM and MPI.
#include "weft/comm/rank_environment.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/support/environment_variables.h"
#include "tests/support/refusal.h"
#include "weft/base/error.h"

namespace weft {
namespace {

using Variables = std::vector<std::pair<std::string, std::string>>;
using test::EnvironmentVariables;

Variables with(Variables all, const Variables& more) {
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

const Variables kNode = {{"MASTER_ADDR", "node1"}, {"MASTER_PORT", "29500"}};
const Variables kTwo = with({{"RANK", "0"}, {"WORLD_SIZE", "2"}}, kNode);
/// Variables of task 1 of 2.
const Variables kTask = {{"SLURM_STEP_ID", "0"},        {"SLURM_JOB_ID", "7"},  {"SLURM_PROCID", "1"},
                         {"SLURM_STEP_NUM_TASKS", "2"}, {"SLURM_LOCALID", "0"}, {"SLURM_NODEID", "1"}};
const Variables kTwoHosts = with(kTask, {{"SLURM_STEP_NODELIST", "n[1-2]"}, {"SLURM_STEP_TASKS_PER_NODE", "1(x2)"}});
const Variables kOneHost = {
    {"SLURM_STEP_ID", "0"}, {"SLURM_JOB_ID", "7"}, {"SLURM_PROCID", "1"},         {"SLURM_STEP_NUM_TASKS", "2"},
    {"SLURM_LOCALID", "1"}, {"SLURM_NODEID", "0"}, {"SLURM_STEP_NODELIST", "n1"}, {"SLURM_STEP_TASKS_PER_NODE", "2"}};
const Variables kOpenMpi = {{"OMPI_COMM_WORLD_RANK", "3"},
                            {"OMPI_COMM_WORLD_SIZE", "4"},
                            {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                            {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                            {"PMIX_RANK", "3"},
                            {"PMIX_NAMESPACE", "1164181505"}};
const Variables kMpich = {{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}};

TEST(RankEnvironment, ReadsRankAndSize) {
  struct Case {
    std::string label;
    Variables variables;
    int rank, size, local_rank, local_size;  // -1: unknown
    bool one_host;
  };
  const Case cases[] = {
      {"torchrun", kTwo, 0, 2, -1, -1, false},
      {"SLURM", kTwoHosts, 1, 2, 0, 1, false},
      {"SLURM, one host", kOneHost, 1, 2, 1, 2, true},
      {"by hand within SLURM", with(kTwoHosts, kTwo), 0, 2, -1, -1, false},
      {"Open MPI", kOpenMpi, 3, 4, 1, 2, false},
      {"Open MPI, whose daemons srun started", with(kOpenMpi, kTwoHosts), 3, 4, 1, 2, false},
      {"MPICH", kMpich, 1, 2, 1, 2, true},
      {"MPICH, whose daemons srun started", with(kTwoHosts, {{"PMI_RANK", "5"}, {"PMI_SIZE", "8"}}), 5, 8, -1, -1, false},
      {"srun --mpi=pmi2", with(kTwoHosts, {{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}}), 1, 2, 0, 1, false},
      {"srun --mpi=pmix", with(kTwoHosts, {{"PMIX_RANK", "1"}, {"PMIX_NAMESPACE", "slurm.pmix.7.0"}}), 1, 2, 0, 1, false},
  };
  for (const Case& test : cases) {
    const EnvironmentVariables environment(test.variables);
    const auto mine = rank_environment();
    ASSERT_TRUE(mine) << test.label;
    EXPECT_EQ(mine->rank, test.rank) << test.label;
    EXPECT_EQ(mine->size, test.size) << test.label;
    EXPECT_EQ(mine->local_rank.value_or(-1), test.local_rank) << test.label;
    EXPECT_EQ(mine->local_size.value_or(-1), test.local_size) << test.label;
    EXPECT_EQ(mine->one_host, test.one_host) << test.label;
  }
  for (const Variables& none : {Variables{}, Variables{{"SLURM_JOB_ID", "7"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}}}) {
    const EnvironmentVariables environment(none);
    EXPECT_FALSE(rank_environment());
  }
}

TEST(RankEnvironment, ReadsTheRendezvous) {
  struct Case {
    Variables variables;
    Rendezvous::Server server;
    std::string host;
    int port;  // 0: derived from the job
    bool loopback;
  };
  using Server = Rendezvous::Server;
  const Case cases[] = {
      {kTwo, Server::rank_zero, "node1", 29500, false},
      {with(kTwo, {{"LOCAL_WORLD_SIZE", "1"}}), Server::rank_zero, "node1", 29500, false},
      {with(kTwo, {{"LOCAL_WORLD_SIZE", "2"}}), Server::rank_zero, "127.0.0.1", 29500, true},
      {with(kTwo, {{"MASTER_ADDR", "localhost"}}), Server::rank_zero, "127.0.0.1", 29500, true},
      {with(kTwo, {{"MASTER_ADDR", "127.0.1.1"}}), Server::rank_zero, "127.0.0.1", 29500, true},
      {with(kTwo, {{"TORCHELASTIC_USE_AGENT_STORE", "True"}, {"LOCAL_WORLD_SIZE", "2"}}), Server::agent, "node1", 29500, false},
      {with(kTwo, {{"WEFT_STORE", "127.0.0.1:4000/29500"}}), Server::launcher, "127.0.0.1", 4000, true},
      {with(kTwo, {{"WEFT_STORE", "127.0.0.1:4000/29501"}}), Server::rank_zero, "node1", 29500, false},  // an outer launcher's
      {kTwoHosts, Server::rank_zero, "n1", 0, false},
      {kOneHost, Server::rank_zero, "127.0.0.1", 0, true},
      {with(kTwoHosts, kNode), Server::rank_zero, "node1", 29500, false},
      {with(kOneHost, kNode), Server::rank_zero, "127.0.0.1", 29500, true},
      {with(kTwoHosts, {{"WEFT_PORT", "7000"}}), Server::rank_zero, "n1", 7000, false},
      {kMpich, Server::rank_zero, "127.0.0.1", 0, true},
      {with(kOpenMpi, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}}), Server::rank_zero, "127.0.0.1", 0, true},
      {with(kOpenMpi, {{"MASTER_ADDR", "n9"}}), Server::rank_zero, "n9", 0, false},
      {with(kOpenMpi, kNode), Server::rank_zero, "node1", 29500, false},
  };
  for (const Case& test : cases) {
    const EnvironmentVariables environment(test.variables);
    const Rendezvous rendezvous = rendezvous_from_environment(*rank_environment());
    const std::string label = test.variables.back().first + "=" + test.variables.back().second;
    EXPECT_EQ(rendezvous.server, test.server) << label;
    EXPECT_EQ(rendezvous.host, test.host) << label;
    EXPECT_EQ(rendezvous.loopback, test.loopback) << label;
    const bool follows = test.port == 0 && rendezvous.port >= 23000 && rendezvous.port < 32000;
    EXPECT_TRUE(follows || rendezvous.port == test.port) << label << ": " << rendezvous.port;
  }
}

TEST(RankEnvironment, ReadsTheToken) {
  const auto token = [](const Variables& variables) {
    const EnvironmentVariables environment(variables);
    return rank_environment()->token;
  };
  EXPECT_EQ(token(kTwo), "");
  EXPECT_EQ(token(kTwoHosts), "slurm 7/0.0");
  EXPECT_EQ(token(with(kTwoHosts, {{"SLURM_RESTART_COUNT", "2"}})), "slurm 7/2.0");
  EXPECT_EQ(token(kOpenMpi), "mpi 1164181505");
  EXPECT_EQ(token(with(kOpenMpi, {{"WEFT_TOKEN", "secret"}})), "secret");
}

TEST(RankEnvironment, MistakesAreNamed) {
  struct Case {
    Variables variables;
    std::string text;
  };
  const Case cases[] = {
      {{{"RANK", "0"}}, "RANK is set in the environment but WORLD_SIZE is not"},
      {{{"RANK", "2"}, {"WORLD_SIZE", "2"}}, "RANK=2 with WORLD_SIZE=2"},
      {{{"RANK", "0"}, {"WORLD_SIZE", "2"}}, "MASTER_ADDR is not set"},
      {{{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}}, "MASTER_PORT is not set"},
      {with(kTwo, {{"MASTER_PORT", "65536"}}), "MASTER_PORT=65536: not a TCP port"},
      {with(kTwo, {{"WEFT_STORE", "4000"}}), "WEFT_STORE=\"4000\""},
      {with(kTwo, {{"WEFT_STORE", "127.0.0.1:x/29500"}}), "WEFT_STORE="},
      {with(kTwo, {{"WEFT_STORE", "127.0.0.1:4000/"}}), "WEFT_STORE="},
      {{{"OMPI_COMM_WORLD_RANK", "0"}}, "OMPI_COMM_WORLD_RANK is set in the environment but OMPI_COMM_WORLD_SIZE is not"},
      {{{"PMI_SIZE", "2"}}, "PMI_SIZE is set in the environment but PMI_RANK is not"},
      {kOpenMpi, "4 ranks on several hosts, but MASTER_ADDR is not set"},
      {{{"PMIX_RANK", "1"}}, "PMIX_RANK=1 is set, but the number of ranks is unknown"},
      {with(kTwoHosts, {{"SLURM_HET_SIZE", "3"}}), "SLURM_HET_SIZE=3: "},
      {with(kTwoHosts, {{"MASTER_PORT", "0"}}), "MASTER_PORT=0: not a TCP port"},
  };
  for (const Case& test : cases) {
    const EnvironmentVariables environment(test.variables);
    const std::string text = test::refusal([] { rendezvous_from_environment(*rank_environment()); });
    EXPECT_NE(text.find(test.text), std::string::npos) << test.text << ": " << text;
  }
}

}  // namespace
}  // namespace weft
